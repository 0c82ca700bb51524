//! A stream of one's own, what is published to it, and who takes it from there.

use std::time::Duration;

use async_nats::jetstream::{
    self, Context,
    consumer::{AckPolicy, PullConsumer, pull},
    stream::{Config, Stream},
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use idem_postgres::{JetStream, MessageId, Outgoing, PostgresStore, Publisher as _};
use idem_test_support::{Database, Nats, postgres};
use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;
use uuid::Uuid;

/// Nothing is measured by it: a test that waits for longer than this has failed.
const SOON: Duration = Duration::from_secs(30);

pub(crate) type Taken = jetstream::Message;

pub(crate) struct Rig {
    pub(crate) context: Context,
    pub(crate) publisher: JetStream,
    /// Also the prefix of its subjects.
    pub(crate) name: String,
    pub(crate) stream: Stream,
    consumer: PullConsumer,
}

impl Rig {
    pub(crate) async fn new(nats: &Nats) -> Self {
        let client = async_nats::connect(nats.url()).await.expect("it takes clients");
        let context = jetstream::new(client);
        let name = format!("t{}", Uuid::new_v4().simple());
        let config = Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Config::default() };
        let stream = context.create_stream(config).await.expect("a stream");
        let durable = pull::Config {
            durable_name: Some("ledger".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(durable).await.expect("a consumer");
        let publisher = JetStream::new(context.clone()).prefix(&name).expect("a subject");
        Self { context, publisher, name, stream, consumer }
    }

    /// Waits no longer than this for an acknowledgement.
    pub(crate) fn impatient(mut self, ack_within: Duration) -> Self {
        let mut context = self.context.clone();
        context.set_timeout(ack_within);
        self.publisher = JetStream::new(context).prefix(&self.name).expect("a subject");
        self
    }

    /// How many messages the stream keeps.
    pub(crate) async fn kept(&self) -> u64 {
        self.stream.get_info().await.expect("it answers").state.messages
    }

    /// Publishes until it is acknowledged, as a relay does it; says how many tries that took.
    pub(crate) async fn publish(&self, message: &Outgoing) -> usize {
        let tries = async {
            let mut tries = 1;
            while self.publisher.publish(message).await.is_err() {
                tries += 1;
                tokio::task::yield_now().await;
            }
            tries
        };
        timeout(SOON, tries).await.expect("it is acknowledged")
    }

    /// Takes so many messages and acknowledges none of them.
    pub(crate) async fn take(&self, count: usize) -> Vec<Taken> {
        let mut taken = Vec::new();
        let all = async {
            while taken.len() < count {
                let left = count - taken.len();
                let mut batch = self.consumer.fetch().max_messages(left).messages().await.expect("a batch");
                while let Some(message) = batch.next().await {
                    taken.push(message.expect("a message"));
                }
            }
        };
        timeout(SOON, all).await.expect("they arrive");
        taken
    }
}

/// A message with these headers.
pub(crate) fn outgoing(
    topic: &str,
    content_type: &str,
    payload: impl Into<Bytes>,
    headers: &[(&str, &'static [u8])],
) -> Outgoing {
    let message = Outgoing::new(MessageId::from(Uuid::new_v4()), topic, content_type, payload);
    headers.iter().fold(message, |message, (name, value)| message.header(*name, *value))
}

pub(crate) fn message(topic: &str) -> Outgoing {
    outgoing(topic, "application/json", "{}", &[])
}

/// The id that the message carries.
pub(crate) fn id_of(message: &Taken) -> String {
    let headers = message.headers.as_ref().expect("headers");
    headers.get("Nats-Msg-Id").expect("an id").to_string()
}

/// A consumer whose effect is a row.
pub(crate) struct Ledger {
    pub(crate) store: PostgresStore,
    _database: Database,
}

impl Ledger {
    pub(crate) async fn new() -> Self {
        let database = postgres().database().await;
        let pool = PgPoolOptions::new().max_connections(4).connect_lazy_with(database.options());
        let store = PostgresStore::new(pool);
        store.migrate().await.expect("an empty database takes the tables");
        let ledger = Self { store, _database: database };
        let create = "CREATE TABLE effect (event text NOT NULL)";
        sqlx::query(create).execute(ledger.store.pool()).await.expect("a table");
        ledger
    }

    /// Whether it is new; acknowledged after the commit.
    pub(crate) async fn consume(&self, message: &Taken) -> bool {
        let event = id_of(message);
        let mut tx = self.store.pool().begin().await.expect("a transaction");
        let first = self.store.inbox().once(&mut tx, "ledger", &event).await.expect("an answer");
        if first {
            let sql = "INSERT INTO effect (event) VALUES ($1)";
            sqlx::query(sql).bind(&event).execute(&mut *tx).await.expect("the effect");
        }
        tx.commit().await.expect("it commits");
        message.double_ack().await.expect("the broker hears of it");
        first
    }

    pub(crate) async fn effects(&self) -> i64 {
        let sql = "SELECT count(*) FROM effect";
        sqlx::query_scalar(sql).fetch_one(self.store.pool()).await.expect("a number")
    }
}
