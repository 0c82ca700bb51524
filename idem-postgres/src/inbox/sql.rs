//! The inbox's statements, each with the reason it is atomic.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// The statements of one inbox.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) once: SqlStr,
    pub(crate) sweep: SqlStr,
}

impl Sql {
    /// `inbox` is a quoted, schema-qualified name.
    pub(crate) fn of(inbox: &str) -> Self {
        let sql = |template: &str| AssertSqlSafe(template.replace("{inbox}", inbox)).into_sql_str();
        Self { once: sql(ONCE), sweep: sql(SWEEP) }
    }

    /// Each with its name.
    pub(crate) fn each(&self) -> [(&'static str, &str); 2] {
        [("inbox_once", self.once.as_str()), ("inbox_sweep", self.sweep.as_str())]
    }
}

/// Notes the events `$2` for the consumer `$1`, and returns those that were not there.
///
/// Atomic because the primary key decides who inserts: a row that another transaction has inserted and not committed is waited
/// for, and then it is there, or free. At READ COMMITTED no row comes back for what is there; at a higher level a row that
/// was committed after the transaction's snapshot is a 40001. The rows are inserted in the order that is given, which is
/// the same for everybody, so that no two batches wait for each other.
///
/// It runs in somebody else's transaction, so the lock timeout is put back as it was found; what ends in an error is put back
/// with the transaction or the savepoint. `was` is read first, since `t` reads from it, and `n` is complete before
/// the last line puts it back.
const ONCE: &str = "
WITH was AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout),
t AS MATERIALIZED (
  SELECT set_config('lock_timeout', $4, true) AS lock_timeout, clock_timestamp() AS now
  FROM was WHERE was.lock_timeout IS NOT NULL),
ins AS (
  INSERT INTO {inbox} (consumer, event, received_at, expires_at)
  SELECT $1, e.event, t.now, t.now + $3 * interval '1 microsecond'
  FROM t, unnest($2::text[]) WITH ORDINALITY AS e (event, place)
  WHERE t.lock_timeout IS NOT NULL
  ORDER BY e.place
  ON CONFLICT (consumer, event) DO NOTHING
  RETURNING event),
n AS MATERIALIZED (SELECT coalesce(array_agg(event), ARRAY[]::text[]) AS fresh FROM ins)
SELECT n.fresh, set_config('lock_timeout', was.lock_timeout, true) AS lock_timeout FROM n, was";

/// Deletes at most `$1` expired rows, oldest first.
///
/// Atomic as the sweep of the keys is: what is picked is locked, what others hold is passed over, and the DELETE judges again,
/// so that it takes no row which came in the place of one that was picked.
const SWEEP: &str = "
WITH p AS MATERIALIZED (
  SELECT consumer, event FROM {inbox}
  WHERE expires_at <= (SELECT clock_timestamp())
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED),
d AS (
  DELETE FROM {inbox} i USING p
  WHERE i.consumer = p.consumer AND i.event = p.event AND i.expires_at <= clock_timestamp()
  RETURNING 1)
SELECT count(*) AS swept FROM d";
