//! A fresh store on the bench: keys, time, and every call judged as it is made.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Decision, Fingerprint, Fingerprints, KeyId, MAX_SPAN, Maintain,
    Record, RecoveryPoint, Rerun, Scope, StoreErrorKind, StoredRequest, StoredResponse,
};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    Harness,
    judge::{Window, explain},
    step::{Reply, Step},
};

/// Far above what a slow machine takes for a case, so that only `elapse` ends a lease.
pub(crate) const LEASE: Duration = Duration::from_mins(10);
pub(crate) const RETENTION: Duration = Duration::from_hours(24);
/// A good deal more than nothing, far less than a lease.
pub(crate) const MARGIN: Duration = Duration::from_mins(1);

pub(crate) struct Bench {
    /// Makes the calls.
    pub(crate) store: Arc<dyn Maintain>,
    /// Reads what they left, over another connection.
    pub(crate) other: Arc<dyn Maintain>,
    time: Box<dyn Time>,
    names: AtomicU64,
    rushes: AtomicU64,
}

/// The part of a harness that is used after its start.
#[async_trait]
trait Time: Send + Sync {
    async fn elapse(&self, by: Duration);
}

#[async_trait]
impl<H: Harness> Time for H {
    async fn elapse(&self, by: Duration) {
        Harness::elapse(self, by).await;
    }
}

impl Bench {
    pub(crate) async fn start<H: Harness>() -> Self {
        let harness = H::start().await;
        Self {
            store: harness.store(),
            other: harness.second().await,
            time: Box::new(harness),
            names: AtomicU64::new(0),
            rushes: AtomicU64::new(0),
        }
    }

    /// A key that was never used.
    pub(crate) fn id(&self) -> KeyId {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        key("conformance", &format!("key-{number}"))
    }

    pub(crate) async fn elapse(&self, by: Duration) {
        self.time.elapse(by).await;
    }

    /// What the store's clock shows: the time at which it claims a key that is never used otherwise. That key stays
    /// claimed for ten years, so that no sweep and no list ever shows it.
    pub(crate) async fn now(&self) -> SystemTime {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let id = key("the clock of conformance", &format!("{number}"));
        let request = ClaimRequest::new(id, body("clock"), MAX_SPAN, Duration::ZERO).expect("valid");
        let outcome = self.store.claim(&request).await.expect("the store claims a fresh key");
        assert!(matches!(outcome, ClaimOutcome::Claimed(_)), "a fresh key was answered with {outcome:?}");
        self.record(&request.id).await.expect("a claimed key has a record").locked_at
    }

    /// The record as another connection sees it.
    pub(crate) async fn record(&self, id: &KeyId) -> Option<Record> {
        self.other.find(id).await.expect("find answers")
    }

    /// Makes one call and judges its answer and the record that it leaves.
    pub(crate) async fn step(&self, step: Step) -> Reply {
        self.step_on(&self.store, step).await
    }

    /// As [`step`](Self::step), on another handle of the store.
    pub(crate) async fn step_on(&self, store: &Arc<dyn Maintain>, step: Step) -> Reply {
        let before = self.record(step.id()).await;
        let opened = self.now().await;
        let reply = step.call(&**store).await;
        let window = Window { before: opened, after: self.now().await };
        let after = self.record(step.id()).await;
        if let Err(why) = explain(before.as_ref(), &[(&step, Some(&reply))], after.as_ref(), window) {
            panic!("{why}\n  call: {step:?}\n  record before: {before:?}");
        }
        reply
    }

    /// Makes calls about one key at the same time, on both handles, and returns the answers in the order of `steps`.
    pub(crate) async fn rush(&self, steps: &[Step]) -> Vec<Reply> {
        let barrier = Arc::new(Barrier::new(steps.len()));
        let mut tasks = JoinSet::new();
        let mut runners: Vec<_> = steps.iter().cloned().enumerate().collect();
        // The one that is last at the barrier tends to be off first: every other time from the other end.
        if self.rushes.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            runners.reverse();
        }
        for (number, step) in runners {
            let store = Arc::clone(if number % 2 == 0 { &self.store } else { &self.other });
            let barrier = Arc::clone(&barrier);
            tasks.spawn(async move {
                barrier.wait().await;
                (number, step.insist(&*store).await)
            });
        }
        let mut replies = tasks.join_all().await;
        replies.sort_by_key(|(number, _)| *number);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Makes calls about one key at the same time; some order of them has to explain the answers and the record.
    pub(crate) async fn race(&self, steps: &[Step]) -> Vec<Reply> {
        let id = steps.first().expect("a race has runners").id();
        let before = self.record(id).await;
        let opened = self.now().await;
        let replies = self.rush(steps).await;
        let window = Window { before: opened, after: self.now().await };
        let after = self.record(id).await;
        let seen: Vec<_> = steps.iter().zip(replies.iter().map(Some)).collect();
        let verdicts: Vec<_> = orders(seen)
            .iter()
            .map(|order| explain(before.as_ref(), order, after.as_ref(), window))
            .take_while(Result::is_err)
            .collect();
        let tried = (1..=steps.len()).product::<usize>();
        assert!(
            verdicts.len() < tried,
            "no order of the calls explains what was seen: {verdicts:#?}\n  calls: {steps:#?}\n  answers: {replies:#?}\n  record before: {before:?}\n  record after: {after:?}"
        );
        replies
    }
}

