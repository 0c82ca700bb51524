//! A run with more to say than `Engine::run` takes.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{Answer, Engine, KeepHeaders, RunError, task::Task};
use crate::{
    Ending, Error, ErrorKind, Fingerprints, KeyId, Operation, OperationId, Policy, StoredRequest, event,
};

/// A run with more to say than [`Engine::run`] takes; made by [`Engine::prepare`].
///
/// ```
/// use idem_core::{Completed, Engine, Error, Fingerprint, KeyId, Operation, Policy, RunError, StoredRequest, StoredResponse};
///
/// async fn pay_out(engine: &Engine, id: KeyId, order: Vec<u8>) -> Result<(), RunError<Error>> {
///     let same = Fingerprint::of("queue payouts").body(&order).finish();
///     let asked = StoredRequest::new("payouts", order).map_err(Error::from)?;
///     let work = async |op: Operation| op.complete(StoredResponse::new(201, "paid")?).await;
///     // Whoever abandons it, a completer with a handler for "payouts" finishes it.
///     engine.prepare(id, same, &Policy::resumable()).store_request(asked).run(work).await?;
///     Ok(())
/// }
/// ```
#[must_use = "nothing runs before `run`"]
pub struct Prepared<'e> {
    engine: &'e Engine,
    id: KeyId,
    same: Fingerprints,
    policy: Policy,
    keep: KeepHeaders,
    request: Option<StoredRequest>,
    only: Option<OperationId>,
}

impl<'e> Prepared<'e> {
    pub(super) fn new(engine: &'e Engine, id: KeyId, same: Fingerprints, policy: &Policy) -> Self {
        let (policy, keep) = (policy.clone(), Arc::new(|_: &str| true));
        Self { engine, id, same, policy, keep, request: None, only: None }
    }

    /// Which headers of an answer are stored; default all.
    pub fn keep_headers(mut self, keep: KeepHeaders) -> Self {
        self.keep = keep;
        self
    }

    /// Stores what is asked for with the claim, so that a [`Completer`](crate::Completer) can finish what is abandoned.
    ///
    /// It is stored where this run's claim begins an operation; one that is resumed keeps what its first claim stored.
    pub fn store_request(mut self, request: impl Into<Option<StoredRequest>>) -> Self {
        self.request = request.into();
        self
    }

    /// Runs nothing but this operation: if its record is gone by now, the claim would begin another.
    pub(crate) fn only(mut self, operation: OperationId) -> Self {
        self.only = Some(operation);
        self
    }

    /// Runs it, as [`Engine::run`] does.
    ///
    /// # Errors
    /// As [`Engine::run`].
    ///
    /// # Cancel safety
    /// As [`Engine::run`].
    pub async fn run<F, Fut, R, E>(self, work: F) -> Result<Answer, RunError<E>>
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
        E: Send + 'static,
    {
        let Self { engine, id, same, policy, keep, request, only } = self;
        policy.check().map_err(Error::from)?;
        let (tell, told) = oneshot::channel();
        let store = Arc::clone(&engine.store);
        let task = Task { store, admission: engine.admission.clone(), policy, keep, request, only };
        let permit = engine.admission.enter().await?;
        let span = event::span(&id);
        let run = async move {
            let answer = task.run(id, same, permit, work, &tell).await;
            // Nobody may be waiting any more: the client hung up. The record has the answer.
            let _ = tell.send(answer);
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the engine owns, bounds and drains the tasks of its runs"
        )]
        drop(tokio::spawn(run.instrument(span)));
        told.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Unknown, "the runtime stopped before the run ended").into())
        })
    }
}

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("id", &self.id)
            .field("policy", &self.policy)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
