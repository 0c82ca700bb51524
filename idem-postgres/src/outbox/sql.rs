//! The outbox's statements, each with the reason it is atomic.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// The statements of one outbox.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) add: SqlStr,
}

impl Sql {
    /// `outbox` is a quoted, schema-qualified name.
    pub(crate) fn of(outbox: &str) -> Self {
        let sql = |template: &str| AssertSqlSafe(template.replace("{outbox}", outbox)).into_sql_str();
        Self { add: sql(ADD) }
    }

    /// Each with its name.
    pub(crate) fn each(&self) -> [(&'static str, &str); 1] {
        [("outbox_add", self.add.as_str())]
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