/// Every order of a few things.
fn orders<T: Clone>(things: Vec<T>) -> Vec<Vec<T>> {
    if things.len() < 2 {
        return vec![things];
    }
    (0..things.len())
        .flat_map(|first| {
            let mut rest = things.clone();
            let first = rest.remove(first);
            orders(rest).into_iter().map(move |mut order| {
                order.insert(0, first.clone());
                order
            })
        })
        .collect()
}

/// The usual calls, each judged as it is made.
impl Bench {
    pub(crate) async fn claim(&self, request: &Arc<ClaimRequest>) -> Result<ClaimOutcome, StoreErrorKind> {
        match self.step(Step::Claim(Arc::clone(request))).await {
            Reply::Claim(reply) => reply,
            other => panic!("a claim was answered with {other:?}"),
        }
    }

    /// Claims with a new attempt id and the usual fingerprint, lease and retention.
    pub(crate) async fn ask(&self, id: &KeyId) -> ClaimOutcome {
        self.claim(&request(id)).await.expect("the store answers the claim")
    }

    /// Claims what can be claimed.
    pub(crate) async fn take(&self, id: &KeyId) -> Arc<Claim> {
        self.take_by(&request(id)).await
    }

    pub(crate) async fn take_by(&self, request: &Arc<ClaimRequest>) -> Arc<Claim> {
        match self.claim(request).await {
            Ok(ClaimOutcome::Claimed(claim)) => Arc::new(claim),
            other => panic!("the key can be claimed, and the answer is {other:?}"),
        }
    }

    pub(crate) async fn write(&self, step: Step) -> Result<(), StoreErrorKind> {
        match self.step(step).await {
            Reply::Write(reply) => reply,
            other => panic!("a write was answered with {other:?}"),
        }
    }

    pub(crate) async fn renew(&self, claim: &Arc<Claim>, lease: Duration) -> Result<(), StoreErrorKind> {
        self.write(Step::Renew(Arc::clone(claim), lease)).await
    }

    pub(crate) async fn checkpoint(
        &self,
        claim: &Arc<Claim>,
        point: &RecoveryPoint,
        rerun: Rerun,
    ) -> Result<(), StoreErrorKind> {
        self.write(Step::Checkpoint(Arc::clone(claim), point.clone(), rerun)).await
    }

    pub(crate) async fn complete(
        &self,
        claim: &Arc<Claim>,
        answer: &StoredResponse,
    ) -> Result<(), StoreErrorKind> {
        self.write(Step::Complete(Arc::clone(claim), answer.clone(), RETENTION)).await
    }

    pub(crate) async fn release(&self, claim: &Arc<Claim>) -> Result<(), StoreErrorKind> {
        self.write(Step::Release(Arc::clone(claim), RETENTION)).await
    }

    pub(crate) async fn resolve(&self, seen: &Record, decision: &Decision) -> Result<(), StoreErrorKind> {
        self.write(Step::Resolve(Box::new(seen.clone()), decision.clone(), RETENTION)).await
    }

    /// Gives the key up without ending it: stale at once.
    pub(crate) async fn hand_on(&self, claim: &Arc<Claim>) {
        assert_eq!(self.renew(claim, Duration::ZERO).await, Ok(()), "handing on");
    }
}

pub(crate) fn key(scope: &str, key: &str) -> KeyId {
    KeyId::new(Scope::new(scope).expect("a valid scope"), key.parse().expect("a valid key"))
}

/// What makes requests with this body the same.
pub(crate) fn body(body: &str) -> Fingerprints {
    Fingerprint::of("conformance").body(body.as_bytes()).finish()
}

/// A claim by a new caller, of the request that every case makes if it does not say otherwise.
pub(crate) fn request(id: &KeyId) -> Arc<ClaimRequest> {
    request_of(id, body("first"))
}

pub(crate) fn request_of(id: &KeyId, same: Fingerprints) -> Arc<ClaimRequest> {
    Arc::new(ClaimRequest::new(id.clone(), same, LEASE, RETENTION).expect("valid spans"))
}

/// A claim that has stored what it asks for.
pub(crate) fn request_with(id: &KeyId, request: StoredRequest) -> Arc<ClaimRequest> {
    request_storing(id, body("first"), request)
}

pub(crate) fn request_storing(id: &KeyId, same: Fingerprints, request: StoredRequest) -> Arc<ClaimRequest> {
    let claim = ClaimRequest::new(id.clone(), same, LEASE, RETENTION).expect("valid spans");
    Arc::new(claim.with_request(request))
}

pub(crate) fn asked(route: &str, data: &[u8]) -> StoredRequest {
    StoredRequest::new(route, data.to_vec()).expect("a valid request")
}

pub(crate) fn answer(text: &str) -> StoredResponse {
    StoredResponse::new(201, text.to_owned()).expect("a valid status").header("content-type", "text/plain")
}

pub(crate) fn point(number: u64, name: &str) -> RecoveryPoint {
    RecoveryPoint::new(number, name, format!("data of {name}")).expect("a valid recovery point")
}
