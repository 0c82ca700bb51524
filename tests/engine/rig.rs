//! An engine over a memory store whose clock, and whose faults, the test moves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, Completed, Ending, Engine, Fingerprint, Fingerprints, KeyId, Maintain, ManualClock,
    MemoryStore, Operation, Policy, Record, RunError, Scope, StoredResponse, conformance::Faulty,
};

pub(crate) type Result<T = ()> = std::result::Result<T, BoxError>;
pub(crate) type Ran = std::result::Result<Answer, RunError<BoxError>>;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn resumable() -> Policy {
    Policy::resumable().lease(LEASE)
}

pub(crate) fn opaque() -> Policy {
    Policy::opaque().lease(LEASE)
}

#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemoryStore,
    pub(crate) faulty: Faulty,
    pub(crate) engine: Engine,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(clock.clone());
        let faulty = Faulty::new(Arc::new(store.clone()));
        Self { engine: Engine::new(faulty.clone()), clock, store, faulty, runs: Arc::default() }
    }

    /// Another process over the same records, without faults.
    pub(crate) fn other(&self) -> Engine {
        Engine::new(self.store.clone())
    }

    /// Moves the store's clock and this process' monotonic one together, in steps that let tasks run.
    pub(crate) async fn elapse(&self, by: Duration) {
        const STEP: Duration = Duration::from_millis(250);
        let mut left = by;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.clock.advance(step);
            tokio::time::advance(step).await;
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            left -= step;
        }
    }

    pub(crate) async fn record(&self) -> Record {
        self.store.find(&id()).await.expect("memory answers").expect("there is a record")
    }

    /// Lets other tasks run until so many works have started.
    pub(crate) async fn started(&self, works: usize) {
        for _ in 0..100_000 {
            if self.runs() >= works {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} of {works} works have started", self.runs());
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Runs `work` under the one key, counting that it started.
    pub(crate) async fn run<F, Fut, R>(&self, policy: Policy, work: F) -> Ran
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        self.run_on(&self.engine, policy, work).await
    }

    pub(crate) async fn run_on<F, Fut, R>(&self, engine: &Engine, policy: Policy, work: F) -> Ran
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        let runs = Arc::clone(&self.runs);
        let work = move |op| {
            runs.fetch_add(1, Ordering::SeqCst);
            work(op)
        };
        engine.run(id(), same(), &policy, work).await
    }
}

pub(crate) fn id() -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("valid"), "key-1".parse().expect("valid"))
}

pub(crate) fn same() -> Fingerprints {
    Fingerprint::of("test").body(b"{}").finish()
}

pub(crate) fn answer(status: u16, body: &'static str) -> StoredResponse {
    StoredResponse::new(status, body).expect("a final status")
}

/// Work that ends with a 201.
pub(crate) async fn pay(op: Operation) -> Result<Completed> {
    Ok(op.complete(answer(201, "paid")).await?)
}

/// Whether the answer is this run's own, with this body.
pub(crate) fn executed(ran: &Ran, body: &str) -> bool {
    matches!(ran, Ok(Answer::Executed(answer)) if answer.body() == body)
}

pub(crate) fn replayed(ran: &Ran, body: &str) -> bool {
    matches!(ran, Ok(Answer::Replayed(answer)) if answer.body() == body)
}

pub(crate) fn engine_error(ran: &Ran) -> Option<idem::ErrorKind> {
    match ran {
        Err(RunError::Engine(error)) => Some(error.kind()),
        Ok(_) | Err(RunError::Work(_) | RunError::Panicked) => None,
    }
}
