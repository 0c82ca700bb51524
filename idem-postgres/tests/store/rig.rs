//! A store on a database of its own, whose time the test moves, and what tests say to it.

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, Fingerprints, KeyId, KeyStore as _, Maintain as _,
    Record, RecoveryPoint, Scope, StoreError, StoreErrorKind, StoredResponse,
};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Database, Postgres, postgres};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};

use super::open;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const RETENTION: Duration = Duration::from_hours(1);

pub(crate) struct Rig {
    /// What the store uses; closed before the database goes.
    pub(crate) store: PostgresStore,
    /// Connections of the test's own.
    pub(crate) direct: PgPool,
    pub(crate) database: Database,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::on(postgres(), 20, Settings::new()).await
    }

    pub(crate) async fn on(server: &Postgres, connections: u32, settings: Settings) -> Self {
        let database = server.database().await;
        let store = open(pool(&database, connections), settings);
        store.migrate().await.expect("an empty database takes the table");
        Self { store, direct: pool(&database, 4), database }
    }

    /// The same table through other connections.
    pub(crate) fn another(&self, connections: u32) -> PostgresStore {
        open(pool(&self.database, connections), Settings::new())
    }

    /// Moves every stored time into the past.
    pub(crate) async fn elapse(&self, by: Duration) {
        let sql = "UPDATE idempotency_key SET locked_at = locked_at - d, lease_until = lease_until - d,
            rerun_until = CASE WHEN isfinite(rerun_until) THEN rerun_until - d ELSE rerun_until END,
            created_at = created_at - d, ended_at = ended_at - d, expires_at = expires_at - d
            FROM (SELECT $1 * interval '1 microsecond') AS by (d)";
        let micros = i64::try_from(by.as_micros()).expect("a test's span");
        sqlx::query(sql).bind(micros).execute(&self.direct).await.expect("rows move");
    }

    /// Runs SQL of the test's own.
    pub(crate) async fn sql(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&self.direct).await.expect("the test's SQL");
    }

    pub(crate) async fn record(&self, id: &KeyId) -> Option<Record> {
        self.store.find(id).await.expect("it can be read")
    }

    pub(crate) async fn take(&self, id: &KeyId) -> Claim {
        claimed(self.store.claim(&asks(id)).await)
    }

    /// Waits until so many statements of this database wait for a lock.
    pub(crate) async fn blocked(&self, count: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'active' AND wait_event_type = 'Lock'";
        self.until(sql, count).await;
    }

    /// Asks until the answer is this number. Each look is a round trip; bounded by their number.
    pub(crate) async fn until(&self, sql: &'static str, number: i64) {
        let mut seen = -1;
        for _ in 0..20_000 {
            seen = sqlx::query_scalar(sql).fetch_one(&self.direct).await.expect("a number");
            if seen == number {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never became {number} but {seen}: {sql}");
    }
}

/// Connections made when they are needed, and not tested before each call, as in production.
pub(crate) fn pool(database: &Database, connections: u32) -> PgPool {
    pool_to(database.options(), connections)
}

pub(crate) fn pool_to(options: sqlx::postgres::PgConnectOptions, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).test_before_acquire(false).connect_lazy_with(options)
}

/// Waits until a store's only connection is back in its pool: the driver looks after it when a call has ended.
pub(crate) async fn idle(store: &PostgresStore) {
    for _ in 0..100_000 {
        if store.pool().num_idle() == 1 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the connection did not come back");
}

pub(crate) fn id(key: &str) -> KeyId {
    KeyId::new(Scope::new("tenant-1").unwrap(), key.parse().unwrap())
}

pub(crate) fn print(fill: u8) -> Fingerprints {
    let mut bytes = [fill; 33];
    bytes[0] = 1;
    Fingerprints::new(Fingerprint::from_bytes(bytes))
}

/// A request by a new caller.
pub(crate) fn asks(id: &KeyId) -> ClaimRequest {
    ClaimRequest::new(id.clone(), print(1), LEASE, RETENTION).unwrap()
}

pub(crate) fn answer() -> StoredResponse {
    StoredResponse::new(201, &b"{\"id\":1}"[..]).unwrap()
}

pub(crate) fn point(number: u64) -> RecoveryPoint {
    RecoveryPoint::new(number, "here", format!("data {number}")).unwrap()
}

pub(crate) fn claimed(outcome: Result<ClaimOutcome, StoreError>) -> Claim {
    match outcome {
        Ok(ClaimOutcome::Claimed(claim)) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.expect_err("an error").kind()
}
