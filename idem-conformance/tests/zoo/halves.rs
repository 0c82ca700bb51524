//! Calls in two halves: what somebody reads first, and writes later.

use std::{sync::atomic::Ordering, time::Duration};

use idem_core::{ClaimOutcome, ClaimRequest, KeyId, Origin, Record, StoreError, StoreErrorKind, Transition};
use tokio::{task::yield_now, time::timeout};

use crate::{
    defect::Defect,
    rows::put,
    rules::{Now, claim_of},
    store::ZooStore,
};

/// How long the first half of a step waits for another call to get in between.
const PAUSE: Duration = Duration::from_millis(2);

impl ZooStore {
    /// A claim by whatever way this store takes.
    pub(crate) async fn claim_somehow(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        match self.shared.rules.0 {
            Some(Defect::CheckThenInsert) => self.claim_in_two(request, Origin::New).await,
            Some(Defect::ExpiredWithoutCompare) => self.claim_in_two(request, Origin::Expired).await,
            Some(Defect::RetryWithoutCompare) => self.claim_in_two(request, Origin::Retried).await,
            Some(Defect::TakeoverWithoutCompare) => self.take_over_in_two(request, |_, _, _| true).await,
            Some(Defect::TakeoverComparesOnlyToken) => {
                self.take_over_in_two(request, |read, there, _| read.token == there.token).await
            }
            Some(Defect::TakeoverSkipsLease) => {
                self.take_over_in_two(request, |read, there, now| {
                    read.fence() == there.fence()
                        && there.state.ended_at().is_none()
                        && there.rerun_until.allows(now.store)
                })
                .await
            }
            Some(Defect::TakeoverSkipsMark) => {
                self.take_over_in_two(request, |read, there, now| {
                    read.fence() == there.fence() && there.is_stuck(now.store)
                })
                .await
            }
            Some(Defect::TakeoverSkipsState) => {
                self.take_over_in_two(request, |read, there, now| {
                    read.fence() == there.fence()
                        && now.store >= there.lease_until
                        && there.rerun_until.allows(now.store)
                })
                .await
            }
            Some(Defect::TakeoverHandsOverOldRead) => {
                self.take_over_in_two(request, |read, there, now| {
                    read.fence() == there.fence()
                        && there.is_stuck(now.store)
                        && there.rerun_until.allows(now.store)
                })
                .await
            }
            Some(Defect::ReadsFromCopy) => self.claim_on_copy(request),
            Some(Defect::WedgedByDrop) => self.claim_under_lock(request).await,
            Some(Defect::WaitersHoldConnections) => {
                let outcome = self.claim_in_one(request)?;
                let waits = matches!(outcome, ClaimOutcome::InProgress { .. });
                self.shared.waiting.fetch_add(usize::from(waits), Ordering::SeqCst);
                Ok(outcome)
            }
            Some(Defect::DoneButUnavailable) => match self.claim_in_one(request)? {
                ClaimOutcome::Claimed(claim) if claim.origin() == Origin::New => {
                    Err(StoreError::new(StoreErrorKind::Unavailable, "claim"))
                }
                outcome => Ok(outcome),
            },
            _ => self.claim_in_one(request),
        }
    }

    /// Between the halves of a step: until another call has been here, or long enough if nobody comes.
    async fn pause(&self) {
        let _nobody_came = timeout(PAUSE, self.shared.calls.notified()).await;
    }

    /// A step in two halves: what was decided about the record that was read is written over whatever is there.
    pub(crate) async fn step_in_two<A>(
        &self,
        id: &KeyId,
        decide: impl FnOnce(Option<&Record>, Now) -> Transition<A>,
    ) -> Result<A, StoreError> {
        let read = self.read(id);
        let step = decide(read.as_ref(), self.shared.now());
        if let Some(record) = step.write {
            self.pause().await;
            put(&mut self.shared.rows(), &self.shared.name(id), record);
        }
        step.answer
    }

    /// A takeover in two halves that compares some of what it read, and writes the columns of a takeover.
    async fn take_over_in_two(
        &self,
        request: &ClaimRequest,
        unmoved: fn(read: &Record, there: &Record, now: Now) -> bool,
    ) -> Result<ClaimOutcome, StoreError> {
        for _ in 0..100 {
            let Some(read) = self.read(&request.id) else { break };
            let step = self.shared.rules.claim(Some(&read), request, self.shared.now());
            let (Some(taken), Ok(ClaimOutcome::Claimed(claim))) = (&step.write, &step.answer) else {
                return self.claim_in_one(request);
            };
            if claim.origin() != Origin::TakenOver {
                return self.claim_in_one(request);
            }
            self.pause().await;
            let name = self.shared.name(&request.id);
            let mut rows = self.shared.rows();
            let Some(there) = rows.get(&name).map(|row| row.record.clone()) else { continue };
            if !unmoved(&read, &there, self.shared.now()) {
                continue;
            }
            let record = Record {
                attempt: taken.attempt,
                token: taken.token,
                state: taken.state.clone(),
                locked_at: taken.locked_at,
                lease_until: taken.lease_until,
                version: there.version + 1,
                ..there
            };
            let handed_over = if self.wrong(Defect::TakeoverHandsOverOldRead) { taken } else { &record };
            let claim = claim_of(handed_over, Origin::TakenOver);
            put(&mut rows, &name, record);
            return Ok(ClaimOutcome::Claimed(claim));
        }
        self.claim_in_one(request)
    }

    /// A claim in two halves if it would come about like this.
    async fn claim_in_two(&self, request: &ClaimRequest, origin: Origin) -> Result<ClaimOutcome, StoreError> {
        let read = self.read(&request.id);
        let ahead = self.shared.rules.claim(read.as_ref(), request, self.shared.now());
        match ahead.answer {
            Ok(ClaimOutcome::Claimed(claim)) if claim.origin() == origin => {
                self.step_in_two(&request.id, |row, now| self.shared.rules.claim(row, request, now)).await
            }
            _ => self.claim_in_one(request),
        }
    }

    /// Answers from the record before the last write, unless that would have to write.
    fn claim_on_copy(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        let name = self.shared.name(&request.id);
        let copy = self.shared.rows().get(&name).and_then(|row| row.before.clone());
        if let Some(copy) = copy {
            let step = self.shared.rules.claim(Some(&copy), request, self.shared.now());
            if step.write.is_none() {
                return step.answer;
            }
        }
        self.claim_in_one(request)
    }

    /// Takes a lock that only the end of the call gives back.
    async fn claim_under_lock(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        while self.shared.busy.swap(true, Ordering::SeqCst) {
            yield_now().await;
        }
        yield_now().await;
        let outcome = self.claim_in_one(request);
        self.shared.busy.store(false, Ordering::SeqCst);
        outcome
    }

    /// Picks what has expired, and deletes it later.
    pub(crate) async fn sweep_in_two(&self, limit: usize) -> u64 {
        let now = self.shared.now();
        let picked: Vec<_> = {
            let rows = self.shared.rows();
            let expired = rows.iter().filter(|(_, row)| row.record.is_expired(now.store));
            expired.map(|(name, _)| name.clone()).take(limit).collect()
        };
        self.pause().await;
        let mut rows = self.shared.rows();
        let mut gone = 0;
        for name in &picked {
            let still = rows.get(name).is_some_and(|row| row.record.is_expired(now.store));
            if (still || self.wrong(Defect::SweepPicksThenDeletes)) && rows.remove(name).is_some() {
                gone += 1;
            }
        }
        if self.wrong(Defect::SweepCountsPicks) { picked.len() as u64 } else { gone }
    }
}
