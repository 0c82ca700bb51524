//! Callers of the memory store are told what some order of their calls explains.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem_conformance::{Harness, linear};
use idem_core::Maintain;
use idem_memory::{ManualClock, MemoryStore};

const HISTORIES: u64 = 400;

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

#[test]
fn s01_every_history_of_the_memory_store_is_explained_by_an_order_of_its_calls() {
    let tally = linear::run::<Memory>(HISTORIES);
    println!("{tally}");
    for (call, answer) in [
        ("claim", "new"),
        ("claim", "expired"),
        ("claim", "reissued"),
        ("claim", "retried"),
        ("claim", "taken over"),
        ("claim", "completed"),
        ("claim", "in progress"),
        ("claim", "in doubt"),
        ("claim", "mismatch"),
        ("claim", "unknown"),
        ("complete", "unknown"),
        ("resolve", "ok"),
        ("overlap", "claim"),
        ("overlap", "complete"),
        ("overlap", "checkpoint"),
        ("overlap", "resolve"),
    ] {
        let count = tally.of(call, answer);
        assert!(count >= HISTORIES / 100, "the histories seldom came to {call}: {answer} ({count})\n{tally}");
    }
}
