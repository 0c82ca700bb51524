//! Claims a key, runs the work once, and ends the key.

mod admission;
mod finish;
mod prepared;
mod task;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{Ending, Error, Fingerprints, KeyId, KeyStore, Operation, Policy, StoredResponse};
use admission::Admission;
pub use prepared::Prepared;

/// How many runs an engine has under way at most, unless told otherwise.
pub const MAX_RUNNING: usize = 1024;

/// Says of a header, by its name in lower case, whether it is stored.
pub type KeepHeaders = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Claims a key, runs the work once in a task of its own, and ends the key.
///
/// Cheap to clone; clones share the bound on running work and are drained together. It holds no connection, transaction
/// or lock while the work runs.
///
/// ```
/// use idem_core::{Answer, Engine, Fingerprint, KeyId, Operation, Policy, Scope, StoredResponse};
/// use idem_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let engine = Engine::new(MemoryStore::new());
/// let id = KeyId::new(Scope::new("queue payouts")?, "message-1".parse()?);
/// let same = Fingerprint::of("queue payouts").body(b"{}").finish();
/// let work = async |op: Operation| op.complete(StoredResponse::new(201, "paid")?).await;
///
/// let first = engine.run(id.clone(), same.clone(), &Policy::resumable(), work).await?;
/// let again = engine.run(id, same, &Policy::resumable(), work).await?;
/// let (Answer::Executed(first), Answer::Replayed(again)) = (first, again) else { panic!("ran twice") };
/// assert_eq!(first, again);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn KeyStore>,
    admission: Admission,
}

impl Engine {
    /// An engine over a store.
    pub fn new(store: impl KeyStore) -> Self {
        Self { store: Arc::new(store), admission: Admission::new(MAX_RUNNING) }
    }

    /// Bounds the runs that are under way; default [`MAX_RUNNING`], at least 1. Further ones wait, without having claimed
    /// and with no bound on their time or number: shed load further out.
    ///
    /// The clone that is returned has a bound, and is drained, of its own.
    #[must_use]
    pub fn max_running(mut self, runs: usize) -> Self {
        self.admission = Admission::new(runs);
        self
    }

    /// Runs `work` once for this key, or answers from the record.
    ///
    /// The claim is committed before the work starts, and the answer is committed before this returns.
    ///
    /// # Errors
    /// [`RunError::Work`] with the work's own error, [`RunError::Panicked`], or [`RunError::Engine`]: `Unavailable` if
    /// nothing ran, `Unknown` if the end could not be settled, `EffectUnknown` if an answer, or a panic, left an effect open, `Corrupt`, `Invalid` for a setting, or for a header line of the
    /// answer that no HTTP message can carry.
    ///
    /// # Cancel safety
    /// Dropped while it waits for a place among the running, nothing happens. Dropped later, the run goes on in its own
    /// task: a retry finds it in progress or done.
    pub async fn run<F, Fut, R, E>(
        &self,
        id: KeyId,
        same: Fingerprints,
        policy: &Policy,
        work: F,
    ) -> Result<Answer, RunError<E>>
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
        E: Send + 'static,
    {
        self.prepare(id, same, policy).run(work).await
    }

    /// As [`run`](Self::run), with a say in which headers of an answer are stored.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_keeping<F, Fut, R, E>(
        &self,
        id: KeyId,
        same: Fingerprints,
        policy: &Policy,
        keep: KeepHeaders,
        work: F,
    ) -> Result<Answer, RunError<E>>
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
        E: Send + 'static,
    {
        self.prepare(id, same, policy).keep_headers(keep).run(work).await
    }

    /// A run that says more than [`run`](Self::run) takes: which headers are stored, and what was asked for.
    pub fn prepare(&self, id: KeyId, same: Fingerprints, policy: &Policy) -> Prepared<'_> {
        Prepared::new(self, id, same, policy)
    }

    /// Stops taking runs on, waits for those under way, then hands on what can be handed on; returns how many it left.
    ///
    /// Up to `within` every run may end by itself. Then the work of resumable runs is dropped and their keys are handed
    /// on, so that the next request resumes at once. Opaque work is left to its lease: it may have had an effect.
    ///
    /// # Cancel safety
    /// Dropped, the engine still takes nothing on; call it again to go on waiting.
    pub async fn drain(&self, within: Duration) -> usize {
        self.admission.drain(within).await
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What a caller is to be told.
#[derive(Debug)]
#[must_use = "it says whether the work was done"]
pub enum Answer {
    /// This run's answer, committed.
    Executed(StoredResponse),
    /// This run's answer is the caller's alone: [`StoredResponse::not_kept`] is committed in its place.
    NotKept,
    /// An earlier run's answer.
    Replayed(StoredResponse),
    /// The operation has not ended and nothing of it is kept: the same key may be tried again.
    Released,
    /// Somebody is at work, or this run lost its claim; ask again with the same key.
    InProgress {
        /// What is left of the lease.
        retry_after: Duration,
    },
    /// An effect may have happened: a person or a reconciler decides.
    InDoubt {
        /// Since when, by the store's clock.
        since: SystemTime,
    },
    /// The key stands for another request.
    Mismatch,
}

/// Why a run has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The work's own error. A resumable operation was released, or handed on if something is recorded or an effect is open; an
    /// opaque one is left and will be in doubt.
    #[error("the work failed")]
    Work(E),
    /// The work panicked; as for [`RunError::Work`]. With an effect open it is [`RunError::Engine`] with `EffectUnknown`.
    #[error("the work panicked")]
    Panicked,
    /// The engine could not go on.
    #[error(transparent)]
    Engine(#[from] Error),
}
