//! Every statement, each with the reason it is atomic.
//!
//! A statement is one implicit transaction at whatever isolation level the database has. At READ COMMITTED a write waits
//! for the row's lock and judges the newest version; at higher levels it fails with 40001 instead, which means that
//! nothing was done, and is sent again. Those that judge a time lock first and read the clock after, since a condition
//! on a clock is not looked at again after a lock that was only held.
//!
//! `lock_timeout` is set for the statement's own transaction only: no session state, so a pooler may stand in between.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// The statements of one table.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) claim: SqlStr,
    pub(crate) look: SqlStr,
    pub(crate) take: SqlStr,
    pub(crate) wipe: SqlStr,
    pub(crate) reissue: SqlStr,
    pub(crate) renew: SqlStr,
    pub(crate) checkpoint: SqlStr,
    pub(crate) complete: SqlStr,
    pub(crate) release: SqlStr,
    pub(crate) resolve: SqlStr,
    pub(crate) sweep: SqlStr,
    pub(crate) stuck: SqlStr,
    pub(crate) find: SqlStr,
    pub(crate) fence: SqlStr,
}

impl Sql {
    /// `table` is a quoted, schema-qualified name.
    pub(crate) fn of(table: &str) -> Self {
        let sql = |template: &str| {
            let text =
                template.replace("{record}", RECORD).replace("{judge}", JUDGE).replace("{table}", table);
            AssertSqlSafe(text).into_sql_str()
        };
        Self {
            claim: sql(CLAIM),
            look: sql(LOOK),
            take: sql(TAKE),
            wipe: sql(WIPE),
            reissue: sql(REISSUE),
            renew: sql(RENEW),
            checkpoint: sql(CHECKPOINT),
            complete: sql(COMPLETE),
            release: sql(RELEASE),
            resolve: sql(RESOLVE),
            sweep: sql(SWEEP),
            stuck: sql(STUCK),
            find: sql(FIND),
            fence: sql(FENCE),
        }
    }

    /// Each with its name.
    pub(crate) fn each(&self) -> [(&'static str, &str); 14] {
        [
            ("claim", self.claim.as_str()),
            ("look", self.look.as_str()),
            ("take", self.take.as_str()),
            ("wipe", self.wipe.as_str()),
            ("reissue", self.reissue.as_str()),
            ("renew", self.renew.as_str()),
            ("checkpoint", self.checkpoint.as_str()),
            ("complete", self.complete.as_str()),
            ("release", self.release.as_str()),
            ("resolve", self.resolve.as_str()),
            ("sweep", self.sweep.as_str()),
            ("stuck", self.stuck.as_str()),
            ("find", self.find.as_str()),
            ("fence", self.fence.as_str()),
        ]
    }
}

/// What the claim table says of an existing row `k` at `t.now`, top to bottom; `$3` is the caller's attempt, `$5` its
/// fingerprints. The caller answers from it or sends the write of that row, which judges everything again.
///
/// A state that is none of ours, and a lease without an end, are neither free nor over: `impossible`.
const JUDGE: &str = "
  CASE WHEN k.status IN ('completed', 'failed') AND t.now >= k.expires_at THEN 'expired'
       WHEN k.fingerprint <> ALL ($5::bytea[]) THEN
         CASE WHEN substr(k.fingerprint, 1, 1) IN (SELECT substr(f, 1, 1) FROM unnest($5::bytea[]) f)
              THEN 'mismatch' ELSE 'not_comparable' END
       WHEN k.status = 'in_progress' AND k.attempt = $3 THEN 'mine'
       WHEN k.status = 'completed' THEN 'completed'
       WHEN k.status = 'in_progress' AND t.now < k.lease_until THEN 'live'
       WHEN k.status = 'failed' THEN 'failed'
       WHEN k.status = 'in_progress' AND t.now >= k.lease_until AND t.now < k.rerun_until THEN 'stale'
       WHEN k.status = 'in_progress' AND t.now >= k.lease_until AND t.now >= k.rerun_until THEN 'in_doubt'
       ELSE 'impossible' END AS judged,
  k.operation, k.token, k.fingerprint, k.response_code, k.response_headers, k.response_body,
  (extract(epoch FROM k.lease_until - t.now) * 1000000)::bigint AS lease_left,
  (extract(epoch FROM CASE WHEN isfinite(k.rerun_until) THEN GREATEST(k.lease_until, k.rerun_until)
                           ELSE k.lease_until END) * 1000000)::bigint AS since";

/// Rows 1, 3, 3a, 5, 6, 9 of the table in one round trip.
///
/// Atomic because the primary key decides who inserts. The second half reads with the statement's snapshot: a row that
/// was committed after it is invisible there though it stopped the insert. Then the answer is empty, and the statement
/// is sent again. A replay, a conflict and a mismatch write nothing: no transaction id, no WAL, no lock.
const CLAIM: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $8, true) AS lock_timeout, clock_timestamp() AS now),
ins AS (
  INSERT INTO {table} (scope, key, operation, attempt, token, fingerprint, status, version, checkpoint,
                       locked_at, lease_until, rerun_until, created_at, expires_at, request_route, request_data)
  SELECT $1, $2, gen_random_uuid(), $3, 1, $4, 'in_progress', 1, 0,
         now, now + $6 * interval '1 microsecond', 'infinity', now, now + ($6 + $7) * interval '1 microsecond', $9, $10
  FROM t WHERE lock_timeout IS NOT NULL
  ON CONFLICT (scope, key) DO NOTHING
  RETURNING operation, token, fingerprint)
