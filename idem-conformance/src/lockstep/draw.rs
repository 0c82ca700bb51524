//! Picks the next step: mostly one that means something, often one that comes too late, sometimes one that is absurd.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use idem_core::{
    Claim, ClaimRequest, Decision, Fence, Fingerprint, Fingerprints, Key, KeyId, MAX_SPAN, MIN_LEASE,
    OperationId, Origin, Record, RecoveryPoint, Rerun, Scope, StoredResponse,
};

use super::{act::Act, model::Model, random::Random};
use crate::step::Step;

const SECOND: Duration = Duration::from_secs(1);
const LEASES: [Duration; 4] =
    [Duration::from_secs(30), Duration::from_secs(90), Duration::from_mins(10), MIN_LEASE];
const RENEWALS: [Duration; 7] = [
    Duration::from_secs(20),
    Duration::from_secs(90),
    Duration::from_mins(10),
    MIN_LEASE,
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_nanos(1),
];
const RETENTIONS: [Duration; 4] =
    [Duration::ZERO, Duration::from_mins(1), Duration::from_hours(1), Duration::from_hours(24)];
const WINDOWS: [Duration; 4] =
    [Duration::ZERO, Duration::from_mins(1), Duration::from_mins(20), Duration::from_hours(24)];
const PAUSES: [Duration; 6] = [
    Duration::from_secs(7),
    Duration::from_secs(41),
    Duration::from_secs(101),
    Duration::from_secs(661),
    Duration::from_secs(7201),
    Duration::from_secs(90_001),
];
const TOO_LONG: Duration = MAX_SPAN.saturating_add(SECOND);
/// How many of each kind of thing are remembered, to be sent late.
const MEMORY: usize = 24;

