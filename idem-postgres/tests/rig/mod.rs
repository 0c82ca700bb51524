//! A store on a database of its own, whose time the test moves.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    reason = "each test binary uses another part of this module"
)]

pub mod acts;
pub mod calls;

use std::time::Duration;

use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Database, postgres};
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use tokio::time::timeout;

pub struct Rig {
    pub database: Database,
    pub store: PostgresStore,
}

impl Rig {
    pub async fn new() -> Self {
        Self::on(postgres().database().await).await
    }

    /// On an empty database of yours.
    pub async fn on(database: Database) -> Self {
        let store = PostgresStore::with(database.pool(20).await, settings());
        store.migrate().await.expect("an empty database takes the table");
        Self { database, store }
    }

    /// The same table through other connections.
    pub async fn another(&self) -> PostgresStore {
        PostgresStore::with(self.database.pool(4).await, settings())
    }

    /// Moves every stored time into the past.
    pub async fn elapse(&self, by: Duration) {
        // In one message, so that a pooler may be in between.
        let sql = format!(
            "UPDATE idempotency_key SET locked_at = locked_at - d, lease_until = lease_until - d,
             rerun_until = CASE WHEN isfinite(rerun_until) THEN rerun_until - d ELSE rerun_until END,
             created_at = created_at - d, ended_at = ended_at - d, expires_at = expires_at - d
             FROM (SELECT {} * interval '1 microsecond') AS by (d)",
            by.as_micros()
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.store.pool()).await.expect("rows move");
    }
}

/// As `tests/pgbouncer.sh` asks.
fn settings() -> Settings {
    let unnamed = std::env::var("IDEM_TEST_UNNAMED_STATEMENTS").is_ok_and(|value| !value.is_empty());
    if unnamed { Settings::new().unnamed_statements() } else { Settings::new() }
}

/// Waits until the server says that `condition` is true.
///
/// # Panics
/// After 30 seconds in which it was not.
pub async fn until(pool: &PgPool, condition: &str) {
    let asked = async {
        loop {
            let sql = AssertSqlSafe(format!("SELECT coalesce({condition}, false), pg_sleep(0.005)"));
            let row = sqlx::query(sql).fetch_one(pool).await.expect("the server answers");
            if row.get(0) {
                return;
            }
        }
    };
    let came_true = timeout(Duration::from_secs(30), asked).await;
    assert!(came_true.is_ok(), "not within 30 s: {condition}");
}
