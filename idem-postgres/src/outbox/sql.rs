//! The outbox's statements, each with the reason it is atomic.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// The statements of one outbox.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) add: SqlStr,
    pub(crate) claim: SqlStr,
    pub(crate) mark: SqlStr,
    pub(crate) remove: SqlStr,
    pub(crate) fail: SqlStr,
    pub(crate) give_back: SqlStr,
    pub(crate) parked: SqlStr,
    pub(crate) again: SqlStr,
    pub(crate) depth: SqlStr,
    pub(crate) sweep: SqlStr,
}

impl Sql {
    /// `outbox` is a quoted, schema-qualified name.
    pub(crate) fn of(outbox: &str) -> Self {
        let sql = |template: &str| AssertSqlSafe(template.replace("{outbox}", outbox)).into_sql_str();
        Self {
            add: sql(ADD),
            claim: sql(CLAIM),
            mark: sql(MARK),
            remove: sql(REMOVE),
            fail: sql(FAIL),
            give_back: sql(GIVE_BACK),
            parked: sql(PARKED),
            again: sql(AGAIN),
            depth: sql(DEPTH),
            sweep: sql(SWEEP),
        }
    }

    /// Each with its name.
    pub(crate) fn each(&self) -> [(&'static str, &str); 10] {
        [
            ("outbox_add", self.add.as_str()),
            ("outbox_claim", self.claim.as_str()),
            ("outbox_mark", self.mark.as_str()),
            ("outbox_remove", self.remove.as_str()),
            ("outbox_fail", self.fail.as_str()),
            ("outbox_give_back", self.give_back.as_str()),
            ("outbox_parked", self.parked.as_str()),
            ("outbox_again", self.again.as_str()),
            ("outbox_depth", self.depth.as_str()),
            ("outbox_sweep", self.sweep.as_str()),
        ]
    }
}

/// Adds messages, in the order given.
///
/// In the caller's transaction: they are there if and only if what else it writes is. One whose id is there already is the same
/// message, of a transaction that is done over, and stays as it is.
const ADD: &str = "
INSERT INTO {outbox} (id, operation, topic, order_key, content_type, headers, payload, created_at, due_at)
SELECT m.id, $2, m.topic, m.order_key, m.content_type, m.headers, m.payload, clock_timestamp(), clock_timestamp()
FROM unnest($1::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[])
  WITH ORDINALITY AS m (id, topic, order_key, content_type, headers, payload, place)
ORDER BY m.place
ON CONFLICT (id) DO NOTHING";

/// Claims at most `$3` messages that are due, for the span `$2`, under the token `$1`, but none of the order keys `$5`.
///
/// Atomic because what is picked is locked and judged on its newest version, and what others hold is passed over. There is no
/// cursor: whatever is committed, however late and with whatever number, is due until it is marked.
///
/// An ordered message is picked only where nothing earlier of its key comes due after it, so the first of a key is picked before
/// those behind it, and is claimed. It is claimed only where everything earlier of its key that is not published was
/// picked with it: a row that somebody else holds, or took since the snapshot, stands in the way. What was picked and not claimed is
/// answered without its content, and its key is the caller's to leave out, so that it takes no room from others. What is
/// parked stands in the way too, unless `$4`. `p` is materialized, since it locks.
const CLAIM: &str = "
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
p AS MATERIALIZED (
  SELECT m.id, m.order_key, m.seq FROM {outbox} m
  WHERE m.published_at IS NULL AND m.parked_at IS NULL AND m.due_at <= (SELECT now FROM t)
    AND (m.order_key IS NULL OR m.order_key <> ALL ($5::text[]) AND NOT EXISTS (
      SELECT FROM {outbox} e WHERE e.order_key = m.order_key AND e.seq < m.seq AND e.published_at IS NULL
        AND CASE WHEN e.parked_at IS NULL THEN e.due_at > m.due_at ELSE NOT $4 END))
  ORDER BY m.due_at, m.seq LIMIT $3 FOR UPDATE OF m SKIP LOCKED),
f AS MATERIALIZED (
  SELECT p.id FROM p
  WHERE p.order_key IS NULL OR NOT EXISTS (
    SELECT FROM {outbox} e WHERE e.order_key = p.order_key AND e.seq < p.seq AND e.published_at IS NULL
      AND (e.parked_at IS NULL OR NOT $4) AND e.id NOT IN (SELECT id FROM p))),
u AS (
  UPDATE {outbox} m
  SET token = $1, tries = m.tries + 1, due_at = clock_timestamp() + $2 * interval '1 microsecond'
  FROM f WHERE m.id = f.id
  RETURNING m.id, m.topic, m.content_type, m.headers, m.payload, m.tries)
SELECT p.id, p.order_key, u.id IS NOT NULL AS claimed, u.topic, u.content_type, u.headers, u.payload, u.tries
FROM p LEFT JOIN u ON u.id = p.id ORDER BY p.seq";

/// Marks exactly the messages `$2` as published, where the claim `$1` still has them, to be kept for the span `$3`.
///
/// Atomic because the token is a condition of the one UPDATE: a relay whose lease was over and taken up by another marks nothing.
const MARK: &str = "
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
u AS (
  UPDATE {outbox} m
  SET published_at = t.now, expires_at = t.now + $3 * interval '1 microsecond', token = NULL, error = NULL
  FROM t WHERE m.id = ANY ($2::uuid[]) AND m.token = $1
  RETURNING 1)
SELECT count(*) AS settled, 0::bigint AS parked FROM u";

/// As [`MARK`], where nothing is kept.
const REMOVE: &str = "
WITH d AS (DELETE FROM {outbox} WHERE id = ANY ($2::uuid[]) AND token = $1 RETURNING 1)
SELECT count(*) AS settled, 0::bigint AS parked FROM d";

/// Has the messages `$2` tried again later, with the errors `$3`, or parks them after `$4` tries. Fenced as [`MARK`] is.
///
/// The pause is `$5` after the first try, doubles with each, and is `$6` at most.
const FAIL: &str = "
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
u AS (
  UPDATE {outbox} m
  SET token = NULL, error = f.error, parked_at = CASE WHEN m.tries >= $4 THEN t.now END,
      due_at = t.now + LEAST($5::float8 * 2 ^ LEAST(m.tries - 1, 40), $6::float8) * interval '1 microsecond'
  FROM t, unnest($2::uuid[], $3::text[]) AS f (id, error)
  WHERE m.id = f.id AND m.token = $1
  RETURNING m.parked_at)
SELECT count(*) AS settled, count(parked_at) AS parked FROM u";

/// Gives back the messages `$2`, which were claimed and not tried. Fenced as [`MARK`] is.
const GIVE_BACK: &str = "
WITH u AS (
  UPDATE {outbox} SET token = NULL, tries = tries - 1, due_at = clock_timestamp()
  WHERE id = ANY ($2::uuid[]) AND token = $1
  RETURNING 1)
SELECT count(*) AS settled, 0::bigint AS parked FROM u";

/// At most `$1` parked messages, the longest parked first.
const PARKED: &str = "
SELECT id, topic, operation, tries, coalesce(error, '') AS error,
  (extract(epoch FROM clock_timestamp() - parked_at) * 1000000)::bigint AS parked_for
FROM {outbox} WHERE parked_at IS NOT NULL ORDER BY parked_at LIMIT $1";

/// Has the message `$1` published, whether it is parked, waits for a later time, or is published and still there. One that is
/// just being published, as far as its claim says, stays as it is.
const AGAIN: &str = "
WITH u AS (
  UPDATE {outbox}
  SET published_at = NULL, expires_at = NULL, parked_at = NULL, tries = 0, error = NULL, due_at = clock_timestamp()
  WHERE id = $1 AND token IS NULL)
SELECT EXISTS (SELECT FROM {outbox} WHERE id = $1) AS is_there";

/// How many wait and how many are parked, each counted up to `$1`, and the age of the oldest that waits.
const DEPTH: &str = "
SELECT
  (SELECT count(*) FROM (
    SELECT FROM {outbox} WHERE published_at IS NULL AND parked_at IS NULL LIMIT $1) w) AS waiting,
  (SELECT count(*) FROM (SELECT FROM {outbox} WHERE parked_at IS NOT NULL LIMIT $1) p) AS parked,
  coalesce((extract(epoch FROM clock_timestamp() - (
    SELECT min(created_at) FROM {outbox} WHERE published_at IS NULL AND parked_at IS NULL)) * 1000000)::bigint, 0)
    AS oldest";

/// Deletes at most `$1` published messages that outlived their retention, oldest first; what waits or is parked has none.
///
/// Atomic as the sweep of the keys is: what is picked is locked, what others hold is passed over, and the DELETE judges again,
/// since a message may have been asked for again.
const SWEEP: &str = "
WITH p AS MATERIALIZED (
  SELECT id FROM {outbox}
  WHERE published_at IS NOT NULL AND expires_at <= (SELECT clock_timestamp())
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED),
d AS (
  DELETE FROM {outbox} m USING p
  WHERE m.id = p.id AND m.published_at IS NOT NULL AND m.expires_at <= clock_timestamp()
  RETURNING 1)
SELECT count(*) AS swept FROM d";
