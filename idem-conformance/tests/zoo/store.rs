//! The store of the zoo: rows under one lock, by the rules, with the switches that are not about a rule.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Command, Decision, KeyId, KeyStore, Maintain, Origin,
    Record, RecoveryPoint, Rerun, RerunUntil, State, StoreError, StoreErrorKind, StoredResponse, Stuck,
    Transition,
};
use idem_memory::ManualClock;
use tokio::{sync::Notify, task::yield_now, time::timeout};

use crate::{
    defect::Defect,
    rules::{Now, Rules, claim_of},
};

/// One handle of the store; the handles of one store share its rows.
#[derive(Debug)]
pub(crate) struct ZooStore {
    shared: Arc<Shared>,
    /// What this handle has answered and not written yet, with [`Defect::AnsweredBeforeWritten`].
    unwritten: Mutex<Option<Record>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    rules: Rules,
    clock: ManualClock,
    /// What it advances by whenever it is read.
    tick: Duration,
    /// The clock of a caller whose time does not pass.
    caller: SystemTime,
    rows: Mutex<Rows>,
    /// Wakes those who pause in the middle of a step.
    calls: Notify,
    /// The lock of [`Defect::WedgedByDrop`].
    busy: AtomicBool,
}

/// Rows by name, each with the row that it replaced.
type Rows = BTreeMap<String, Row>;

#[derive(Debug)]
struct Row {
    record: Record,
    before: Option<Record>,
}

impl Shared {
    pub(crate) fn new(wrong: Option<Defect>, clock: ManualClock, tick: Duration) -> Self {
        let caller = clock.now();
        Self {
            rules: Rules(wrong),
            clock,
            tick,
            caller,
            rows: Mutex::default(),
            calls: Notify::new(),
            busy: AtomicBool::new(false),
        }
    }

    /// Moves every stored time into the past.
    pub(crate) fn age(&self, by: Duration) {
        for row in self.rows().values_mut() {
            let record = &mut row.record;
            for time in [
                &mut record.locked_at,
                &mut record.lease_until,
                &mut record.created_at,
                &mut record.expires_at,
            ] {
                *time -= by;
            }
            if let RerunUntil::At(end) = &mut record.rerun_until {
                *end -= by;
            }
            if let State::Completed { ended_at, .. } | State::Failed { ended_at } = &mut record.state {
                *ended_at -= by;
            }
        }
    }

    fn now(&self) -> Now {
        self.clock.advance(self.tick);
        Now { store: self.clock.now(), caller: self.caller }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self, defect: Defect) -> bool {
        self.rules.wrong(defect)
    }

    /// The name of a key's row.
    fn name(&self, id: &KeyId) -> String {
        let (scope, key) = (id.scope().as_str(), id.key().as_str());
        match self.rules.0 {
            Some(Defect::ScopeNotInKey) => key.to_owned(),
            Some(Defect::KeyFoldsCase) => format!("{scope}\0{}", key.to_ascii_lowercase()),
            Some(Defect::KeyTrimmed) => format!("{scope}\0{}", key.trim()),
            Some(Defect::KeyCut) => format!("{scope}\0{}", key.get(..64).unwrap_or(key)),
            Some(Defect::ScopeAndKeyJoined) => format!("{scope}{key}"),
            _ => format!("{scope}\0{key}"),
        }
    }
}

fn put(rows: &mut Rows, name: &str, record: Record) {
    let before = rows.remove(name).map(|row| row.record);
    rows.insert(name.to_owned(), Row { record, before });
}

/// How long the first half of a step waits for another call to get in between.
const PAUSE: Duration = Duration::from_millis(2);

impl ZooStore {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, unwritten: Mutex::default() }
    }

    fn wrong(&self, defect: Defect) -> bool {
        self.shared.wrong(defect)
    }

    /// Between the halves of a step: until another call has been here, or long enough if nobody comes.
    async fn pause(&self) {
        let _nobody_came = timeout(PAUSE, self.shared.calls.notified()).await;
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

    /// A step in two halves: what was decided about the record that was read is written over whatever is there.
    async fn step_in_two<A>(
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

    fn read(&self, id: &KeyId) -> Option<Record> {
        self.catch_up();
        self.shared.rows().get(&self.shared.name(id)).map(|row| row.record.clone())
    }

    async fn write(&self, id: &KeyId, command: Command<'_>, in_two: Defect) -> Result<(), StoreError> {
        let decide = |row: Option<&Record>, now| self.shared.rules.write(row, &command, now);
        if self.wrong(in_two) { self.step_in_two(id, decide).await } else { self.step(id, decide) }
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

    fn claim_in_one(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.step(&request.id, |row, now| self.shared.rules.claim(row, request, now))
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
}

#[async_trait]
impl KeyStore for ZooStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
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
            Some(Defect::DoneButUnavailable) => match self.claim_in_one(request)? {
                ClaimOutcome::Claimed(claim) if claim.origin() == Origin::New => {
                    Err(StoreError::new(StoreErrorKind::Unavailable, "claim"))
                }
                outcome => Ok(outcome),
            },
            _ => self.claim_in_one(request),
        }
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), Command::Renew(claim, lease), Defect::RenewWithoutCompare).await
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

    async fn ended(&self, _claim: &Claim) {}
}

#[async_trait]
impl Maintain for ZooStore {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.catch_up();
        let limit = limit as usize;
        let due = |record: &Record, now: Now| match self.shared.rules.0 {
            Some(Defect::SweepByAge) => now.store >= record.expires_at,
            Some(Defect::SweepTakesWhatEnded) => record.state.ended_at().is_some(),
            _ => record.is_expired(now.store),
        };
        let now = self.shared.now();
        if self.wrong(Defect::SweepPicksThenDeletes) || self.wrong(Defect::SweepCountsPicks) {
            let picked: Vec<_> = {
                let rows = self.shared.rows();
                let expired = rows.iter().filter(|(_, row)| due(&row.record, now));
                expired.map(|(name, _)| name.clone()).take(limit).collect()
            };
            self.pause().await;
            let mut rows = self.shared.rows();
            let mut gone = 0;
            for name in &picked {
                let still = rows.get(name).is_some_and(|row| due(&row.record, now));
                if (still || self.wrong(Defect::SweepPicksThenDeletes)) && rows.remove(name).is_some() {
                    gone += 1;
                }
            }
            return Ok(if self.wrong(Defect::SweepCountsPicks) { picked.len() as u64 } else { gone });
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
                stuck_for: now.duration_since(row.record.lease_until).unwrap_or_default(),
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
