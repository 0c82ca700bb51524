//! The pause between two passes, which a notification may shorten.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::time::timeout;
use tracing::debug;

use super::Relay;
use crate::PostgresStore;

pub(super) struct Wake {
    store: PostgresStore,
    listening: bool,
    listener: Option<PgListener>,
    every: Duration,
}

impl Wake {
    pub(super) fn new(relay: &Relay) -> Self {
        Self { store: relay.store.clone(), listening: relay.listening, listener: None, every: relay.every }
    }

    /// Returns after the pause, or earlier if somebody says so. A listener that is lost is replaced at the next pause.
    pub(super) async fn next(&mut self) {
        let every = self.every;
        let pause = async {
            if self.listening && self.listener.is_none() {
                match self.listener().await {
                    Ok(listener) => self.listener = Some(listener),
                    Err(error) => debug!(%error, "nobody listens for now"),
                }
            }
            match &mut self.listener {
                Some(listener) => !matches!(listener.try_recv().await, Ok(Some(_))),
                None => std::future::pending().await,
            }
        };
        // A lost listener ends the pause: what was said meanwhile is not said again.
        if let Ok(true) = timeout(every, pause).await {
            self.listener = None;
        }
    }

    async fn listener(&self) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.store.pool).await?;
        listener.listen(&format!("{}_outbox", self.store.settings.table)).await?;
        Ok(listener)
    }
}