SELECT 'new' AS judged, operation, token, fingerprint, NULL::smallint AS response_code,
  NULL::bytea AS response_headers, NULL::bytea AS response_body, NULL::bigint AS lease_left, NULL::bigint AS since
FROM ins
UNION ALL
SELECT {judge}
FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND NOT EXISTS (SELECT FROM ins)";

/// The same judgement without the insert, for when the insert waited too long for somebody else's.
const LOOK: &str = "
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT {judge}
FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND $3::uuid IS NOT NULL AND $5::bytea[] IS NOT NULL
  AND $4::bytea IS NOT NULL AND $6::bigint IS NOT NULL AND $7::bigint IS NOT NULL AND $8::text IS NOT NULL";

/// Rows 7 and 8: a further owner of the operation `$7` after the token `$8`.
///
/// Atomic because the row is locked first and every condition of its table row is judged on the locked version. What is
/// handed over is what this write saw.
const TAKE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $6, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.* FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
c AS MATERIALIZED (SELECT l.*, clock_timestamp() AS now FROM l),
j AS MATERIALIZED (
  SELECT scope, key, status, now FROM c
  WHERE operation = $7 AND token = $8 AND fingerprint = ANY ($4)
    AND (status = 'failed' AND now < expires_at
      OR status = 'in_progress' AND attempt <> $3 AND now >= lease_until AND now < rerun_until))
UPDATE {table} k
SET attempt = $3, token = k.token + 1, status = 'in_progress', version = k.version + 1, ended_at = NULL,
    locked_at = j.now, lease_until = j.now + $5 * interval '1 microsecond'
FROM j WHERE k.scope = j.scope AND k.key = j.key
RETURNING j.status AS was, k.operation, k.token, k.fingerprint, k.checkpoint, k.recovery_point, k.recovery_data";

/// Row 2: a new operation in the place of an ended one that has outlived its retention.
///
/// Atomic as [`TAKE`] is.
const WIPE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $7, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.* FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
c AS MATERIALIZED (SELECT l.*, clock_timestamp() AS now FROM l),
j AS MATERIALIZED (
  SELECT scope, key, now FROM c
  WHERE operation = $8 AND token = $9 AND status IN ('completed', 'failed') AND now >= expires_at)
