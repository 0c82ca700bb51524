//! The records and what was done so far: what the words of an [`Act`] mean by now.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_core::{
    Claim, ClaimRequest, Fence, KeyId, OperationId, Origin, Record, RecoveryPoint, RerunUntil, State,
};

use super::act::{Act, Altered, Asks, Caller, Name, Number, Owner, Sight, Whose, point, stored};
use crate::step::Step;

/// How far a walk stays away from the end of a lease, of a retention and of a time to run again.
const DISTANCE: Duration = Duration::from_secs(7);
/// What passes when an end is too close.
const STEP_ASIDE: Duration = Duration::from_secs(13);

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) records: BTreeMap<KeyId, Record>,
    requests: Vec<Arc<ClaimRequest>>,
    /// Records as they were before each call about them.
    seen: Vec<Record>,
    last: Doing,
    /// What the last decision was about.
    decided: Option<Record>,
}

/// An [`Act`] with all that a store has to be told.
#[derive(Clone, Debug, Default)]
pub(super) enum Doing {
    /// One call about one key.
    Step(Step),
    Sweep(u32),
    Stuck(u32),
    Elapse(Duration),
    /// What the words speak of does not exist by now.
    #[default]
    Nothing,
}

impl Doing {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Step(step) => step.method().name(),
            Self::Sweep(_) => "sweep",
            Self::Stuck(_) => "stuck",
            Self::Elapse(_) => "elapse",
            Self::Nothing => "nothing",
        }
    }
}

impl World {
    pub(super) fn record(&self, id: &KeyId) -> Option<&Record> {
        self.records.get(id)
    }

    /// The names of those records of which this is true.
    pub(super) fn names(&self, is: impl Fn(&Record) -> bool) -> Vec<Name> {
        self.records.values().filter(|record| is(record)).filter_map(|record| Name::of(&record.id)).collect()
    }

    pub(super) fn put(&mut self, id: &KeyId, record: Option<Record>) {
        match record {
            Some(record) => drop(self.records.insert(id.clone(), record)),
            None => drop(self.records.remove(id)),
        }
    }

    pub(super) fn in_doubt(&self, now: SystemTime) -> impl Iterator<Item = &Record> {
        self.records.values().filter(move |record| record.is_in_doubt(now))
    }

    /// How long to let pass first, if an end is so close that it may come during the next call. `late` is how much
    /// later than `now` it may be.
    pub(super) fn too_close(&self, now: SystemTime, late: Duration) -> Option<Duration> {
        let close = |end: SystemTime| now < end && end <= now + late + DISTANCE;
        self.records.values().any(|record| ends(record).any(close)).then_some(STEP_ASIDE)
    }

    /// What `act` means by now; it counts as done.
    pub(super) fn doing(&mut self, act: &Act, now: SystemTime) -> Doing {
        let doing = match act {
            Act::Find(id) => Doing::Step(Step::Find(id.id())),
            Act::Claim { id, caller, asks, lease, retention } => {
                let request = self.request(*id, *caller, *asks, *lease, *retention);
                self.requests.push(Arc::clone(&request));
                Doing::Step(Step::Claim(request))
            }
            Act::ClaimAgain { id, back } => match self.requests_of(&id.id()).nth(*back) {
                Some(request) => Doing::Step(Step::Claim(Arc::clone(request))),
                None => Doing::Nothing,
            },
            Act::Renew { owner, lease } => Doing::Step(Step::Renew(self.claim(*owner), *lease)),
            Act::Checkpoint { owner, number, point, rerun } => {
                let point = self.point(owner.id, *number, point);
                Doing::Step(Step::Checkpoint(self.claim(*owner), point, *rerun))
            }
            Act::Complete { owner, answer, retention } => {
                Doing::Step(Step::Complete(self.claim(*owner), answer.response(), *retention))
            }
            Act::Release { owner, retention } => Doing::Step(Step::Release(self.claim(*owner), *retention)),
            Act::Resolve { seen, altered, decision, retention } => match self.sight(*seen, *altered, now) {
                Some(seen) => {
                    self.decided = Some(seen.clone());
                    let decision = decision.about(&seen);
                    Doing::Step(Step::Resolve(Box::new(seen), decision, *retention))
                }
                None => Doing::Nothing,
            },
            Act::Sweep(limit) => Doing::Sweep(*limit),
            Act::Stuck(limit) => Doing::Stuck(*limit),
            Act::Elapse(by) => Doing::Elapse(*by),
            Act::SameAgain => self.last.clone(),
        };
        if let Doing::Step(step) = &doing
            && let Some(record) = self.records.get(step.id())
        {
            self.seen.push(record.clone());
        }
        self.last = doing.clone();
        doing
    }

