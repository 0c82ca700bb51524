//! A store on a database of its own, whose time the test moves.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    reason = "each test binary uses another part of this module"
)]

use std::time::Duration;

use idem_postgres::PostgresStore;
use idem_test_support::{Database, postgres};

pub struct Rig {
    pub database: Database,
    pub store: PostgresStore,
}

impl Rig {
    pub async fn new() -> Self {
        let database = postgres().database().await;
        let store = PostgresStore::new(database.pool(20).await);
        store.migrate().await.expect("an empty database takes the table");
        Self { database, store }
    }

    /// The same table through other connections.
    pub async fn another(&self) -> PostgresStore {
        PostgresStore::new(self.database.pool(4).await)
    }

    /// Moves every stored time into the past.
    pub async fn elapse(&self, by: Duration) {
        let sql = "UPDATE idempotency_key SET locked_at = locked_at - d, lease_until = lease_until - d,
            rerun_until = CASE WHEN isfinite(rerun_until) THEN rerun_until - d ELSE rerun_until END,
            created_at = created_at - d, ended_at = ended_at - d, expires_at = expires_at - d
            FROM (SELECT $1 * interval '1 microsecond') AS by (d)";
        let micros = i64::try_from(by.as_micros()).expect("a test's span");
        sqlx::query(sql).bind(micros).execute(self.store.pool()).await.expect("rows move");
    }
}
