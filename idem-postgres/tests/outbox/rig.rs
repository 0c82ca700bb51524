//! An outbox, and a broker that does what a test says.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::{Message, MessageId, Outgoing, PostgresStore, Publisher, Relay};
use idem_test_support::{Database, postgres};
use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction, postgres::PgPoolOptions};
use tokio::sync::Semaphore;

type Verdict = dyn Fn(&Outgoing) -> Result<(), BoxError> + Send + Sync;

/// Keeps what it acknowledged, in the order of doing so.
#[derive(Clone)]
pub(crate) struct Broker {
    log: Arc<Mutex<Vec<Outgoing>>>,
    verdict: Arc<Verdict>,
    /// Messages that came in, and those that may go on.
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self::that(|_| Ok(()))
    }

    pub(crate) fn that(verdict: impl Fn(&Outgoing) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self {
            log: Arc::default(),
            verdict: Arc::new(verdict),
            arrived: Arc::new(Semaphore::new(0)),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// One that keeps everybody waiting until `open`.
    pub(crate) fn closed() -> Self {
        Self::new().shut()
    }

    /// The same one, closed.
    pub(crate) fn shut(self) -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), ..self }
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(1_000_000);
    }

    /// Waits until a message has come in.
    pub(crate) async fn arrived(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// The ids that it acknowledged.
    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.log().iter().map(Outgoing::id).collect()
    }

    pub(crate) fn log(&self) -> Vec<Outgoing> {
        self.log.lock().unwrap().clone()
    }

    /// How often each was acknowledged.
    pub(crate) fn counts(&self) -> BTreeMap<MessageId, usize> {
        let mut counts = BTreeMap::new();
        for id in self.ids() {
            *counts.entry(id).or_default() += 1;
        }
        counts
    }
}

#[async_trait]
impl Publisher for Broker {
    async fn publish(&self, message: &Outgoing) -> Result<(), BoxError> {
        self.arrived.add_permits(1);
        self.gate.acquire().await?.forget();
        (self.verdict)(message)?;
        self.log.lock().unwrap().push(message.clone());
        Ok(())
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
    }
}

pub(crate) struct Rig {
    pub(crate) store: PostgresStore,
    /// Connections of the test's own.
    pub(crate) direct: PgPool,
    pub(crate) database: Database,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let database = postgres().database().await;
        let store = PostgresStore::new(pool(&database, 20));
        store.migrate().await.expect("an empty database takes the tables");
        Self { store, direct: pool(&database, 4), database }
    }

    pub(crate) fn relay(&self, broker: &Broker) -> Relay {
        Relay::new(self.store.clone(), broker.clone())
    }

    pub(crate) async fn add(&self, messages: Vec<Message>) -> Vec<MessageId> {
        let mut tx = self.store.pool().begin().await.unwrap();
        let ids = self.store.outbox().add_all(&mut tx, messages).await.unwrap();
        tx.commit().await.unwrap();
        ids
    }

    pub(crate) async fn begin(&self) -> Transaction<'static, Postgres> {
        self.store.pool().begin().await.unwrap()
    }

    /// Moves every time in the outbox into the past by an hour: leases are over, what waits is due.
    pub(crate) async fn elapse(&self) {
        self.sql(
            "UPDATE idempotency_key_outbox SET created_at = created_at - d, due_at = due_at - d,
             published_at = published_at - d, expires_at = expires_at - d, parked_at = parked_at - d
             FROM (SELECT interval '1 hour') AS by (d)",
        )
        .await;
    }

    pub(crate) async fn sql(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&self.direct).await.expect("the test's SQL");
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.direct).await.expect("a number")
    }

    pub(crate) async fn published(&self) -> i64 {
        self.count("SELECT count(*) FROM idempotency_key_outbox WHERE published_at IS NOT NULL").await
    }
}

pub(crate) fn pool(database: &Database, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).connect_lazy_with(database.options())
}

pub(crate) fn message(text: &str) -> Message {
    Message::new("test", "text/plain", text.to_owned()).unwrap()
}

pub(crate) fn ordered(key: &str, text: &str) -> Message {
    message(text).ordered_by(key).unwrap()
}

pub(crate) fn text(message: &Outgoing) -> String {
    String::from_utf8(message.payload().to_vec()).unwrap()
}
