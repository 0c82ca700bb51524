//! The outbox of the store, its relay, and phases that emit.

use std::time::Duration;

use async_trait::async_trait;
use idem::{
    Answer, BoxError, Engine, Fingerprint, KeyId, Message, Operation, Outgoing, Policy, PostgresStore,
    Publisher, Relay, Scope, StoredResponse,
};
use idem_test_support::{Database, Proxy};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{BATCH, IN_FLIGHT, Way};

pub(crate) struct Ours {
    store: PostgresStore,
    engine: Engine,
}

impl Ours {
    pub(crate) async fn new(pool: &PgPool) -> Self {
        let store = PostgresStore::new(pool.clone());
        store.migrate().await.expect("tables");
        let note = "CREATE TABLE IF NOT EXISTS note (id bigserial PRIMARY KEY)";
        sqlx::raw_sql(note).execute(pool).await.expect("a table");
        Self { engine: Engine::new(store.clone()), store }
    }

    /// An operation that ends in a transaction with so many messages, each by itself.
    pub(crate) async fn phase(&self, messages: usize) {
        self.run(messages, 0).await;
    }

    async fn run(&self, singly: usize, at_once: usize) {
        let id = KeyId::new(
            Scope::new("bench").expect("a scope"),
            Uuid::new_v4().to_string().parse().expect("a key"),
        );
        let same = Fingerprint::of("bench").body(b"{}").finish();
        let store = self.store.clone();
        let work = async move |op: Operation| {
            let mut phase = store.begin(op).await?;
            sqlx::query("INSERT INTO note DEFAULT VALUES").execute(&mut *phase).await?;
            for _ in 0..singly {
                phase.emit(message()).await?;
            }
            if at_once > 0 {
                phase.emit_all((0..at_once).map(|_| message())).await?;
            }
            Ok::<_, BoxError>(phase.complete(StoredResponse::new(201, "noted")?).await?)
        };
        let policy = Policy::resumable().lease(Duration::from_mins(10));
        let told = self.engine.run(id, same, &policy, work).await.expect("an answer");
        assert!(matches!(told, Answer::Executed(_)), "{told:?}");
    }
}

#[async_trait]
impl Way for Ours {
    async fn add(&self, messages: usize) {
        let mut tx = self.store.pool().begin().await.expect("a transaction");
        sqlx::query("INSERT INTO note DEFAULT VALUES").execute(&mut *tx).await.expect("a row");
        let outbox = self.store.outbox();
        if messages == 1 {
            outbox.add(&mut tx, message()).await.expect("it is added");
        } else {
            outbox.add_all(&mut tx, (0..messages).map(|_| message())).await.expect("they are added");
        }
        tx.commit().await.expect("a commit");
    }

    async fn relay(&self) {
        let relay = Relay::new(self.store.clone(), Discard)
            .batch(u32::try_from(BATCH).expect("a batch"))
            .concurrency(IN_FLIGHT);
        relay.pass().await.expect("all is published");
    }
}

/// How messages are emitted in one phase, how many, and the statements that this takes beyond those of a phase without.
pub(crate) async fn statements(database: &Database) -> Vec<(&'static str, usize, usize)> {
    let proxy = Proxy::to(address_of(database)).await;
    let ours = Ours::new(&proxy.pool(database, 2).await).await;
    let mut counts = Vec::new();
    // The first prepares what all of them send.
    ours.run(1, 1).await;
    let sent = async |singly, at_once| {
        let before = proxy.statements().len();
        ours.run(singly, at_once).await;
        proxy.statements().len() - before
    };
    let without = sent(0, 0).await;
    for (how, singly, at_once) in [("one by one", 1, 0), ("one by one", 10, 0), ("at once", 0, BATCH)] {
        counts.push((how, singly + at_once, sent(singly, at_once).await - without));
    }
    counts
}

fn address_of(database: &Database) -> String {
    let options = database.options();
    format!("{}:{}", options.get_host(), options.get_port())
}

fn message() -> Message {
    Message::new("order.charged", "application/json", vec![b'x'; 200]).expect("a message")
}

/// Takes everything at once.
#[derive(Debug)]
struct Discard;

#[async_trait]
impl Publisher for Discard {
    async fn publish(&self, _: &Outgoing) -> Result<(), BoxError> {
        Ok(())
    }
}
