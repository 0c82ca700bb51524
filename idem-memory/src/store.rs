//! The reference store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Command, Decision, KeyId, KeyStore, Maintain, OperationId,
    Record, RecoveryPoint, Rerun, StoreError, StoreErrorKind, StoredResponse, Stuck, Transition, state,
};

use crate::{
    clock::{Clock, ManualClock},
    shard::Shards,
};

/// How many records a store holds by default: about 1 GiB of records of 1 KiB.
pub const MAX_RECORDS: usize = 1 << 20;

/// Keys in this process's memory; clones share them.
///
/// Holds at most [`MAX_RECORDS`] records unless told otherwise. A full store refuses new keys with `Unavailable` and
/// never forgets one that is in progress or retained; sweeping makes room.
///
/// # Cancel safety
///
/// No call waits for anything: a call happened whole or was never polled.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shards: Arc<Shards>,
    count: Arc<AtomicUsize>,
    clock: Clock,
    max_records: usize,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::on(Clock::System)
    }

    /// An empty store on a clock that a test moves.
    pub fn with_clock(clock: ManualClock) -> Self {
        Self::on(Clock::Manual(clock))
    }

    fn on(clock: Clock) -> Self {
        Self { shards: Arc::new(Shards::new()), count: Arc::default(), clock, max_records: MAX_RECORDS }
    }

    /// Bounds the number of records; default [`MAX_RECORDS`].
    #[must_use]
    pub fn max_records(mut self, records: usize) -> Self {
        self.max_records = records;
        self
    }

    /// The one atomic step that every method is.
    fn step<A>(
        &self,
        id: &KeyId,
        decide: impl FnOnce(Option<&Record>, SystemTime) -> Transition<A>,
    ) -> Result<A, StoreError> {
        self.shards.with(id, |records| {
            let record = records.get_mut(id);
            let transition = decide(record.as_deref(), self.clock.now());
            match (transition.write, record) {
                (None, _) => {}
                (Some(write), Some(record)) => *record = write,
                (Some(write), None) => {
                    self.reserve()?;
                    records.insert(id.clone(), write);
                }
            }
            transition.answer
        })
    }

    fn write(&self, id: &KeyId, command: &Command<'_>) -> Result<(), StoreError> {
        self.step(id, |record, now| state::write(record, command, now))
    }

    /// Takes a place for one more record.
    fn reserve(&self) -> Result<(), StoreError> {
        self.count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < self.max_records).then_some(count + 1)
            })
            .map(|_| ())
            .map_err(|count| {
                StoreError::new(StoreErrorKind::Unavailable, "claim")
                    .because(format!("the store holds max_records records; sweep or raise it; seen={count}"))
            })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl KeyStore for MemoryStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.step(&request.id, |record, now| state::claim(record, request, now, OperationId::random()))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Renew(claim, lease))
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Checkpoint(claim, point, rerun))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Complete(claim, response, retention))
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Release(claim, retention))
    }

    async fn ended(&self, _claim: &Claim) {}
}

#[async_trait]
impl Maintain for MemoryStore {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let (now, limit) = (self.clock.now(), limit as usize);
        let mut swept = 0;
        self.shards.each(|records| {
            records.retain(|_, record| {
                let goes = swept < limit && record.is_expired(now);
                swept += usize::from(goes);
                !goes
            });
        });
        self.count.fetch_sub(swept, Ordering::Relaxed);
        Ok(swept as u64)
    }

    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        let now = self.clock.now();
        let mut stuck = Vec::new();
        self.shards.each(|records| {
            stuck.extend(records.values().filter(|record| record.is_stuck(now)).map(|record| Stuck {
                in_doubt: record.is_in_doubt(now),
                stuck_for: now.duration_since(record.lease_until).unwrap_or_default(),
                record: record.clone(),
            }));
        });
        stuck.sort_by_key(|stuck| stuck.record.lease_until);
        stuck.truncate(limit as usize);
        Ok(stuck)
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        Ok(self.shards.with(id, |records| records.get(id).cloned()))
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(&seen.id, &Command::Resolve(seen, decision, retention, AttemptId::random()))
    }
}
