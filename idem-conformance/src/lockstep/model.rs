//! The records as the state functions leave them, and the comparison with the store's.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_core::{
    AttemptId, ClaimOutcome, ClaimRequest, Fingerprint, KeyId, MAX_SPAN, Maintain, OperationId, Origin,
    Record, Rerun, RerunUntil, Scope, State,
};
use tokio::time::Instant;

use super::{
    act::Turn,
    world::{Doing, World},
};
use crate::{
    Harness,
    judge::{Window, agree, between},
    step::{Drawn, Reply, Step},
};

/// How much further the store's clock may have come than this process noticed.
const SLACK: Duration = Duration::from_secs(1);
/// After so many calls every record is looked at, not only the one that the call is about.
const ROUND: usize = 16;

/// The two must never differ: the records here, and those in the store.
pub(super) struct Model {
    handles: [Arc<dyn Maintain>; 2],
    world: World,
    /// The key by which the start of the walk read the store's clock; claimed for ten years.
    pace: KeyId,
    clock: Clock,
    operations: HashSet<OperationId>,
    attempts: HashSet<AttemptId>,
    calls: usize,
}

/// What the store's clock showed when it was last seen, and how long ago that was.
struct Clock {
    shown: SystemTime,
    seen: Instant,
}

impl Clock {
    /// What it can show now.
    fn window(&self) -> Window {
        Window { before: self.shown, after: self.shown + self.seen.elapsed() + SLACK }
    }
}

impl Model {
    pub(super) async fn start(handles: [Arc<dyn Maintain>; 2]) -> Result<Self, String> {
        let id = |key: &str| Some(KeyId::new(Scope::new("lockstep").ok()?, key.parse().ok()?));
        let pace = id("pace").ok_or("the walk has a wrong key")?;
        let same = Fingerprint::of("lockstep").finish();
        let request = ClaimRequest::new(pace.clone(), same, MAX_SPAN, Duration::ZERO)
            .map_err(|error| error.to_string())?;
        let seen = Instant::now();
        let outcome = handles[0].claim(&request).await.map_err(|error| error.to_string())?;
        let ClaimOutcome::Claimed(claim) = outcome else {
            return Err(format!("the store is not empty: {outcome:?}"));
        };
        let record = look(&*handles[1], &pace).await?.ok_or("a claimed key has no record")?;
        let mut world = World::default();
        let shown = record.locked_at;
        world.put(&pace, Some(record));
        Ok(Self {
            clock: Clock { shown, seen },
            operations: HashSet::from([claim.fence().operation]),
            attempts: HashSet::from([request.attempt]),
            world,
            pace,
            handles,
            calls: 0,
        })
    }

    /// How long to let pass first, if an end is so close that it may come during the next call.
    pub(super) fn too_close(&self) -> Option<Duration> {
        // In whole seconds, so that a walk does not depend on how fast it is walked.
        let passed = Duration::from_secs(self.clock.seen.elapsed().as_secs());
        self.world.too_close(self.clock.shown, passed)
    }

    /// Does it on both sides, compares, and says what was called and in a word what came of it.
    pub(super) async fn go<H: Harness>(
        &mut self,
        harness: &H,
        turn: &Turn,
    ) -> Result<(&'static str, &'static str), String> {
        let doing = self.world.doing(&turn.act, self.clock.shown);
        let store = Arc::clone(&self.handles[usize::from(turn.second)]);
        self.calls += 1;
        let word = match &doing {
            Doing::Step(step) => self.step(step, &*store).await?,
            Doing::Sweep(limit) => self.sweep(*limit, &*store).await?,
            Doing::Stuck(limit) => self.stuck(*limit, &*store).await?,
            Doing::Elapse(by) => {
                self.elapse(harness, *by).await?;
                "ok"
            }
            Doing::Nothing => "ok",
        };
        if self.calls.is_multiple_of(ROUND) {
            self.compare_all().await?;
        }
        Ok((doing.name(), word))
    }

