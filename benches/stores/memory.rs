//! This process's memory.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem::{KeyStore as _, Maintain, ManualClock, MemoryStore};

use crate::place::{LEASE, Place, RETENTION, answer, claims};

pub(crate) struct Memory;

#[async_trait]
impl Place for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn empty(&self) -> Arc<dyn Maintain> {
        Arc::new(MemoryStore::new())
    }

    async fn outlived(&self, records: u32) -> Arc<dyn Maintain> {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(clock.clone());
        let answer = answer();
        for claim in claims(&store, records).await {
            store.complete(&claim, &answer, RETENTION).await.expect("an end");
        }
        clock.advance(LEASE + RETENTION + Duration::from_secs(1));
        Arc::new(store)
    }
}
