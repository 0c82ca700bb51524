//! The store of the zoo: each call is one step by the rules under one lock, or what a switch makes of it.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Command, Decision, KeyId, KeyStore, Maintain, Record,
    RecoveryPoint, Rerun, StoreError, StoreErrorKind, StoredResponse, Stuck, Transition,
};

use crate::{
    defect::Defect,
    rows::{Shared, put},
    rules::Now,
};

/// How many connections the pool of [`Defect::WaitersHoldConnections`] has.
const CONNECTIONS: usize = 32;

/// One handle of the store; the handles of one store share its rows.
#[derive(Debug)]
pub(crate) struct ZooStore {
    pub(crate) shared: Arc<Shared>,
    /// What this handle has answered and not written yet, with [`Defect::AnsweredBeforeWritten`].
    unwritten: Mutex<Option<Record>>,
}

impl ZooStore {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, unwritten: Mutex::default() }
    }

    pub(crate) fn wrong(&self, defect: Defect) -> bool {
        self.shared.wrong(defect)
    }

    /// The one atomic step that every call is, if nothing is wrong.
    fn step<A>(
        &self,
        id: &KeyId,
        decide: impl FnOnce(Option<&Record>, Now) -> Transition<A>,
    ) -> Result<A, StoreError> {
        self.catch_up();
        let name = self.shared.name(id);
        let mut rows = self.shared.rows();
        let step = decide(rows.get(&name).map(|row| &row.record), self.shared.now());
        if let Some(record) = step.write {
            if self.wrong(Defect::AnsweredBeforeWritten) {
                *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
            } else {
                put(&mut rows, &name, record);
            }
        }
        self.shared.calls.notify_waiters();
        step.answer
    }

    /// Writes what an earlier call of this handle left unwritten.
    fn catch_up(&self) {
        if let Some(record) = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take() {
            put(&mut self.shared.rows(), &self.shared.name(&record.id), record);
        }
    }

    pub(crate) fn read(&self, id: &KeyId) -> Option<Record> {
        self.catch_up();
        self.shared.rows().get(&self.shared.name(id)).map(|row| row.record.clone())
    }

    async fn write(&self, id: &KeyId, command: Command<'_>, in_two: Defect) -> Result<(), StoreError> {
        if self.shared.waiting.load(Ordering::SeqCst) >= CONNECTIONS {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "write"));
        }
        let decide = |row: Option<&Record>, now| self.shared.rules.write(row, &command, now);
        if self.wrong(in_two) { self.step_in_two(id, decide).await } else { self.step(id, decide) }
    }

    fn renew_namesakes(&self, id: &KeyId, lease: Duration) {
        let now = self.shared.now();
        for row in self.shared.rows().values_mut() {
            if row.record.id.key() == id.key() && row.record.id != *id {
                row.record = self.shared.rules.renewed(&row.record, lease, now);
            }
        }
    }

    pub(crate) fn claim_in_one(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.step(&request.id, |row, now| self.shared.rules.claim(row, request, now))
    }
}

#[async_trait]
impl KeyStore for ZooStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.claim_somehow(request).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), Command::Renew(claim, lease), Defect::RenewWithoutCompare).await?;
        if self.wrong(Defect::RenewsEveryScope) {
            self.renew_namesakes(claim.id(), lease);
        }
        Ok(())
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        let command = Command::Checkpoint(claim, point, rerun);
        self.write(claim.id(), command, Defect::CheckpointWithoutCompare).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let command = Command::Complete(claim, response, retention);
        self.write(claim.id(), command, Defect::CompleteWithoutCompare).await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), Command::Release(claim, retention), Defect::ReleaseWithoutCompare).await
    }

    async fn ended(&self, claim: &Claim) {
        if self.wrong(Defect::NoticeDeletes) {
            self.shared.rows().remove(&self.shared.name(claim.id()));
        }
    }
}

#[async_trait]
impl Maintain for ZooStore {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.catch_up();
        let all = limit == 0 && self.wrong(Defect::SweepZeroMeansAll);
        let limit = if all { usize::MAX } else { limit as usize };
        let due = |record: &Record, now: Now| match self.shared.rules.0 {
            Some(Defect::SweepByAge) => now.store >= record.expires_at,
            Some(Defect::SweepTakesWhatEnded) => record.state.ended_at().is_some(),
            _ => record.is_expired(now.store),
        };
        let now = self.shared.now();
        if self.wrong(Defect::SweepPicksThenDeletes) || self.wrong(Defect::SweepCountsPicks) {
            return Ok(self.sweep_in_two(limit).await);
        }
        let mut rows = self.shared.rows();
        let looked_at = if self.wrong(Defect::SweepStopsAtTheLiving) { limit } else { usize::MAX };
        let most = if self.wrong(Defect::SweepIgnoresLimit) { usize::MAX } else { limit };
        let expired = rows.iter().take(looked_at).filter(|(_, row)| due(&row.record, now));
        let names: Vec<_> = expired.map(|(name, _)| name.clone()).take(most).collect();
        for name in &names {
            rows.remove(name);
        }
        Ok(names.len() as u64)
    }

    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        self.catch_up();
        let now = self.shared.now().store;
        let rows = self.shared.rows();
        let listed = |record: &Record| {
            record.is_stuck(now) || (self.wrong(Defect::StuckListsLive) && record.state.ended_at().is_none())
        };
        let mut stuck: Vec<_> = rows
            .values()
            .filter(|row| listed(&row.record))
            .map(|row| Stuck {
                in_doubt: row.record.is_in_doubt(now) && !self.wrong(Defect::StuckForgetsDoubt),
                stuck_for: if self.wrong(Defect::StuckForNothing) {
                    Duration::ZERO
                } else {
                    now.duration_since(row.record.lease_until).unwrap_or_default()
                },
                record: row.record.clone(),
            })
            .collect();
        stuck.sort_by_key(|stuck| stuck.record.lease_until);
        if self.wrong(Defect::StuckYoungestFirst) {
            stuck.reverse();
        }
        if !self.wrong(Defect::StuckIgnoresLimit) {
            stuck.truncate(limit as usize);
        }
        Ok(stuck)
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        if self.wrong(Defect::FindReadsCopy)
            && let Some(row) = self.shared.rows().get(&self.shared.name(id))
            && let Some(before) = &row.before
        {
            return Ok(Some(before.clone()));
        }
        let found = self.read(id);
        if self.wrong(Defect::FindForgets)
            && let Some(record) = &found
            && record.is_expired(self.shared.now().store)
        {
            self.shared.rows().remove(&self.shared.name(id));
        }
        Ok(found)
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let command = Command::Resolve(seen, decision, retention, AttemptId::random());
        self.write(&seen.id, command, Defect::ResolveWithoutCompare).await
    }
}
