//! A Postgres of our own that syncs what it commits, on a disk.

use std::sync::Arc;

use async_trait::async_trait;
use idem::{KeyStore as _, Maintain, PostgresStore};
use idem_test_support::{Database, Postgres as Server};
use sqlx::postgres::PgPoolOptions;

use crate::{
    place::{Place, RETENTION, answer, claim, fresh_id, request},
    strain::RACERS,
};

/// Makes copies of the one record that is there, which outlived their retention by up to an hour, and forgets it.
const OUTLIVED: &str = "
    WITH one AS (DELETE FROM idempotency_key RETURNING *)
    INSERT INTO idempotency_key (scope, key, operation, attempt, token, fingerprint, status, version, checkpoint,
        locked_at, lease_until, rerun_until, response_code, response_headers, response_body,
        created_at, ended_at, expires_at)
    SELECT scope, md5(n::text), gen_random_uuid(), attempt, token, fingerprint, status, version, checkpoint,
        locked_at, lease_until, rerun_until, response_code, response_headers, response_body,
        created_at, ended_at, clock_timestamp() - random() * interval '1 hour'
    FROM one, generate_series(1, $1::int) n";

pub(crate) struct Postgres {
    store: PostgresStore,
    // Dropped from top to bottom: a server outlives its databases.
    _database: Database,
    _server: Server,
}

impl Postgres {
    pub(crate) async fn start() -> Self {
        let server = Server::builder().setting("fsync", "on").start().await;
        let database = server.database().await;
        let pool = PgPoolOptions::new().max_connections(RACERS).min_connections(RACERS);
        let pool = pool.test_before_acquire(false).connect_with(database.options()).await.expect("a pool");
        let store = PostgresStore::new(pool);
        store.migrate().await.expect("a table");
        Self { store, _database: database, _server: server }
    }
}

#[async_trait]
impl Place for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn empty(&self) -> Arc<dyn Maintain> {
        sqlx::raw_sql("TRUNCATE idempotency_key").execute(self.store.pool()).await.expect("an empty table");
        Arc::new(self.store.clone())
    }

    async fn outlived(&self, records: u32) -> Arc<dyn Maintain> {
        let store = self.empty().await;
        let one = claim(&store, &request(fresh_id())).await;
        store.complete(&one, &answer(), RETENTION).await.expect("an end");
        let pool = self.store.pool();
        let records = i32::try_from(records).expect("a number of records");
        sqlx::query(OUTLIVED).bind(records).execute(pool).await.expect("copies");
        // As autovacuum would have by the time that they outlived anything.
        sqlx::raw_sql("VACUUM ANALYZE idempotency_key").execute(pool).await.expect("a table in order");
        store
    }
}
