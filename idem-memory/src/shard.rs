//! Records under locks, spread so that two keys seldom share one.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use idem_core::{KeyId, Record};

/// Enough that a core seldom waits for another; a power of two is not needed.
const SHARDS: usize = 64;

pub(crate) type Records = HashMap<KeyId, Record>;

/// Every record, each under the lock of its shard. The hash is keyed per process: no client can aim at one shard.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Vec<Mutex<Records>>,
    hasher: RandomState,
}

impl Shards {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    /// Runs `step` under the lock of the key's shard.
    ///
    /// A step never panics half-way through a write: a poisoned lock still guards whole records.
    pub(crate) fn with<T>(&self, id: &KeyId, step: impl FnOnce(&mut Records) -> T) -> T {
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash picks a shard")]
        let shard = self.hasher.hash_one(id) as usize % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "there are SHARDS shards")]
        let mut records = lock(&self.shards[shard]);
        step(&mut records)
    }

    /// One shard after the other, each locked for its turn only.
    pub(crate) fn each(&self, mut step: impl FnMut(&mut Records)) {
        for shard in &self.shards {
            step(&mut lock(shard));
        }
    }
}

fn lock(shard: &Mutex<Records>) -> MutexGuard<'_, Records> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
