//! The reference store against the whole suite, as it is and through a wrapper.

use std::{sync::Arc, time::Duration};

use idem_conformance::{Faulty, Harness, async_trait};
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

mod bare {
    idem_conformance::suite!(super::Memory);
}

/// Every call passes through [`Faulty`], which plans nothing here: what a wrapper forgets to forward fails a case.
mod wrapped {
    idem_conformance::suite!(super::Wrapped);
}

struct Wrapped(Memory);

#[async_trait]
impl Harness for Wrapped {
    async fn start() -> Self {
        Self(Memory::start().await)
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(Faulty::new(self.0.store()))
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(Faulty::new(self.0.second().await))
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }
}
