//! Engines over one memory store, each statement on its way for a while, on a clock that the schedule moves.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use idem_core::{
    Answer, Claim, ClaimOutcome, ClaimRequest, Completed, Ending, Engine, Error, ErrorKind, Fingerprint,
    KeyId, KeyStore, Maintain, Operation, Policy, Record, RecoveryPoint, Rerun, RunError, Scope, StoreError,
    StoreErrorKind, StoredResponse,
};
use idem_memory::{ManualClock, MemoryStore};
use scheduled::{
    task::{JoinHandle, spawn, yield_now},
    time,
};

/// Its third, after which it is renewed, is an even number of seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(9);
/// Longer than any scenario lets time pass.
pub(crate) const LONG: Duration = Duration::from_hours(1);

pub(crate) type Ran = Result<Answer, RunError<Error>>;

/// Patient with its store: no statement is given up in the time that passes here.
pub(crate) fn resumable() -> Policy {
    Policy::resumable().lease(LEASE).settle_within(LONG)
}

pub(crate) fn opaque() -> Policy {
    Policy::opaque().lease(LEASE).settle_within(LONG)
}

#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) wire: Wire,
    works: Arc<AtomicUsize>,
}

impl Rig {
    /// At the start of time, with an empty store.
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(clock.clone());
        time::restart(move |passed| clock.advance(passed));
        Self { wire: Wire { store, log: Arc::default(), renews: true }, works: Arc::default() }
    }

    /// One process.
    pub(crate) fn engine(&self) -> Engine {
        Engine::new(self.wire.clone())
    }

    /// Lets time pass up to `end`, whenever the schedule wants it to.
    pub(crate) fn let_pass(end: Duration) {
        drop(spawn(time::pass_until(end)));
    }

    /// A caller in a task of its own, whose work counts that it started.
    pub(crate) fn call<F, Fut, R>(
        &self,
        engine: &Engine,
        key: &'static str,
        policy: Policy,
        work: F,
    ) -> JoinHandle<Ran>
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        let (engine, works) = (engine.clone(), Arc::clone(&self.works));
        let work = move |op| {
            works.fetch_add(1, Ordering::Relaxed);
            work(op)
        };
        spawn(async move {
            let same = Fingerprint::of("test").body(b"{}").finish();
            engine.run(id(key), same, &policy, work).await
        })
    }

    /// How many works have started.
    pub(crate) fn works(&self) -> usize {
        self.works.load(Ordering::Relaxed)
    }

    /// What the store holds, whatever is on its way to it.
    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        self.wire.store.find(&id(key)).await.expect("memory answers")
    }
}

fn id(key: &str) -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("valid"), key.parse().expect("valid"))
}

pub(crate) fn answer(status: u16, body: &'static str) -> StoredResponse {
    StoredResponse::new(status, body).expect("a final status")
}

/// Work that ends with a 201.
pub(crate) async fn pay(op: Operation) -> Result<Completed, Error> {
    op.complete(answer(201, "paid")).await
}

pub(crate) fn executed(ran: &Ran) -> bool {
    matches!(ran, Ok(Answer::Executed(sent)) if *sent == answer(201, "paid"))
}

pub(crate) fn replayed(ran: &Ran) -> bool {
    matches!(ran, Ok(Answer::Replayed(sent)) if *sent == answer(201, "paid"))
}

/// Whether the engine would not, or no more, run it.
pub(crate) fn refused(ran: &Ran) -> bool {
    matches!(ran, Err(RunError::Engine(error)) if error.kind() == ErrorKind::Unavailable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Claim,
    Renew,
    Checkpoint,
    Complete,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    OnItsWay,
    Answered,
    /// Its caller was gone before it was answered.
    CutOff,
}

/// A store some way off: each statement takes a while there and back, and lands though its caller is gone.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    store: MemoryStore,
    /// Under std's lock: writing down what was sent is no step of the schedule.
    log: Arc<Mutex<Vec<(Call, Sent)>>>,
    renews: bool,
}

impl Wire {
    /// The same store, over a way on which every renewal is lost.
    pub(crate) fn without_renewals(mut self) -> Self {
        self.renews = false;
        self
    }

    pub(crate) fn sent(&self, call: Call) -> usize {
        self.log.lock().unwrap().iter().filter(|entry| entry.0 == call).count()
    }

    pub(crate) fn log(&self) -> Vec<(Call, Sent)> {
        self.log.lock().unwrap().clone()
    }

    async fn send<T: Send + 'static>(
        &self,
        call: Call,
        statement: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut flight = Flight::of(&self.log, call);
        let landing = spawn(async move {
            yield_now().await;
            let answer = statement.await;
            yield_now().await;
            answer
        });
        let answer = landing.await.expect("no statement is stopped");
        flight.became = Sent::Answered;
        answer
    }
}

struct Flight<'a> {
    log: &'a Mutex<Vec<(Call, Sent)>>,
    number: usize,
    became: Sent,
}

impl<'a> Flight<'a> {
    fn of(log: &'a Mutex<Vec<(Call, Sent)>>, call: Call) -> Self {
        let mut sent = log.lock().unwrap();
        sent.push((call, Sent::OnItsWay));
        Self { log, number: sent.len() - 1, became: Sent::CutOff }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.log.lock().unwrap()[self.number].1 = self.became;
    }
}

/// The same proof, for a statement that outlives its caller.
fn copy(claim: &Claim) -> Claim {
    Claim::new(claim.id().clone(), claim.fence(), claim.fingerprint(), claim.origin())
        .resumed_at(claim.checkpoint(), claim.point().cloned())
}

#[async_trait]
impl KeyStore for Wire {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        let (store, mut sent) = (self.store.clone(), request.again());
        sent.attempt = request.attempt;
        self.send(Call::Claim, async move { store.claim(&sent).await }).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        let (store, claim) = (self.store.clone(), copy(claim));
        if !self.renews {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "renew"));
        }
        self.send(Call::Renew, async move { store.renew(&claim, lease).await }).await
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        let (store, claim, point) = (self.store.clone(), copy(claim), point.clone());
        self.send(Call::Checkpoint, async move { store.checkpoint(&claim, &point, rerun).await }).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let (store, claim, response) = (self.store.clone(), copy(claim), response.clone());
        self.send(Call::Complete, async move { store.complete(&claim, &response, retention).await }).await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        let (store, claim) = (self.store.clone(), copy(claim));
        self.send(Call::Release, async move { store.release(&claim, retention).await }).await
    }

    async fn ended(&self, _claim: &Claim) {}
}