UPDATE {table} k
SET operation = gen_random_uuid(), attempt = $3, token = 1, fingerprint = $4, status = 'in_progress',
    version = k.version + 1, checkpoint = 0, recovery_point = NULL, recovery_data = NULL,
    response_code = NULL, response_headers = NULL, response_body = NULL, request_route = $10, request_data = $11,
    locked_at = j.now, lease_until = j.now + $5 * interval '1 microsecond', rerun_until = 'infinity',
    created_at = j.now, ended_at = NULL, expires_at = j.now + ($5 + $6) * interval '1 microsecond'
FROM j WHERE k.scope = j.scope AND k.key = j.key
RETURNING k.operation, k.token, k.fingerprint";

/// Row 4: the caller's own claim, whose reply was lost, with its lease renewed.
///
/// A write, not a look: it waits for whatever transaction still holds the row, and what it returns is final.
const REISSUE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $6, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.* FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
j AS MATERIALIZED (
  SELECT scope, key, clock_timestamp() AS now FROM l
  WHERE operation = $7 AND token = $8 AND attempt = $3 AND fingerprint = ANY ($4) AND status = 'in_progress')
UPDATE {table} k
SET lease_until = GREATEST(k.lease_until, j.now + $5 * interval '1 microsecond'), version = k.version + 1
FROM j WHERE k.scope = j.scope AND k.key = j.key
RETURNING k.operation, k.token, k.fingerprint, k.checkpoint, k.recovery_point, k.recovery_data";

/// Pushes the lease out from the moment the row is locked; zero ends it there.
const RENEW: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $5, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.scope, k.key FROM {table} k, t
  WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND k.status = 'in_progress'
    AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
j AS MATERIALIZED (SELECT scope, key, clock_timestamp() AS now FROM l)
UPDATE {table} k
SET lease_until = CASE WHEN $6 = 0 THEN j.now ELSE GREATEST(k.lease_until, j.now + $6 * interval '1 microsecond') END,
    version = k.version + 1
FROM j WHERE k.scope = j.scope AND k.key = j.key
RETURNING 'written' AS verdict";

/// Writes a checkpoint if its number is above the last; judges a repeated mark's time on the locked row.
const CHECKPOINT: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $5, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.* FROM {table} k, t
  WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND k.status = 'in_progress'
    AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
c AS MATERIALIZED (SELECT l.*, clock_timestamp() AS now FROM l),
j AS MATERIALIZED (
  SELECT scope, key, now,
    CASE WHEN $9 = 'again' AND now >= rerun_until THEN 'too_late'
         WHEN checkpoint = $6 AND recovery_point = $7 AND recovery_data = $8 THEN 'same'
         WHEN checkpoint >= $6 THEN 'used'
         ELSE 'written' END AS verdict
  FROM c),
u AS (
  UPDATE {table} k
  SET checkpoint = $6, recovery_point = $7, recovery_data = $8, version = k.version + 1,
      rerun_until = CASE $9 WHEN 'always' THEN 'infinity' WHEN 'never' THEN '-infinity'
        WHEN 'until' THEN LEAST(k.rerun_until, j.now + $10 * interval '1 microsecond') ELSE k.rerun_until END
  FROM j WHERE k.scope = j.scope AND k.key = j.key AND j.verdict = 'written')
SELECT verdict FROM j";

/// Ends with an answer. A second one with the same fence finds `completed` and writes nothing.
///
/// Atomic because the fence and the state are conditions of the one UPDATE, and are judged again on the newest version
/// after a wait. If it wrote nothing, the rest says why, from the snapshot: `in_progress` there means that the row
/// changed while the statement waited, and it is sent again. The clock is read once, so that it is kept for exactly as
/// long as was asked for after it ended. It is read before the wait for a row that somebody holds: the end may lie up to
/// `lock_timeout` before its commit. Locking first would cost every completion a second write of the row.
const COMPLETE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $5, true) AS lock_timeout, clock_timestamp() AS now),
u AS (
  UPDATE {table} k
  SET status = 'completed', response_code = $6, response_headers = $7, response_body = $8, version = k.version + 1,
      request_route = NULL, request_data = NULL,
      ended_at = t.now, expires_at = GREATEST(k.expires_at, t.now + $9 * interval '1 microsecond')
  FROM t
  WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND k.status = 'in_progress'
    AND t.lock_timeout IS NOT NULL
  RETURNING k.token)
