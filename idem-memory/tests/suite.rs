//! The reference store against the whole suite.

use std::{sync::Arc, time::Duration};

use idem_conformance::{Harness, async_trait};
use idem_core::Maintain;
use idem_memory::{ManualClock, MemoryStore};

struct Memory {
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

idem_conformance::suite!(Memory);