    async fn step(&mut self, step: &Step, store: &dyn Maintain) -> Result<&'static str, String> {
        let id = step.id().clone();
        let before = self.world.record(&id).cloned();
        let called = Instant::now();
        let reply = step.call(store).await;
        let after = look(&*self.handles[self.calls % 2], &id).await?;

        let took = called.elapsed();
        let mut window = self.clock.window();
        if let Some(now) = told(step, &reply, before.as_ref(), after.as_ref()) {
            if now < window.before || now > window.after {
                return Err(format!(
                    "the record was written at {now:?}, and the store's clock is in {window:?}"
                ));
            }
            // A store may read its clock more than once in a call, but not before or after it.
            window =
                Window { before: window.before.max(now.checked_sub(took).unwrap_or(now)), after: now + took };
            self.clock = Clock { shown: now, seen: called };
        }
        let drawn = self.adopt(step, &reply, before.as_ref(), after.as_ref())?;
        let wrote = before != after;
        let (early, early_reply) = step.decide(before.clone(), window.before, &drawn);
        let (late, late_reply) = step.decide(before, window.after, &drawn);
        if !agree(&reply, &early_reply, &late_reply, window) {
            return Err(format!("the answer is {reply:?} and has to be {early_reply:?}"));
        }
        between(after.as_ref(), early.as_ref(), late.as_ref())?;
        self.world.put(&id, after);
        Ok(reply.word(wrote))
    }

    /// Takes over what the store drew at random, which must be new.
    fn adopt(
        &mut self,
        step: &Step,
        reply: &Reply,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<Drawn, String> {
        if let Step::Claim(request) = step {
            self.attempts.insert(request.attempt);
        }
        let mut drawn = Drawn::afresh();
        if let Some(claim) = reply.claim()
            && matches!(claim.origin(), Origin::New | Origin::Expired)
        {
            drawn.operation = claim.fence().operation;
            if !self.operations.insert(drawn.operation) {
                return Err("the new operation has an id that was given before".to_owned());
            }
            if self.attempts.iter().any(|attempt| attempt.to_bytes() == drawn.operation.to_bytes()) {
                return Err("the operation's id is a caller's attempt id, which can come again".to_owned());
            }
        }
        if let (Step::Resolve(..), Some(before), Some(after)) = (step, before, after)
            && after.version != before.version
        {
            drawn.attempt = after.attempt;
            if !self.attempts.insert(drawn.attempt) {
                return Err("the settled record has an attempt id that was used before".to_owned());
            }
        }
        Ok(drawn)
    }

    /// A sweep may take whichever it likes of what has expired, and so many of them. A second one takes the rest, so
    /// that the walk goes on alike whatever the first one liked.
    async fn sweep(&mut self, limit: u32, store: &dyn Maintain) -> Result<&'static str, String> {
        let word = self.sweep_once(limit, store).await?;
        self.sweep_once(u32::MAX, store).await?;
        self.compare_all().await?;
        Ok(word)
    }

    async fn sweep_once(&mut self, limit: u32, store: &dyn Maintain) -> Result<&'static str, String> {
        let now = self.clock.shown;
        let swept = store.sweep(limit).await.map_err(|error| error.to_string())?;
        let expired: Vec<_> =
            self.world.records.values().filter(|record| record.is_expired(now)).cloned().collect();
        let due = expired.len().min(limit as usize);
        let mut gone = 0;
        for record in expired {
            if look(&*self.handles[1], &record.id).await?.is_none() {
                self.world.records.remove(&record.id);
                gone += 1;
            }
        }
        if gone != due || swept != due as u64 {
            return Err(format!("the sweep says {swept}, and {gone} are gone; it has to be {due}"));
        }
        Ok(if swept > 0 { "some" } else { "none" })
    }

    async fn stuck(&mut self, limit: u32, store: &dyn Maintain) -> Result<&'static str, String> {
        let listed = store.stuck(limit).await.map_err(|error| error.to_string())?;
        let Window { before, after } = self.clock.window();
        let mut due: Vec<_> = self.world.records.values().filter(|record| record.is_stuck(before)).collect();
        due.sort_by_key(|record| record.lease_until);
        due.truncate(limit as usize);
        let ends = |lease_ends: &mut dyn Iterator<Item = SystemTime>| lease_ends.collect::<Vec<_>>();
        let (listed_ends, due_ends) = (
            ends(&mut listed.iter().map(|stuck| stuck.record.lease_until)),
            ends(&mut due.iter().map(|record| record.lease_until)),
        );
        if listed_ends != due_ends {
            return Err(format!("stuck lists {listed:?} and has to list {due:?}"));
        }
        for stuck in &listed {
            let record = self.world.record(&stuck.record.id);
            same(Some(&stuck.record), record)?;
            if stuck.in_doubt != stuck.record.is_in_doubt(before) {
                return Err(format!("stuck is wrong about whether it is in doubt: {stuck:?}"));
            }
            let since = |now: SystemTime| now.duration_since(stuck.record.lease_until).unwrap_or_default();
            if !(since(before)..=since(after)).contains(&stuck.stuck_for) {
                return Err(format!("stuck is wrong about how long: {stuck:?}"));
            }
        }
        Ok(if listed.is_empty() { "none" } else { "some" })
    }

    /// Lets time pass. A harness moves its clock forward or every stored time back; the pace record tells which.
    pub(super) async fn elapse<H: Harness>(&mut self, harness: &H, by: Duration) -> Result<(), String> {
        harness.elapse(by).await;
        let pace = look(&*self.handles[0], &self.pace).await?.ok_or("the pace record is gone")?;
        let old = self.world.record(&self.pace).map(|record| record.locked_at);
        if old == Some(pace.locked_at) {
            self.clock.shown += by;
        } else {
            self.world.records.values_mut().for_each(|record| age(record, by));
        }
        Ok(())
    }

    /// Looks at every record.
    pub(super) async fn compare_all(&self) -> Result<(), String> {
        for (number, (id, record)) in self.world.records.iter().enumerate() {
            same(look(&*self.handles[number % 2], id).await?.as_ref(), Some(record))?;
        }
        Ok(())
    }
}

