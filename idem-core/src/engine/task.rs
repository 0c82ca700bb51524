//! The task of one run: claim, mark, work, end.

use std::{future::poll_fn, panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Answer, KeepHeaders, RunError,
    admission::{Admission, Permit},
    finish::finish,
};
use crate::{
    Claim, ClaimOutcome, ClaimRequest, Ending, Error, ErrorKind, Fingerprints, KeyId, KeyStore, Operation,
    OperationId, Origin, Policy, Rerun, StoreErrorKind, StoredRequest, event,
    journal::{HANDLER, Journal, Open},
    ledger::{Ledger, Returned},
    run::Run,
    settle::{caught, settle, settle_claim},
};

/// What a loser of a claim tells its caller to wait: the winner's lease is not known to it.
const LOST_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The first pause of a duplicate that waits for the owner's result; it doubles up to [`LONGEST_POLL`].
const FIRST_POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(1);

pub(super) const LOST: Answer = Answer::InProgress { retry_after: LOST_RETRY_AFTER };

pub(super) struct Task {
    pub(super) store: Arc<dyn KeyStore>,
    pub(super) admission: Admission,
    pub(super) policy: Policy,
    pub(super) keep: KeepHeaders,
    pub(super) request: Option<StoredRequest>,
    /// The only operation that may run, if it is said.
    pub(super) only: Option<OperationId>,
}

/// A claim that was answered: run, or tell the caller.
#[expect(clippy::large_enum_variant, reason = "made once a run, and taken apart at once")]
enum Claimed {
    Mine(ClaimRequest, Claim, Instant, Permit),
    Answer(Answer),
}

impl Task {
    pub(super) async fn run<F, Fut, R, E>(
        self,
        id: KeyId,
        same: Fingerprints,
        permit: Permit,
        work: F,
        caller: &oneshot::Sender<Result<Answer, RunError<E>>>,
    ) -> Result<Answer, RunError<E>>
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
        E: Send + 'static,
    {
        let (request, claim, sent, mut permit) =
            match self.claim(id, same, permit, || caller.is_closed()).await? {
                Claimed::Mine(request, claim, sent, permit) => (request, claim, sent, permit),
                Claimed::Answer(answer) => return Ok(answer),
            };
        let read = Journal::of(&claim);
        let journal = read.as_ref().cloned().unwrap_or_else(|_| Journal::unread(&claim));
        let run = Run::start(self.store, (request, claim), self.policy, self.keep, journal, sent);
        if self.only.is_some_and(|only| only != run.claim.fence().operation) {
            return Err(RunError::Engine(give_back(&run).await));
        }
        if let Some(stopped) = before_work(&run, read, &mut permit).await {
            return stopped.map_err(RunError::Engine);
        }
        let returned = tokio::select! {
            biased;
            returned = do_work(&run, work) => returned,
            () = aborted(&self.admission, &run), if !run.policy.is_opaque() => Returned::Aborted,
        };
        finish(&run, returned).await
    }

    /// Claims; where the policy waits, a duplicate asks again until the owner is done, with no place held meanwhile.
    #[expect(clippy::disallowed_methods, reason = "the engine's pause between two polls")]
    async fn claim(
        &self,
        id: KeyId,
        same: Fingerprints,
        mut permit: Permit,
        hung_up: impl Fn() -> bool,
    ) -> Result<Claimed, Error> {
        let policy = &self.policy;
        let mut request = ClaimRequest::new(id, same, policy.lease_span(), policy.retention_span())?;
        request.request.clone_from(&self.request);
        let deadline = Instant::now() + policy.wait_span();
        let mut pause = FIRST_POLL;
        loop {
            let claimed = settle_claim(&*self.store, &request, policy.settle_span()).await;
            event::claimed(&request.id, claimed.as_ref().map(|(outcome, _)| outcome));
            let (outcome, sent) = claimed.map_err(|error| match error.kind() {
                // Whatever became of the claim, nothing ran.
                StoreErrorKind::Unknown => {
                    Error::new(ErrorKind::Unavailable, "the claim could not be settled; nothing ran")
                        .with_source(error)
                }
                StoreErrorKind::ClaimLost
                | StoreErrorKind::TooLate
                | StoreErrorKind::Unavailable
                | StoreErrorKind::Corrupt
                | StoreErrorKind::Invalid => error.into(),
            })?;
            let left = deadline.saturating_duration_since(Instant::now());
            return Ok(match outcome {
                ClaimOutcome::Claimed(claim) => Claimed::Mine(request, claim, sent, permit),
                ClaimOutcome::InProgress { retry_after } if !left.is_zero() && !hung_up() => {
                    drop(permit);
                    tokio::time::sleep(pause.min(left)).await;
                    pause = (pause * 2).min(LONGEST_POLL);
                    permit = match timeout_at(deadline, self.admission.enter()).await {
                        Ok(entered) => entered?,
                        Err(_) => return Ok(Claimed::Answer(Answer::InProgress { retry_after })),
                    };
                    request = request.again();
                    continue;
                }
                ClaimOutcome::InProgress { retry_after } => {
                    Claimed::Answer(Answer::InProgress { retry_after })
                }
                ClaimOutcome::Completed(response) => Claimed::Answer(Answer::Replayed(response)),
                ClaimOutcome::InDoubt { since } => Claimed::Answer(Answer::InDoubt { since }),
                ClaimOutcome::Mismatch => Claimed::Answer(Answer::Mismatch),
            });
        }
    }
}

