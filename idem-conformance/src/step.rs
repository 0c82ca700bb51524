//! One call of a store as a value: to make it, to repeat it, to ask the state functions about it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Command, Decision, KeyId, Maintain, OperationId, Origin,
    Record, RecoveryPoint, Rerun, StoreError, StoreErrorKind, StoredResponse, state,
};

use crate::Call;

/// A call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Claim(Arc<ClaimRequest>),
    Renew(Arc<Claim>, Duration),
    Checkpoint(Arc<Claim>, RecoveryPoint, Rerun),
    Complete(Arc<Claim>, StoredResponse, Duration),
    Release(Arc<Claim>, Duration),
    Resolve(Box<Record>, Decision, Duration),
    Find(KeyId),
    /// Sweeps the whole store, for races; what is judged is whether the one key still is there.
    Sweep(KeyId),
}

/// What it answered.
#[derive(Debug)]
pub(crate) enum Reply {
    Claim(Result<ClaimOutcome, StoreErrorKind>),
    Write(Result<(), StoreErrorKind>),
    Swept(Result<u64, StoreErrorKind>),
    Found(Result<Option<Box<Record>>, StoreErrorKind>),
}

impl Step {
    /// The key that it is about.
    pub(crate) fn id(&self) -> &KeyId {
        match self {
            Self::Claim(request) => &request.id,
            Self::Renew(claim, _)
            | Self::Checkpoint(claim, ..)
            | Self::Complete(claim, ..)
            | Self::Release(claim, _) => claim.id(),
            Self::Resolve(seen, ..) => &seen.id,
            Self::Find(id) | Self::Sweep(id) => id,
        }
    }

    /// The method that it calls.
    pub(crate) const fn method(&self) -> Call {
        match self {
            Self::Claim(_) => Call::Claim,
            Self::Renew(..) => Call::Renew,
            Self::Checkpoint(..) => Call::Checkpoint,
            Self::Complete(..) => Call::Complete,
            Self::Release(..) => Call::Release,
            Self::Resolve(..) => Call::Resolve,
            Self::Find(_) => Call::Find,
            Self::Sweep(_) => Call::Sweep,
        }
    }

    /// Makes the call.
    pub(crate) async fn call(&self, store: &dyn Maintain) -> Reply {
        let kind = |error: StoreError| error.kind();
        match self {
            Self::Claim(request) => Reply::Claim(store.claim(request).await.map_err(kind)),
            Self::Renew(claim, lease) => Reply::Write(store.renew(claim, *lease).await.map_err(kind)),
            Self::Checkpoint(claim, point, rerun) => {
                Reply::Write(store.checkpoint(claim, point, *rerun).await.map_err(kind))
            }
            Self::Complete(claim, response, retention) => {
                Reply::Write(store.complete(claim, response, *retention).await.map_err(kind))
            }
            Self::Release(claim, retention) => {
                Reply::Write(store.release(claim, *retention).await.map_err(kind))
            }
            Self::Resolve(seen, decision, retention) => {
                Reply::Write(store.resolve(seen, decision, *retention).await.map_err(kind))
            }
            Self::Find(id) => {
                let found = store.find(id).await.map_err(kind);
                Reply::Found(found.map(|record| record.map(Box::new)))
            }
            Self::Sweep(_) => Reply::Swept(store.sweep(1000).await.map_err(kind)),
        }
    }

    /// Makes the call, and again while the store says that it did not do it.
    pub(crate) async fn insist(&self, store: &dyn Maintain) -> Reply {
        for _ in 0..50 {
            let reply = self.call(store).await;
            if reply.error() != Some(StoreErrorKind::Unavailable) {
                return reply;
            }
            tokio::task::yield_now().await;
        }
        self.call(store).await
    }

    /// What the state functions say: the record afterwards and the answer.
    pub(crate) fn decide(
        &self,
        record: Option<Record>,
        now: SystemTime,
        drawn: &Drawn,
    ) -> (Option<Record>, Reply) {
        let write = |record: Option<Record>, command: &Command<'_>| {
            let step = state::write(record.as_ref(), command, now);
            (step.write.or(record), Reply::Write(step.answer.map_err(|error| error.kind())))
        };
        match self {
            Self::Claim(request) => {
                let step = state::claim(record.as_ref(), request, now, drawn.operation);
                (step.write.or(record), Reply::Claim(step.answer.map_err(|error| error.kind())))
            }
            Self::Renew(claim, lease) => write(record, &Command::Renew(claim, *lease)),
            Self::Checkpoint(claim, point, rerun) => {
                write(record, &Command::Checkpoint(claim, point, *rerun))
            }
            Self::Complete(claim, response, retention) => {
                write(record, &Command::Complete(claim, response, *retention))
            }
            Self::Release(claim, retention) => write(record, &Command::Release(claim, *retention)),
            Self::Resolve(seen, decision, retention) => {
                write(record, &Command::Resolve(seen, decision, *retention, drawn.attempt))
            }
            Self::Find(_) => (record.clone(), Reply::Found(Ok(record.map(Box::new)))),
            Self::Sweep(_) => match record {
                Some(record) if record.is_expired(now) && !drawn.passed_over => (None, Reply::Swept(Ok(1))),
                kept => (kept, Reply::Swept(Ok(0))),
            },
        }
    }
}

/// What a store draws at random, or is free to choose.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// A sweep that meets another call about a record may leave it to the next sweep.
    pub(crate) passed_over: bool,
    pub(crate) operation: OperationId,
    pub(crate) attempt: AttemptId,
}

impl Drawn {
    /// New ids, and nothing passed over.
    pub(crate) fn afresh() -> Self {
        Self { passed_over: false, operation: OperationId::random(), attempt: AttemptId::random() }
    }
}

impl Reply {
    /// The error's kind, if it is one.
    pub(crate) fn error(&self) -> Option<StoreErrorKind> {
        match self {
            Self::Claim(reply) => reply.as_ref().err().copied(),
            Self::Write(reply) => reply.err(),
            Self::Swept(reply) => reply.err(),
            Self::Found(reply) => reply.as_ref().err().copied(),
        }
    }

    /// An answer in a word or two; `wrote` says whether the record changed.
    pub(crate) fn word(&self, wrote: bool) -> &'static str {
        match self {
            Self::Claim(Ok(ClaimOutcome::Claimed(claim))) => match claim.origin() {
                Origin::New => "new",
                Origin::Expired => "expired",
                Origin::Reissued => "reissued",
                Origin::Retried => "retried",
                Origin::TakenOver => "taken over",
            },
            Self::Claim(Ok(ClaimOutcome::Completed(_))) => "completed",
            Self::Claim(Ok(ClaimOutcome::InProgress { .. })) => "in progress",
            Self::Claim(Ok(ClaimOutcome::InDoubt { .. })) => "in doubt",
            Self::Claim(Ok(ClaimOutcome::Mismatch)) => "mismatch",
            Self::Write(Ok(())) if wrote => "written",
            Self::Write(Ok(())) | Self::Swept(Ok(_)) => "ok",
            Self::Found(Ok(None)) => "none",
            Self::Found(Ok(Some(_))) => "some",
            Self::Claim(Err(kind))
            | Self::Write(Err(kind))
            | Self::Swept(Err(kind))
            | Self::Found(Err(kind)) => kind.name(),
        }
    }

    /// The claim, if there is one.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Claim(Ok(ClaimOutcome::Claimed(claim))) => Some(claim),
            Self::Claim(_) | Self::Write(_) | Self::Swept(_) | Self::Found(_) => None,
        }
    }
}
