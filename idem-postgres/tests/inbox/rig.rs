//! A consumer with an effect that nothing but its inbox keeps from happening twice.

use std::time::Duration;

use idem_core::{Error, ErrorKind};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Database, postgres};
use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction, postgres::PgPoolOptions};

pub(crate) const LEDGER: &str = "ledger";
pub(crate) const RETENTION: Duration = Duration::from_hours(1);

pub(crate) struct Rig {
    pub(crate) store: PostgresStore,
    /// Connections of the test's own.
    pub(crate) direct: PgPool,
    pub(crate) database: Database,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::new().inbox_retention(RETENTION).unwrap()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let database = postgres().database().await;
        let store = PostgresStore::with(pool(&database, 18), settings);
        store.migrate().await.expect("an empty database takes the tables");
        let rig = Self { store, direct: pool(&database, 4), database };
        rig.sql("CREATE TABLE effect (consumer text NOT NULL, event text NOT NULL)").await;
        rig
    }

    pub(crate) async fn begin(&self) -> Transaction<'static, Postgres> {
        self.store.pool().begin().await.expect("a transaction")
    }

    pub(crate) async fn once(&self, tx: &mut Transaction<'_, Postgres>, event: &str) -> Result<bool, Error> {
        self.store.inbox().once(tx, LEDGER, event).await
    }

    /// One whole delivery to the ledger: asked, done if it is the first one, committed.
    pub(crate) async fn deliver(&self, event: &str) -> Result<bool, Error> {
        deliver(&self.store, LEDGER, event).await
    }

    /// How often the event has had its effect.
    pub(crate) async fn effects(&self, event: &str) -> i64 {
        let sql = "SELECT count(*) FROM effect WHERE event = $1";
        sqlx::query_scalar(sql).bind(event).fetch_one(&self.direct).await.expect("a number")
    }

    /// Moves every marker's times into the past.
    pub(crate) async fn age(&self, by: Duration) {
        let sql =
            "UPDATE idempotency_key_inbox SET received_at = received_at - d, expires_at = expires_at - d
            FROM (SELECT $1 * interval '1 microsecond') AS by (d)";
        let micros = i64::try_from(by.as_micros()).expect("a test's span");
        sqlx::query(sql).bind(micros).execute(&self.direct).await.expect("rows move");
    }

    /// Runs SQL of the test's own.
    pub(crate) async fn sql(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&self.direct).await.expect("the test's SQL");
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.direct).await.expect("a number")
    }

    /// Waits until so many statements of this database wait for a lock. Each look is a round trip; bounded by their number.
    pub(crate) async fn blocked(&self, count: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'active' AND wait_event_type = 'Lock'";
        for _ in 0..20_000 {
            if self.count(sql).await == count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never became {count} that wait");
    }
}

pub(crate) fn pool(database: &Database, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).connect_lazy_with(database.options())
}

pub(crate) async fn deliver(store: &PostgresStore, consumer: &str, event: &str) -> Result<bool, Error> {
    let mut tx = store.pool().begin().await.expect("a transaction");
    let first = store.inbox().once(&mut tx, consumer, event).await?;
    if first {
        act(&mut tx, consumer, event).await;
    }
    tx.commit().await.expect("it commits");
    Ok(first)
}

/// The effect.
pub(crate) async fn act(tx: &mut Transaction<'_, Postgres>, consumer: &str, event: &str) {
    let sql = "INSERT INTO effect (consumer, event) VALUES ($1, $2)";
    sqlx::query(sql).bind(consumer).bind(event).execute(&mut **tx).await.expect("the effect");
}

pub(crate) fn kind(answer: &Result<bool, Error>) -> Option<ErrorKind> {
    answer.as_ref().err().map(Error::kind)
}
