//! Publishes what was committed.

use std::{net::SocketAddr, time::Duration};

use idem::{BoxError, JetStream, PostgresStore, Relay};

use super::broker::{self, NOWHERE};

/// Runs until it is killed.
///
/// # Errors
/// If the database is not there.
pub(crate) async fn run(database: &str, broker: &str, ready: fn(SocketAddr)) -> Result<(), BoxError> {
    let store = PostgresStore::connect(database).await?;
    let publisher = JetStream::new(broker::connect(broker).await?);
    let relay = Relay::new(store, publisher)
        .batch(20)
        .concurrency(4)
        .every(Duration::from_millis(20))
        .lease(Duration::from_secs(2));
    ready(NOWHERE);
    relay.run().await;
    Ok(())
}