async fn look(store: &dyn Maintain, id: &KeyId) -> Result<Option<Record>, String> {
    store.find(id).await.map_err(|error| format!("find answers {error}"))
}

/// What the store's clock showed during this call, if the record that the call wrote tells.
fn told(step: &Step, reply: &Reply, before: Option<&Record>, after: Option<&Record>) -> Option<SystemTime> {
    let after = after?;
    if before.is_some_and(|before| before.version == after.version && before.operation == after.operation) {
        return None;
    }
    let lease_moved = before.is_none_or(|before| before.lease_until != after.lease_until);
    match step {
        Step::Claim(request) => match reply.claim()?.origin() {
            Origin::New | Origin::Expired | Origin::Retried | Origin::TakenOver => Some(after.locked_at),
            Origin::Reissued if lease_moved => after.lease_until.checked_sub(request.lease),
            Origin::Reissued => None,
        },
        Step::Renew(_, lease) if lease.is_zero() || lease_moved => after.lease_until.checked_sub(*lease),
        Step::Checkpoint(_, _, Rerun::Until(window)) => match after.rerun_until {
            RerunUntil::At(end) if before.is_none_or(|before| before.rerun_until != after.rerun_until) => {
                end.checked_sub(*window)
            }
            RerunUntil::At(_) | RerunUntil::Never | RerunUntil::Always => None,
        },
        Step::Complete(..) | Step::Release(..) | Step::Resolve(..) => after.state.ended_at(),
        Step::Renew(..) | Step::Checkpoint(..) | Step::Sweep(_) | Step::Find(_) => None,
    }
}

/// Moves every time of a record into the past.
fn age(record: &mut Record, by: Duration) {
    record.locked_at -= by;
    record.lease_until -= by;
    record.created_at -= by;
    record.expires_at -= by;
    if let RerunUntil::At(end) = &mut record.rerun_until {
        *end -= by;
    }
    match &mut record.state {
        State::InProgress => {}
        State::Completed { ended_at, .. } | State::Failed { ended_at } => *ended_at -= by,
    }
}

fn same(found: Option<&Record>, expected: Option<&Record>) -> Result<(), String> {
    between(found, expected, expected)
}