pub(super) struct Draw {
    random: Random,
    ids: Vec<KeyId>,
    requests: VecDeque<Arc<ClaimRequest>>,
    seen: VecDeque<Record>,
    last: Option<Act>,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        let id = |scope, key: &str| {
            KeyId::new(Scope::new(scope).expect("a valid scope"), key.parse().expect("a valid key"))
        };
        let long = "k".repeat(Key::MAX - 1);
        // Names that a careless store takes for one another.
        let ids = vec![
            id("tenant", "key"),
            id("tenant", "KEY"),
            id("tenant", "key "),
            id("Tenant", "key"),
            id("tenantk", "ey"),
            id("tenant", &format!("{long}1")),
            id("tenant", &format!("{long}2")),
        ];
        Self { random: Random::new(seed), ids, requests: VecDeque::new(), seen: VecDeque::new(), last: None }
    }

    /// Which of a store's handles makes the call.
    pub(super) fn handle(&mut self) -> usize {
        self.random.below(2)
    }

    pub(super) fn act(&mut self, model: &Model) -> Act {
        if let Some(last) = &self.last
            && self.random.chance(12)
        {
            return last.clone();
        }
        let act = match self.random.below(100) {
            0..30 => Act::Step(self.claim()),
            30..42 => {
                let renewal = *self.random.pick(&RENEWALS);
                let lease = if self.random.chance(2) { TOO_LONG } else { renewal };
                Act::Step(Step::Renew(self.owner(model), lease))
            }
            42..62 => Act::Step(self.checkpoint(model)),
            62..72 => Act::Step(Step::Complete(self.owner(model), self.answer(), self.retention())),
            72..80 => Act::Step(Step::Release(self.owner(model), self.retention())),
            80..86 => Act::Step(self.resolve(model)),
            86..90 => Act::Sweep(*self.random.pick(&[0, 1, 2, 100])),
            90..92 => Act::Stuck(*self.random.pick(&[0, 1, 2, 100])),
            _ => Act::Elapse(*self.random.pick(&PAUSES)),
        };
        if let Act::Step(step) = &act
            && let Some(record) = model.record(step.id())
        {
            remember(&mut self.seen, record.clone());
        }
        self.last = Some(act.clone());
        act
    }

    fn claim(&mut self) -> Step {
        if self.random.chance(25)
            && let Some(again) = self.remembered_request()
        {
            return Step::Claim(again);
        }
        let (id, lease) = (self.id(), *self.random.pick(&LEASES));
        let mut request = ClaimRequest::new(id, self.fingerprints(), lease, self.retention().min(MAX_SPAN))
            .expect("spans in their limits");
        match self.random.below(100) {
            0 => request.lease = TOO_LONG,
            1 => request.lease = Duration::ZERO,
            2 => request.retention = TOO_LONG,
            _ => {}
        }
        // A caller that sends another request under the attempt id of its last one.
        if self.random.chance(6)
            && let Some(mine) = self.requests.iter().rev().find(|old| old.id == request.id)
        {
            request.attempt = mine.attempt;
        }
        let request = Arc::new(request);
        remember(&mut self.requests, Arc::clone(&request));
        Step::Claim(request)
    }

    fn remembered_request(&mut self) -> Option<Arc<ClaimRequest>> {
        (!self.requests.is_empty()).then(|| {
            let at = self.random.below(self.requests.len());
            Arc::clone(&self.requests[at])
        })
    }

    /// Two requests, each known under one version or two; rarely another request, or a version nobody else carries.
    fn fingerprints(&mut self) -> Fingerprints {
        let first = |body: &str| Fingerprint::of("lockstep").body(body.as_bytes()).finish().current();
        let second = |body| {
            let mut bytes = first(body).to_bytes();
            bytes[0] = 2;
            Fingerprint::from_bytes(bytes)
        };
        match self.random.below(20) {
            0..12 => Fingerprints::new(first("pay 10")),
            12..16 => Fingerprints::new(second("pay 10")).accept(first("pay 10")),
            16 => Fingerprints::new(second("pay 10")),
            17 => Fingerprints::new(second("pay 99")).accept(first("pay 99")),
            _ => Fingerprints::new(first("pay 99")),
        }
    }

    /// Mostly the claim of a current owner.
    fn owner(&mut self, model: &Model) -> Arc<Claim> {
        let id = self.id();
        let current = model.record(&id).map(Record::fence);
        let old = self.seen.iter().rev().find(|record| record.id == id).map(Record::fence);
        let nobody = Fence { operation: OperationId::random(), token: 1 };
        let fence = match (self.random.below(20), current) {
            (0..15, Some(current)) => current,
            (15 | 16, _) => old.unwrap_or(nobody),
            (17, Some(current)) => Fence { token: current.token + 1, ..current },
            (18, Some(current)) => Fence { operation: OperationId::random(), ..current },
            (19, _) => self.somebodys(model),
            _ => nobody,
        };
        Arc::new(Claim::new(id, fence, self.fingerprints().current(), Origin::New))
    }

    /// The fence of any key, or of an operation of the past.
    fn somebodys(&mut self, model: &Model) -> Fence {
        let other = self.id();
        let past = self.seen.front().map(Record::fence);
        let current = model.record(&other).map(Record::fence);
        current.or(past).unwrap_or(Fence { operation: OperationId::random(), token: 1 })
    }

    fn checkpoint(&mut self, model: &Model) -> Step {
        let owner = self.owner(model);
        let record = model.record(owner.id());
        let last = record.map_or(0, |record| record.checkpoint);
        let rerun = match self.random.below(100) {
            0..25 => Rerun::Always,
            25..50 => Rerun::Until(*self.random.pick(&WINDOWS)),
            50..65 => Rerun::Never,
            65..80 => Rerun::Again,
            80..98 => Rerun::Keep,
            _ => Rerun::Until(TOO_LONG),
        };
        let again = record.and_then(|record| record.point.clone());
        let point = match (self.random.below(10), again) {
            (0, Some(point)) => point,
            (1, _) => self.point(last.max(1)),
            (2, _) => self.point(last.saturating_sub(1).max(1)),
            (3, _) => self.point(last + 3),
            _ => self.point(last + 1),
        };
        Step::Checkpoint(owner, point, rerun)
    }

    fn resolve(&mut self, model: &Model) -> Step {
        let in_doubt: Vec<_> = model.in_doubt().cloned().collect();
        let mut seen = if in_doubt.is_empty() || self.random.chance(25) {
            let id = self.id();
            let old = self.seen.iter().find(|record| record.id == id).or(self.seen.front()).cloned();
            match model.record(&id).cloned().filter(|_| self.random.chance(50)).or(old) {
                Some(record) => record,
                // Nothing was ever seen.
                None => return self.claim(),
            }
        } else {
            self.random.pick(&in_doubt).clone()
        };
        match self.random.below(16) {
            0 => seen.version += 1,
            1 => seen.version -= 1,
            2 => seen.operation = OperationId::random(),
            _ => {}
        }
        let decision = match self.random.below(10) {
            0..3 => Decision::Complete(self.answer()),
            3..6 => Decision::Fail,
            6..9 => Decision::Resume(self.point(seen.checkpoint + 1)),
            _ => Decision::Resume(self.point(seen.checkpoint + 2)),
        };
        Step::Resolve(Box::new(seen), decision, self.retention())
    }

    fn point(&mut self, number: u64) -> RecoveryPoint {
        let (name, data) =
            *self.random.pick(&[("charging", &b"\0\xff"[..]), ("charged", b""), ("caf\u{e9}", b"{}")]);
        RecoveryPoint::new(number, name, data).expect("a valid point")
    }

    fn answer(&mut self) -> StoredResponse {
        let (status, body) = *self.random.pick(&[
            (201, &b"{\"ok\":true}"[..]),
            (200, b"\xff\0\xfe"),
            (204, b""),
            (500, b"null"),
        ]);
        let answer = StoredResponse::new(status, body).expect("a valid status");
        if self.random.chance(50) {
            return answer.header("x-b", "2").header("link", &b"\xe9"[..]).header("x-b", "1");
        }
        answer
    }

    fn retention(&mut self) -> Duration {
        if self.random.chance(1) { TOO_LONG } else { *self.random.pick(&RETENTIONS) }
    }

    fn id(&mut self) -> KeyId {
        self.random.pick(&self.ids).clone()
    }
}

fn remember<T>(memory: &mut VecDeque<T>, thing: T) {
    if memory.len() == MEMORY {
        memory.pop_front();
    }
    memory.push_back(thing);
}