    fn request(
        &self,
        id: Name,
        caller: Caller,
        asks: Asks,
        lease: Duration,
        retention: Duration,
    ) -> Arc<ClaimRequest> {
        let fitting = Duration::from_secs(90);
        let mut request =
            ClaimRequest::new(id.id(), asks.fingerprints(), fitting, fitting).expect("spans in their limits");
        // The store has to refuse absurd ones itself.
        (request.lease, request.retention) = (lease, retention);
        request.request = stored(lease);
        if let (Caller::Last, Some(last)) = (caller, self.requests_of(&request.id).next()) {
            request.attempt = last.attempt;
        }
        Arc::new(request)
    }

    /// The claims of a key, the last one first.
    fn requests_of(&self, id: &KeyId) -> impl Iterator<Item = &Arc<ClaimRequest>> {
        self.requests.iter().rev().filter(move |request| request.id == *id)
    }

    fn claim(&self, owner: Owner) -> Arc<Claim> {
        let id = owner.id.id();
        let current = self.records.get(&id).map(Record::fence);
        let nobody = Fence { operation: OperationId::random(), token: 1 };
        let fence = match (owner.fence, current) {
            (Whose::Former(back), _) => self.former(&id, current).nth(back),
            (Whose::Nobody, _) => None,
            (Whose::OfAnotherKey(other), _) => self.records.get(&other.id()).map(Record::fence),
            (Whose::Current, current) => current,
            (Whose::NextToken, current) => current.map(|fence| Fence { token: fence.token + 1, ..fence }),
            (Whose::OtherOperation, current) => {
                current.map(|fence| Fence { operation: OperationId::random(), ..fence })
            }
        };
        let same = Asks::Pay10.fingerprints().current();
        Arc::new(Claim::new(id, fence.unwrap_or(nobody), same, Origin::New))
    }

    /// The fences that a key had before this one, the last one first.
    fn former(&self, id: &KeyId, current: Option<Fence>) -> impl Iterator<Item = Fence> {
        let mut later = current;
        let fences = self.seen.iter().rev().filter(|record| record.id == *id).map(Record::fence);
        fences.filter(move |fence| later.replace(*fence) != Some(*fence))
    }

    fn point(&self, id: Name, number: Number, name: &str) -> RecoveryPoint {
        let record = self.records.get(&id.id());
        let last = record.map_or(0, |record| record.checkpoint);
        let noted = record.and_then(|record| record.point.clone());
        match (number, noted) {
            (Number::LastAgain, Some(noted)) => noted,
            (Number::Used, _) => point(last.max(1), name),
            (Number::Below, _) => point(last.saturating_sub(1).max(1), name),
            (Number::Skipping, _) => point(last + 3, name),
            (Number::Next | Number::LastAgain, _) => point(last + 1, name),
        }
    }

    fn sight(&self, seen: Sight, altered: Altered, now: SystemTime) -> Option<Record> {
        let mut seen = match seen {
            Sight::InDoubt(number) => {
                let in_doubt: Vec<_> = self.in_doubt(now).collect();
                (*in_doubt.get(number % in_doubt.len().max(1))?).clone()
            }
            Sight::Decided => self.decided.clone()?,
            Sight::Now(id) => self.records.get(&id.id())?.clone(),
            Sight::Earlier(id, back) => {
                let id = id.id();
                self.seen.iter().rev().filter(|record| record.id == id).nth(back)?.clone()
            }
        };
        match altered {
            Altered::Not => {}
            Altered::VersionAbove => seen.version += 1,
            Altered::VersionBelow => seen.version = seen.version.saturating_sub(1),
            Altered::OtherOperation => seen.operation = OperationId::random(),
        }
        Some(seen)
    }
}

/// Those ends of a record that decide something.
fn ends(record: &Record) -> impl Iterator<Item = SystemTime> {
    let rerun = match record.rerun_until {
        RerunUntil::At(end) => Some(end),
        RerunUntil::Never | RerunUntil::Always => None,
    };
    let ends = match record.state {
        State::InProgress => [Some(record.lease_until), rerun],
        State::Completed { .. } | State::Failed { .. } => [Some(record.expires_at), None],
    };
    ends.into_iter().flatten()
}
