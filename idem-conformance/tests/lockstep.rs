//! The memory store and the state functions go in step.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem_conformance::{
    Harness,
    lockstep::{self, Tally},
};
use idem_core::Maintain;
use idem_memory::{ManualClock, MemoryStore};

const SEEDS: u64 = 20;
const STEPS: usize = 2_000;

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

/// Every answer that the state functions can give.
const EVERY_ANSWER: [(&str, &[&str]); 9] = [
    (
        "claim",
        &[
            "new",
            "expired",
            "reissued",
            "retried",
            "taken over",
            "completed",
            "in progress",
            "in doubt",
            "mismatch",
            "unavailable",
            "invalid",
        ],
    ),
    ("renew", &["written", "claim_lost", "invalid"]),
    ("checkpoint", &["written", "ok", "claim_lost", "too_late", "invalid"]),
    ("complete", &["written", "ok", "claim_lost", "invalid"]),
    ("release", &["written", "ok", "claim_lost", "invalid"]),
    ("resolve", &["written", "ok", "claim_lost", "invalid"]),
    ("sweep", &["some", "none"]),
    ("stuck", &["some", "none"]),
    ("elapse", &["ok"]),
];

#[tokio::test]
async fn n04_the_memory_store_goes_in_step_with_the_state_functions() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        tally.add(lockstep::run::<Memory>(seed, STEPS).await);
    }
    println!("{tally}");
    for (call, answers) in EVERY_ANSWER {
        for answer in answers {
            let count = tally.of(call, answer);
            assert!(count >= SEEDS, "the walks seldom came to {call}: {answer} ({count})\n{tally}");
        }
    }
}

#[tokio::test]
async fn a_seed_brings_the_same_walk_back() {
    let walk = async |seed| lockstep::run::<Memory>(seed, 500).await;
    assert_eq!(walk(7).await, walk(7).await);
    assert_ne!(walk(7).await, walk(8).await);
}
