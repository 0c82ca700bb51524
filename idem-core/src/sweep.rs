//! Deletes what outlived its retention, and counts what is stuck.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use crate::{Maintain, StoreError, event};

/// The pause between two passes.
pub const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// The shortest pause: looking for what is stuck reads a whole table.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The most records that one statement deletes, so that no lock is held for long.
pub const SWEEP_BATCH: u32 = 1000;
/// The most stuck records that one pass looks at for the gauges.
const STUCK_LIMIT: u32 = 1000;

/// Sweeps a store at an interval, in bounded batches, and keeps the gauges of stuck records.
///
/// Any number of processes may sweep one store.
///
/// ```
/// # async fn start(store: idem_memory::MemoryStore) {
/// tokio::spawn(idem_core::Sweeper::new(store).run());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sweeper {
    store: Arc<dyn Maintain>,
    every: Duration,
    batch: u32,
}

impl Sweeper {
    /// A sweeper with a pass every [`SWEEP_EVERY`], of batches of [`SWEEP_BATCH`] records.
    pub fn new(store: impl Maintain) -> Self {
        Self { store: Arc::new(store), every: SWEEP_EVERY, batch: SWEEP_BATCH }
    }

    /// The pause between two passes; default [`SWEEP_EVERY`], at least one second.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(SHORTEST_PAUSE);
        self
    }

    /// The most records that one statement deletes; default [`SWEEP_BATCH`], at least 1.
    #[must_use]
    pub fn batch(mut self, records: u32) -> Self {
        self.batch = records.max(1);
        self
    }

    /// Sweeps for ever. A pass that fails is reported and the next one comes after the pause.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    #[expect(clippy::disallowed_methods, reason = "the sweeper's pause between two passes")]
    pub async fn run(self) {
        loop {
            if let Err(error) = self.pass().await {
                warn!(%error, "sweep failed; trying again after the pause");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// One pass: deletes batch after batch until one is not full, then counts what is stuck. Returns how many it deleted.
    ///
    /// # Errors
    /// The store's; what was deleted until then stays deleted.
    pub async fn pass(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let batch = self.store.sweep(self.batch).await?;
            event::swept(batch);
            swept += batch;
            if batch < u64::from(self.batch) {
                break;
            }
            tokio::task::yield_now().await;
        }
        event::stuck(&self.store.stuck(STUCK_LIMIT).await?);
        Ok(swept)
    }
}
