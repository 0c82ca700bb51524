//! Sends a mail for each charge: here, a row in a table that would take it twice.

use std::{net::SocketAddr, time::Duration};

use async_nats::jetstream::{Message, consumer::PullConsumer};
use futures_util::StreamExt as _;
use idem::{BoxError, PostgresStore};
use tokio::time::sleep;

use super::{
    broker::{self, NOWHERE},
    gateway::Order,
};

/// Runs until it is killed.
///
/// # Errors
/// If the database is not there.
pub(crate) async fn run(database: &str, broker: &str, ready: fn(SocketAddr)) -> Result<(), BoxError> {
    let store = PostgresStore::connect(database).await?;
    let context = broker::connect(broker).await?;
    ready(NOWHERE);
    loop {
        if let Ok(place) = broker::place(&context).await {
            // It ends when the server or the database does; what was not acknowledged comes again.
            drop(consume(&store, &place).await);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn consume(store: &PostgresStore, place: &PullConsumer) -> Result<(), BoxError> {
    loop {
        let batch = place.fetch().max_messages(20).messages();
        let mut batch = batch.await?;
        while let Some(message) = batch.next().await {
            take(store, &message?).await?;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// The marker first, the effect in the same transaction, the acknowledgement after its commit.
async fn take(store: &PostgresStore, message: &Message) -> Result<(), BoxError> {
    let id = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).ok_or("no id")?.as_str();
    let order: Order = serde_json::from_slice(&message.payload)?;
    sqlx::query("INSERT INTO delivery (event) VALUES ($1)").bind(id).execute(store.pool()).await?;

    let mut tx = store.pool().begin().await?;
    if store.inbox().once(&mut tx, "mailer", id).await? {
        let insert = sqlx::query("INSERT INTO mail (event, reference) VALUES ($1, $2)");
        insert.bind(id).bind(&order.reference).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    message.ack().await
}
