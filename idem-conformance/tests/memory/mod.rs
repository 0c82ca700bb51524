//! The memory store on a clock that the checks move.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem_conformance::Harness;
use idem_core::Maintain;
use idem_memory::{ManualClock, MemoryStore};

pub(crate) struct Memory {
    clock: ManualClock,
    store: MemoryStore,
}

#[async_trait]
impl Harness for Memory {
    async fn start() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.store.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.store.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}
