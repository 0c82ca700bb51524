//! The outbox, and the relay that ships.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use idem_conformance::parts::messages::{Messages, Open, Sink};
use idem_core::BoxError;
use idem_postgres::{Message, Outgoing, PostgresStore, Publisher, Relay};
use idem_test_support::{Fault, contains};
use sqlx::{Postgres, Transaction};
use tokio::task::spawn_blocking;

use crate::Shop;

#[async_trait]
impl Messages for Shop {
    async fn begin(&self) -> Box<dyn Open> {
        let tx = self.store.pool().begin().await.unwrap();
        Box::new(Adding { store: self.store.clone(), tx })
    }

    async fn relay(&self, sink: Sink) {
        Relay::new(self.rig.another(2), Broker(sink)).pass().await.unwrap();
    }

    async fn relay_and_die(&self, sink: Sink) {
        let strike = self.proxy.next(contains("SET published_at"), Fault::LoseRequest);
        Relay::new(self.store.clone(), Broker(sink)).pass().await.expect_err("nothing was noted");
        strike.struck().await;
    }
}

struct Adding {
    store: PostgresStore,
    tx: Transaction<'static, Postgres>,
}

#[async_trait]
impl Open for Adding {
    async fn add(&mut self, payload: &str, key: Option<&str>) -> String {
        let message = Message::new("order", "text/plain", payload.to_owned()).unwrap();
        let message = match key {
            Some(key) => message.ordered_by(key).unwrap(),
            None => message,
        };
        self.store.outbox().add(&mut self.tx, message).await.unwrap().to_string()
    }

    async fn commit(self: Box<Self>) {
        self.tx.commit().await.unwrap();
    }

    async fn roll_back(self: Box<Self>) {
        self.tx.rollback().await.unwrap();
    }
}

struct Broker(Sink);

#[async_trait]
impl Publisher for Broker {
    async fn publish(&self, message: &Outgoing) -> Result<(), BoxError> {
        let (sink, id) = (Arc::clone(&self.0), message.id().to_string());
        let payload = String::from_utf8(message.payload().to_vec())?;
        let accepted = spawn_blocking(move || sink(&payload, &id)).await?;
        if accepted { Ok(()) } else { Err("refused".into()) }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
    }
}
