//! A store whose calls go wrong on demand, for tests of whatever stands on a store.

mod plan;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt, future::BoxFuture};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Decision, KeyId, KeyStore, Maintain, Record, RecoveryPoint, Rerun,
    StoreError, StoreErrorKind, StoredResponse, Stuck,
};
pub use plan::{Delayed, Held};
use plan::{Fault, Plan};

/// A method of the store traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum Call {
    Claim,
    Renew,
    Checkpoint,
    Complete,
    Release,
    Ended,
    Sweep,
    Stuck,
    Find,
    Resolve,
}

impl Call {
    /// The method's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Checkpoint => "checkpoint",
            Self::Complete => "complete",
            Self::Release => "release",
            Self::Ended => "ended",
            Self::Sweep => "sweep",
            Self::Stuck => "stuck",
            Self::Find => "find",
            Self::Resolve => "resolve",
        }
    }
}

/// Any store, with a plan of what goes wrong; clones share the plan.
///
/// Each planned fault meets one call of its kind, in the order in which they were planned; a call without a fault goes
/// through. `ended` has no answer that could be lost: there, a lost reply and a definite error show only in whether the
/// store was told.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use idem_conformance::{Call, Faulty};
/// use idem_core::{ClaimOutcome, ClaimRequest, Fingerprint, KeyId, KeyStore, Origin, Scope, StoreErrorKind};
/// use idem_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = Faulty::new(Arc::new(MemoryStore::new()));
/// let id = KeyId::new(Scope::new("tenant 7")?, "a3f7b9d1".parse()?);
/// let same = Fingerprint::of("charge").body(b"{}").finish();
/// let request = ClaimRequest::new(id, same, Duration::from_secs(90), Duration::from_hours(24))?;
///
/// store.lose_reply(Call::Claim);
/// let error = store.claim(&request).await.expect_err("the reply is lost");
/// assert_eq!(error.kind(), StoreErrorKind::Unknown);
///
/// let again = store.claim(&request).await?;
/// assert!(matches!(again, ClaimOutcome::Claimed(claim) if claim.origin() == Origin::Reissued));
/// assert_eq!(store.seen(Call::Claim), 2);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Faulty {
    store: Arc<dyn Maintain>,
    plan: Arc<Plan>,
}

impl Faulty {
    /// `store`, with nothing planned.
    pub fn new(store: Arc<dyn Maintain>) -> Self {
        Self { store, plan: Arc::default() }
    }

    /// Lets the next such call through as it is: for faults that come later.
    pub fn pass(&self, call: Call) {
        self.plan.add(call, Fault::Pass);
    }

    /// The next such call never reaches the store; its caller is told `Unknown`.
    pub fn lose_request(&self, call: Call) {
        self.plan.add(call, Fault::LoseRequest);
    }

    /// The next such call happens; its caller is told `Unknown`, whatever the answer was.
    pub fn lose_reply(&self, call: Call) {
        self.plan.add(call, Fault::LoseReply);
    }

    /// The next such call does not happen; its caller is told `kind`.
    pub fn fail(&self, call: Call, kind: StoreErrorKind) {
        self.plan.add(call, Fault::Fail(kind));
    }

    /// The next such call is on its way for as long as the test wants: its caller is told `Unknown` at once, and
    /// [`Delayed::land`] makes it happen.
    pub fn delay(&self, call: Call) -> Delayed {
        let (fault, delayed) = plan::delay();
        self.plan.add(call, fault);
        delayed
    }

    /// The next such call waits before it reaches the store, until [`Held::release`].
    pub fn hold(&self, call: Call) -> Held {
        let (gate, held) = plan::gate();
        self.plan.add(call, Fault::HoldRequest(gate));
        held
    }

    /// The next such call happens, and its caller waits for the answer until [`Held::release`].
    pub fn hold_reply(&self, call: Call) -> Held {
        let (gate, held) = plan::gate();
        self.plan.add(call, Fault::HoldReply(gate));
        held
    }

    /// How many such calls were made through this store and its clones, whatever became of them.
    pub fn seen(&self, call: Call) -> usize {
        self.plan.seen(call)
    }

    /// How many planned faults have not met their call yet.
    pub fn pending(&self) -> usize {
        self.plan.pending()
    }

