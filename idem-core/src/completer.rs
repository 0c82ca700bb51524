//! Finishes what its client has abandoned.

use std::{collections::HashMap, fmt, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;
use tracing::warn;

use crate::{
    Answer, BoxError, Ending, Engine, Fingerprints, KeepHeaders, Maintain, Operation, Policy, Record, Report,
    RunError, StoreError, event, turns::Turns,
};

/// The pause between two passes.
pub const COMPLETE_EVERY: Duration = Duration::from_secs(30);
/// The most operations that one pass runs.
pub const COMPLETE_BATCH: u32 = 100;
/// How many of them it runs at a time.
pub const COMPLETE_AT_ONCE: usize = 4;
/// How long a lease has been over before an operation counts as abandoned: a client that is still there retries sooner.
pub const COMPLETE_GRACE: Duration = Duration::from_mins(1);

/// How the abandoned operations of one route are finished.
#[derive(Clone)]
pub struct Handler {
    policy: Policy,
    keep: KeepHeaders,
    work: Work,
}

type Work = Arc<dyn Fn(Bytes) -> Result<Begin, BoxError> + Send + Sync>;
type Begin = Box<dyn FnOnce(Operation) -> Working + Send>;
type Working = Pin<Box<dyn Future<Output = Result<Ending, BoxError>> + Send>>;

impl Handler {
    /// Does what the route's own handler does, of the bytes that were stored.
    ///
    /// Under the route's own policy; only that a completer does not [`wait`](Policy::wait) for others.
    pub fn new<F, Fut, R, E>(policy: Policy, work: F) -> Self
    where
        F: Fn(Operation, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending>,
        E: Into<BoxError>,
    {
        Self::decoding(policy, Ok, work)
    }

    /// As [`new`](Self::new), of what `decode` makes of those bytes.
    ///
    /// It is asked before the key is claimed. What it refuses is left as it was and tried again later: a request that a newer
    /// process stored is one for a newer process.
    pub fn decoding<T, D, F, Fut, R, E>(policy: Policy, decode: D, work: F) -> Self
    where
        T: Send + 'static,
        D: Fn(Bytes) -> Result<T, BoxError> + Send + Sync + 'static,
        F: Fn(Operation, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending>,
        E: Into<BoxError>,
    {
        let work = Arc::new(work);
        let begin = move |data| -> Result<Begin, BoxError> {
            let (work, request) = (Arc::clone(&work), decode(data)?);
            Ok(Box::new(move |operation| {
                let working = work(operation, request);
                Box::pin(async move { working.await.map(Into::into).map_err(Into::into) })
            }))
        };
        Self { policy: policy.wait(Duration::ZERO), keep: Arc::new(|_| true), work: Arc::new(begin) }
    }

    /// Which headers of an answer are stored; default all.
    #[must_use]
    pub fn keep_headers(mut self, keep: KeepHeaders) -> Self {
        self.keep = keep;
        self
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Finishes the operations that nobody comes back for, at an interval: by the handler of their route, with the request that
/// was stored with the claim.
///
/// It claims as every client does, under the record's own key and fingerprint: a client that retries at the same time has the
/// key or has not, each effect is asked for with the same provider key, and the answer waits for a client that comes late. Any
/// number of processes may complete one store.
///
/// It takes up what is in progress past its lease, once that has been over for a [`grace`](Self::grace), and stored its
/// request for a route that has a handler here. It leaves alone
///
/// * what is at work, and what is in doubt: the latter is for a [`Reconciler`](crate::Reconciler), after which it is taken up;
/// * what stored no request, or one of a route without a handler: it is counted as `left`, and reported;
/// * what was released (`failed`): nothing of it was done, and its client was told to try again. To run it after all would be
///   to decide for a client that may have decided otherwise. So a handler that releases ends an operation for good where
///   no client comes back.
///
/// An operation that could not be finished is tried again after a minute, then after pauses that double up to an hour.
///
/// ```
/// use bytes::Bytes;
/// use idem_core::{BoxError, Completer, Engine, Maintain, Operation, Policy, StoredResponse};
///
/// # fn start(store: impl Maintain + Clone) {
/// let engine = Engine::new(store.clone());
/// let completer = Completer::new(store, engine).handle("payouts", Policy::resumable(), async |op: Operation, order: Bytes| {
///     // What the route does with `order`, by the same function.
///     Ok::<_, BoxError>(op.complete(StoredResponse::new(201, order)?).await?)
/// });
/// tokio::spawn(completer.run());
/// # }
/// ```
///
/// **Source:** B. Leach, "Implementing Stripe-like Idempotency Keys in Postgres" (the completer).
pub struct Completer {
    store: Arc<dyn Maintain>,
    engine: Engine,
    handlers: HashMap<String, Handler>,
    every: Duration,
    batch: u32,
    at_once: usize,
    grace: Duration,
    turns: Turns,
}

impl Completer {
    /// One without handlers, with a pass every [`COMPLETE_EVERY`], of at most [`COMPLETE_BATCH`] operations,
    /// [`COMPLETE_AT_ONCE`] at a time, each [`COMPLETE_GRACE`] after its lease.
    ///
    /// `engine` is one over the same records. Where it is the one that serves requests, the two share its bound on running
    /// work, and draining it stops the completer as well.
    pub fn new(store: impl Maintain, engine: Engine) -> Self {
        Self {
            store: Arc::new(store),
            engine,
            handlers: HashMap::new(),
            every: COMPLETE_EVERY,
            batch: COMPLETE_BATCH,
            at_once: COMPLETE_AT_ONCE,
            grace: COMPLETE_GRACE,
            turns: Turns::default(),
        }
    }

    /// How the operations of a route are finished; the last one given counts.
    ///
    /// `route` is that of [`StoredRequest::new`](crate::StoredRequest::new), and `policy` the one that the route runs under.
    #[must_use]
    pub fn handle<F, Fut, R, E>(self, route: impl Into<String>, policy: Policy, work: F) -> Self
    where
        F: Fn(Operation, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending>,
        E: Into<BoxError>,
    {
        self.handle_with(route, Handler::new(policy, work))
    }

    /// As [`handle`](Self::handle), with a handler that was made elsewhere.
    #[must_use]
    pub fn handle_with(mut self, route: impl Into<String>, handler: Handler) -> Self {
        self.handlers.insert(route.into(), handler);
        self
    }

    /// The pause between two passes; default [`COMPLETE_EVERY`], at least one second.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(Duration::from_secs(1));
        self
    }

    /// The most operations that one pass runs; default [`COMPLETE_BATCH`], at least 1.
    #[must_use]
    pub fn batch(mut self, operations: u32) -> Self {
        self.batch = operations.max(1);
        self
    }

    /// How many operations it runs at a time; default [`COMPLETE_AT_ONCE`], at least 1.
    #[must_use]
    pub fn at_once(mut self, operations: usize) -> Self {
        self.at_once = operations.max(1);
        self
    }

    /// How long a lease has been over before its operation counts as abandoned; default [`COMPLETE_GRACE`].
    ///
    /// Longer than clients take to retry, and with room in the shortest window in which a provider knows its keys.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Completes for ever. A pass that fails is reported and the next one comes after the pause.
    ///
    /// # Cancel safety
    /// What is running goes on to its end in its own task.
    #[expect(clippy::disallowed_methods, reason = "the completer's pause between two passes")]
    pub async fn run(self) {
        loop {
            if let Err(error) = self.pass().await {
                warn!(%error, "completing failed; trying again after the pause");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// One pass over what has been abandoned for longest.
    ///
    /// # Errors
    /// The store's, of looking for what is stuck. What cannot be finished is passed over, and tried again later.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn pass(&self) -> Result<Report, StoreError> {
        let abandoned = self
            .turns
            .due(&*self.store, self.batch, |stuck| !stuck.in_doubt && stuck.stuck_for >= self.grace)
            .await?;
        let batch = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let (mut report, mut finishing) = (Report::default(), Vec::new());
        for record in &abandoned {
            match self.handler(record) {
                Some((handler, request)) if finishing.len() < batch => {
                    finishing.push(self.finish(record, handler, request.clone()));
                }
                // They come first in the next pass.
                Some(_) => {}
                None => {
                    event::completed(&record.id, "left");
                    self.turns.put_off(record);
                    report.left += 1;
                }
            }
        }
        let mut finishing = stream::iter(finishing).buffer_unordered(self.at_once);
        while let Some((record, finished)) = finishing.next().await {
            match finished {
                Ok(()) => {
                    event::completed(&record.id, "settled");
                    self.turns.done(record);
                    report.settled += 1;
                }
                Err(why) => {
                    event::unfinished(&record.id, &*why);
                    self.turns.put_off(record);
                    report.unsettled += 1;
                }
            }
        }
        Ok(report)
    }

    /// What finishes this record, and of what request.
    fn handler<'a>(&'a self, record: &'a Record) -> Option<(&'a Handler, &'a Bytes)> {
        let request = record.request.as_ref()?;
        Some((self.handlers.get(request.route())?, request.data()))
    }

    async fn finish<'r>(
        &self,
        record: &'r Record,
        handler: &Handler,
        request: Bytes,
    ) -> (&'r Record, Result<(), BoxError>) {
        (record, self.carry_out(record, handler, request).await)
    }

    /// Runs the handler under the record's own key. `Ok` is an answer that a late client gets.
    async fn carry_out(&self, record: &Record, handler: &Handler, request: Bytes) -> Result<(), BoxError> {
        let (policy, work) = (&handler.policy, (handler.work)(request)?);
        let run = self
            .engine
            .prepare(record.id.clone(), Fingerprints::new(record.fingerprint), policy)
            .keep_headers(Arc::clone(&handler.keep))
            .only(record.operation)
            .run(work);
        // A handler that hangs keeps its place in the engine, and not the pass with it.
        let within = policy.max_execution_span().saturating_add(policy.settle_span());
        match timeout(within, run).await {
            Err(_) => Err("it did not end within its policy's max_execution".into()),
            Ok(Ok(Answer::Executed(_) | Answer::NotKept | Answer::Replayed(_))) => Ok(()),
            Ok(Ok(Answer::Released)) => Err("its handler gave no answer to keep".into()),
            Ok(Ok(Answer::InProgress { .. })) => Err("somebody else is at work on it".into()),
            Ok(Ok(Answer::InDoubt { .. })) => Err("it is in doubt by now".into()),
            Ok(Ok(Answer::Mismatch)) => Err("its key stands for another request by now".into()),
            Ok(Err(RunError::Work(error))) => Err(error),
            Ok(Err(RunError::Panicked)) => Err("its handler panicked".into()),
            Ok(Err(RunError::Engine(error))) => Err(error.into()),
        }
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut routes: Vec<_> = self.handlers.keys().collect();
        routes.sort_unstable();
        f.debug_struct("Completer")
            .field("store", &self.store)
            .field("routes", &routes)
            .finish_non_exhaustive()
    }
}