/// Waits until the work is to be dropped, and no effect of it is under way.
async fn aborted(admission: &Admission, run: &Run) {
    admission.aborted().await;
    // Asked again whenever the work was polled: it stands beside the work in one `select!`.
    poll_fn(|_| if run.is_calling() { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// What has to be committed before the work may start; an answer here means that it does not start.
async fn before_work(
    run: &Run,
    read: Result<Journal, Error>,
    permit: &mut Permit,
) -> Option<Result<Answer, Error>> {
    let opaque = run.policy.is_opaque();
    let corrupt = |what: &'static str| Error::new(ErrorKind::Corrupt, what);
    let refused = match read {
        Err(error) => Some(error),
        Ok(journal) if journal.open() == Some(Open::Never) => {
            Some(corrupt("an effect that must not be repeated was handed over"))
        }
        Ok(journal) if opaque && !journal.is_blank() => Some(corrupt(
            "effects were recorded under another policy, and an opaque handler would repeat them",
        )),
        Ok(_) => None,
    };
    if let Some(error) = refused {
        return Some(give_up(run, error).await);
    }
    // The claim's answer may have come late: somebody else may have the key by now, or be done.
    if is_late(run) {
        let late = "the claim was answered after its lease was over; nothing ran";
        return Some(give_up(run, Error::new(ErrorKind::Unavailable, late)).await);
    }
    if !opaque {
        return None;
    }
    if !permit.pin() {
        return Some(
            give_up(run, Error::new(ErrorKind::Unavailable, "the engine is draining; nothing ran")).await,
        );
    }
    mark(run).await.err()
}

/// Commits the mark of an opaque handler: from here on a crash is in doubt.
async fn mark(run: &Run) -> Result<(), Result<Answer, Error>> {
    let point = run.journal().mark(HANDLER, Open::Never).map_err(Err)?;
    let set = || run.store.checkpoint(&run.claim, &point, Rerun::Never);
    let error = match settle(run.policy.settle_span(), "checkpoint", set).await {
        // The mark's answer may have come late as well: somebody may have decided that the handler did nothing.
        Ok(()) if is_late(run) => Error::new(
            ErrorKind::Unavailable,
            "the handler's mark was answered after the lease was over; nothing ran",
        ),
        Ok(()) => {
            run.journal().settled();
            return Ok(());
        }
        Err(error) => {
            if matches!(run.failed(&error), Ledger::Lost) {
                run.stop_heartbeat().await;
                return Err(Ok(LOST));
            }
            error_of_mark(error)
        }
    };
    // The mark may stand though nothing ran. A higher number takes it back, also against a late landing of the mark.
    let point = {
        let mut journal = run.journal();
        journal.settle(HANDLER, None);
        journal.point(HANDLER).map_err(Err)?
    };
    let withdrawal = caught("checkpoint", run.store.checkpoint(&run.claim, &point, Rerun::Always));
    if matches!(timeout(run.policy.settle_span(), withdrawal).await, Ok(Ok(()))) {
        return Err(give_up(run, error).await);
    }
    run.leave().await;
    Err(Err(error))
}

/// Whether the lease may be over by the owner's own count.
fn is_late(run: &Run) -> bool {
    run.lease.ends().is_none_or(|ends| ends <= Instant::now())
}

fn error_of_mark(error: crate::StoreError) -> Error {
    match error.kind() {
        StoreErrorKind::Corrupt
        | StoreErrorKind::Invalid
        | StoreErrorKind::ClaimLost
        | StoreErrorKind::TooLate => error.into(),
        StoreErrorKind::Unavailable | StoreErrorKind::Unknown => {
            Error::new(ErrorKind::Unavailable, "the handler could not be marked; nothing ran")
                .with_source(error)
        }
    }
}

/// Hands the key on without having run anything.
async fn give_up(run: &Run, error: Error) -> Result<Answer, Error> {
    if error.kind() == ErrorKind::Corrupt {
        event::corrupt(run.claim.id(), "claim");
    }
    run.begin(Ledger::HandingOn)?;
    // Where the hand-on fails too, the lease frees the key.
    let _ = run.end().await;
    Err(error)
}

/// Gives back a claim of another operation than the only one that was to run: one that it began ends at once.
async fn give_back(run: &Run) -> Error {
    let end = match run.claim.origin() {
        Origin::New | Origin::Expired => Ledger::Releasing,
        Origin::Reissued | Origin::Retried | Origin::TakenOver => Ledger::HandingOn,
    };
    // Where that fails too, the lease frees the key.
    if run.begin(end).is_ok() {
        let _ = run.end().await;
    }
    Error::new(ErrorKind::Unavailable, "the operation has ended and is forgotten; nothing ran")
}

async fn do_work<F, Fut, R, E>(run: &Arc<Run>, work: F) -> Returned<E>
where
    F: FnOnce(Operation) -> Fut + Send + 'static,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: Into<Ending> + Send + 'static,
{
    let operation = Operation::of(Arc::clone(run));
    match AssertUnwindSafe(async move { work(operation).await }).catch_unwind().await {
        Ok(Ok(ending)) => ending.into().into(),
        Ok(Err(error)) => Returned::Failed(error),
        Err(_) => {
            event::panicked(&run.claim);
            Returned::Panicked
        }
    }
}