SELECT 'written' AS verdict FROM u
UNION ALL
SELECT k.status FROM {table} k
WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND NOT EXISTS (SELECT FROM u)";

/// Ends because it may be tried again, unless an effect is open. Atomic as [`COMPLETE`] is.
const RELEASE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $5, true) AS lock_timeout, clock_timestamp() AS now),
u AS (
  UPDATE {table} k
  SET status = 'failed', version = k.version + 1,
      ended_at = t.now, expires_at = GREATEST(k.expires_at, t.now + $6 * interval '1 microsecond')
  FROM t
  WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND k.status = 'in_progress'
    AND k.rerun_until = 'infinity' AND t.lock_timeout IS NOT NULL
  RETURNING k.token)
SELECT 'written' AS verdict FROM u
UNION ALL
SELECT CASE WHEN k.status = 'in_progress' AND k.rerun_until <> 'infinity' THEN 'open' ELSE k.status END FROM {table} k
WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND NOT EXISTS (SELECT FROM u)";

/// The first statement of a transaction in which the operation comes on or ends.
///
/// It holds the row under the fence to the end of the transaction: whoever would take the key over waits for that, and a
/// transaction of an owner that was left behind finds no row and is rolled back before it has written anything. It is a lock
/// and no write, since another claim's insert would wait for a write, and finds this row at once.
///
/// An owner that is paused in the middle holds the row no longer than its lease: the server then ends the transaction. What
/// it did to `lock_timeout` for its own wait is undone, for the statements that follow.
///
/// At another isolation level than READ COMMITTED a row may look as it did before this transaction waited for it; then nothing
/// is locked.
const FENCE: &str = "
WITH t AS MATERIALIZED (
  SELECT current_setting('transaction_isolation') AS isolation, current_setting('lock_timeout') AS before,
    set_config('lock_timeout', $5, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.lease_until FROM {table} k, t
  WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3 AND k.token = $4 AND k.status = 'in_progress'
    AND t.isolation = 'read committed' AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
h AS MATERIALIZED (SELECT max(lease_until) AS lease_until FROM l)
SELECT t.isolation = 'read committed' AS read_committed, h.lease_until IS NOT NULL AS held,
  set_config('lock_timeout', t.before, true) AS lock_timeout,
  CASE WHEN h.lease_until IS NOT NULL THEN set_config('idle_in_transaction_session_timeout',
    GREATEST(1, ceil(extract(epoch FROM h.lease_until - clock_timestamp()) * 1000))::bigint::text, true) END AS idle_timeout
FROM t, h";

/// Settles what is in doubt, if operation, version and doubt are on the locked row as they were seen.
///
/// The row that this very decision left is recognised, so that a lost reply can be settled.
const RESOLVE: &str = "
WITH t AS MATERIALIZED (SELECT set_config('lock_timeout', $5, true) AS lock_timeout),
l AS MATERIALIZED (
  SELECT k.* FROM {table} k, t WHERE k.scope = $1 AND k.key = $2 AND k.operation = $3
    AND t.lock_timeout IS NOT NULL FOR NO KEY UPDATE OF k),
c AS MATERIALIZED (SELECT l.*, clock_timestamp() AS now FROM l),
j AS MATERIALIZED (
  SELECT scope, key, now,
    CASE WHEN version = $6 + 1 AND token = $4 + 1
          AND CASE $7 WHEN 'completed' THEN status = 'completed' AND response_code = $10 AND response_headers = $11
                        AND response_body = $12
                      WHEN 'failed' THEN status = 'failed' AND recovery_point IS NULL
                      ELSE status = 'in_progress' AND checkpoint = $13 AND recovery_point = $14
                        AND recovery_data = $15 END THEN 'same'
         WHEN version = $6 AND status = 'in_progress' AND now >= lease_until AND now >= rerun_until THEN 'written'
         ELSE 'lost' END AS verdict
  FROM c),
u AS (
  UPDATE {table} k
  SET token = k.token + 1, attempt = $8, version = k.version + 1, rerun_until = 'infinity', status = $7,
      ended_at = CASE WHEN $7 <> 'in_progress' THEN j.now END,
      expires_at = CASE WHEN $7 <> 'in_progress' THEN GREATEST(k.expires_at, j.now + $9 * interval '1 microsecond')
                        ELSE k.expires_at END,
      response_code = $10, response_headers = $11, response_body = $12,
      checkpoint = CASE $7 WHEN 'in_progress' THEN $13 ELSE k.checkpoint END,
      recovery_point = CASE $7 WHEN 'completed' THEN k.recovery_point ELSE $14 END,
      recovery_data = CASE $7 WHEN 'completed' THEN k.recovery_data ELSE $15 END,
      request_route = CASE WHEN $7 <> 'completed' THEN k.request_route END,
      request_data = CASE WHEN $7 <> 'completed' THEN k.request_data END
  FROM j WHERE k.scope = j.scope AND k.key = j.key AND j.verdict = 'written')
SELECT verdict FROM j";

/// Deletes at most `$1` ended and expired rows, oldest first.
///
/// The picking select locks what it picks and passes over what others hold, so the condition still holds when the row
/// goes; the DELETE repeats it all the same. It is materialized, since a planner may run a sub-select once for each row that
/// it joins, and every run would lock and pick further rows. The clock is read once, by a sub-select that the index can use.
const SWEEP: &str = "
WITH p AS MATERIALIZED (
  SELECT scope, key FROM {table}
  WHERE status IN ('completed', 'failed') AND expires_at <= (SELECT clock_timestamp())
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED),
d AS (
  DELETE FROM {table} k USING p WHERE k.scope = p.scope AND k.key = p.key
    AND k.status IN ('completed', 'failed') AND k.expires_at <= clock_timestamp()
  RETURNING 1)
SELECT count(*) AS swept FROM d";

/// Rows in progress past their lease, longest first. Reads the whole table: no index may hold what every renewal changes.
const STUCK: &str = "
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT {record},
  (extract(epoch FROM t.now - k.lease_until) * 1000000)::bigint AS stuck_for, t.now >= k.rerun_until AS in_doubt
FROM {table} k, t WHERE k.status = 'in_progress' AND k.lease_until <= t.now ORDER BY k.lease_until LIMIT $1";

/// One row as it is.
const FIND: &str = "SELECT {record} FROM {table} k WHERE k.scope = $1 AND k.key = $2";

/// Every column, times as microseconds since 1970; an infinite `rerun_until` as its sign.
const RECORD: &str = "
  k.scope, k.key, k.operation, k.attempt, k.token, k.fingerprint, k.status, k.version, k.checkpoint,
  (extract(epoch FROM k.locked_at) * 1000000)::bigint AS locked_at,
  (extract(epoch FROM k.lease_until) * 1000000)::bigint AS lease_until,
  CASE WHEN isfinite(k.rerun_until) THEN (extract(epoch FROM k.rerun_until) * 1000000)::bigint END AS rerun_until,
  k.rerun_until = 'infinity' AS rerun_always,
  k.recovery_point, k.recovery_data, k.response_code, k.response_headers, k.response_body,
  k.request_route, k.request_data,
  (extract(epoch FROM k.created_at) * 1000000)::bigint AS created_at,
  (extract(epoch FROM k.ended_at) * 1000000)::bigint AS ended_at,
  (extract(epoch FROM k.expires_at) * 1000000)::bigint AS expires_at";

#[cfg(test)]
mod tests;
