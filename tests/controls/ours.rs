//! The same requests through the engine, on every store.

use std::time::Duration;

use async_trait::async_trait;
use idem::{
    Answer, Engine, Fingerprint, KeyId, ManualClock, MemoryStore, Operation, Policy, PostgresStore, Scope,
    StoredResponse,
};

use idem_test_support::{Database, postgres};

use crate::gateway::Gateway;

/// Where the records are, apart from the processes that use them.
#[async_trait]
pub(crate) trait Place: Send + Sync + 'static {
    /// An engine as a process with one connection has it.
    async fn open(&self) -> Engine;
    /// Time passes.
    async fn elapse(&self, by: Duration);
}

/// One process's memory, outliving the runtimes in it.
pub(crate) struct Memory {
    clock: ManualClock,
    store: MemoryStore,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }
}

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Engine {
        Engine::new(self.store.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// A database of its own.
pub(crate) struct InPostgres {
    database: Database,
}

impl InPostgres {
    pub(crate) async fn new() -> Self {
        let database = postgres().database().await;
        let store = PostgresStore::new(database.pool(1).await);
        store.migrate().await.expect("an empty database takes the table");
        Self { database }
    }
}

#[async_trait]
impl Place for InPostgres {
    async fn open(&self) -> Engine {
        Engine::new(PostgresStore::new(self.database.pool(1).await))
    }

    async fn elapse(&self, by: Duration) {
        // What the crash left is one claim; its lease is all that time matters to.
        let sql = "UPDATE idempotency_key SET lease_until = lease_until - $1 * interval '1 second'";
        let moved = sqlx::query(sql).bind(by.as_secs_f64()).execute(&self.database.pool(1).await).await;
        assert_eq!(moved.expect("the row moves").rows_affected(), 1);
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    /// 201 from the run itself.
    Created,
    /// 201 from the record.
    Replayed,
    /// 409, come back later.
    InProgress,
    /// 409, a person or a reconciler decides.
    InDoubt,
}

/// `POST /charges` by user 7.
///
/// # Panics
///
/// Where a client would be told anything else, a 500 above all.
pub(crate) async fn charge(
    engine: Engine,
    policy: Policy,
    gateway: Gateway,
    provider_key: Option<&'static str>,
) -> Told {
    let id = KeyId::new(Scope::new(7).expect("a scope"), "a3f7b9d1".parse().expect("a key"));
    let same = Fingerprint::of("POST /charges").json_body(br#"{"amount":1000}"#).finish();
    let work = async move |op: Operation| {
        gateway.charge(provider_key).await;
        op.complete(StoredResponse::new(201, "created")?).await
    };
    let created = StoredResponse::new(201, "created").expect("an answer");
    match engine.run(id, same, &policy, work).await {
        Ok(Answer::Executed(answer)) if answer == created => Told::Created,
        Ok(Answer::Replayed(answer)) if answer == created => Told::Replayed,
        Ok(Answer::InProgress { .. }) => Told::InProgress,
        Ok(Answer::InDoubt { .. }) => Told::InDoubt,
        other => panic!("{other:?}"),
    }
}