    /// One call and the fault that it meets. `now` is the call itself; `later` makes it with arguments of its own.
    async fn meet<T: Send>(
        &self,
        call: Call,
        now: impl Future<Output = Result<T, StoreError>> + Send,
        later: impl FnOnce(Arc<dyn Maintain>) -> BoxFuture<'static, Landing> + Send,
    ) -> Result<T, StoreError> {
        let error = |kind| StoreError::new(kind, call.name()).because("planned by the test");
        match self.plan.next(call) {
            Fault::Pass => now.await,
            Fault::LoseRequest => Err(error(StoreErrorKind::Unknown)),
            Fault::LoseReply => {
                let _lost = now.await;
                Err(error(StoreErrorKind::Unknown))
            }
            Fault::Fail(kind) => Err(error(kind)),
            Fault::Delay(delayed) => {
                // A test that dropped its handle never wants it to land.
                drop(delayed.send(later(Arc::clone(&self.store))));
                Err(error(StoreErrorKind::Unknown))
            }
            Fault::HoldRequest(gate) => {
                gate.pass().await;
                now.await
            }
            Fault::HoldReply(gate) => {
                let reply = now.await;
                gate.pass().await;
                reply
            }
        }
    }
}

/// What the store answered to a call that was delayed; the outcome if it was a claim.
type Landing = Result<Option<ClaimOutcome>, StoreError>;

/// The same request for a second sending: with its attempt id.
fn same_request(request: &ClaimRequest) -> ClaimRequest {
    let mut same = request.again();
    same.attempt = request.attempt;
    same
}

/// The same proof for a second sending.
pub(crate) fn same_claim(claim: &Claim) -> Claim {
    Claim::new(claim.id().clone(), claim.fence(), claim.fingerprint(), claim.origin())
        .resumed_at(claim.checkpoint(), claim.point().cloned())
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl KeyStore for Faulty {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let request = same_request(request);
            async move { store.claim(&request).await.map(Some) }.boxed()
        };
        self.meet(Call::Claim, self.store.claim(request), later).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let claim = same_claim(claim);
            async move { store.renew(&claim, lease).await.map(|()| None) }.boxed()
        };
        self.meet(Call::Renew, self.store.renew(claim, lease), later).await
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let (claim, point) = (same_claim(claim), point.clone());
            async move { store.checkpoint(&claim, &point, rerun).await.map(|()| None) }.boxed()
        };
        self.meet(Call::Checkpoint, self.store.checkpoint(claim, point, rerun), later).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let (claim, response) = (same_claim(claim), response.clone());
            async move { store.complete(&claim, &response, retention).await.map(|()| None) }.boxed()
        };
        self.meet(Call::Complete, self.store.complete(claim, response, retention), later).await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let claim = same_claim(claim);
            async move { store.release(&claim, retention).await.map(|()| None) }.boxed()
        };
        self.meet(Call::Release, self.store.release(claim, retention), later).await
    }

    async fn ended(&self, claim: &Claim) {
        let now = async {
            self.store.ended(claim).await;
            Ok(())
        };
        let later = |store: Arc<dyn Maintain>| {
            let claim = same_claim(claim);
            async move {
                store.ended(&claim).await;
                Ok(None)
            }
            .boxed()
        };
        // A notice has no answer, so its caller cannot learn what became of it.
        let _unanswered = self.meet(Call::Ended, now, later).await;
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Maintain for Faulty {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let later = |store: Arc<dyn Maintain>| async move { store.sweep(limit).await.map(|_| None) }.boxed();
        self.meet(Call::Sweep, self.store.sweep(limit), later).await
    }

    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        let later = |store: Arc<dyn Maintain>| async move { store.stuck(limit).await.map(|_| None) }.boxed();
        self.meet(Call::Stuck, self.store.stuck(limit), later).await
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let id = id.clone();
            async move { store.find(&id).await.map(|_| None) }.boxed()
        };
        self.meet(Call::Find, self.store.find(id), later).await
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let later = |store: Arc<dyn Maintain>| {
            let (seen, decision) = (seen.clone(), decision.clone());
            async move { store.resolve(&seen, &decision, retention).await.map(|()| None) }.boxed()
        };
        self.meet(Call::Resolve, self.store.resolve(seen, decision, retention), later).await
    }
}
