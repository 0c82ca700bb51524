//! One run of one operation: what its handle, its heartbeat and its judge share.

pub(crate) mod effects;
pub(crate) mod transaction;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use tokio::{sync::Mutex as AsyncMutex, time::Instant};
use tracing::Instrument as _;

use crate::{
    Claim, ClaimRequest, Error, ErrorKind, KeyStore, Policy, StoreError, StoreErrorKind, StoredResponse,
    engine::KeepHeaders,
    event,
    heartbeat::{Heartbeat, Lease, Turn},
    journal::Journal,
    ledger::{Kept, Ledger},
    settle::settle,
};

/// The statement that an end sends.
enum End {
    Complete(Kept),
    Release,
    HandOn,
}

pub(crate) struct Run {
    pub(crate) store: Arc<dyn KeyStore>,
    pub(crate) claim: Arc<Claim>,
    /// What was asked for: sent again, it settles a transaction whose commit was not answered.
    request: ClaimRequest,
    pub(crate) policy: Policy,
    pub(crate) lease: Arc<Lease>,
    keep: KeepHeaders,
    started: Instant,
    ledger: Mutex<Ledger>,
    journal: Mutex<Journal>,
    /// An effect or a transaction is under way: the work is not dropped now.
    calling: AtomicBool,
    turn: Turn,
    heartbeat: AsyncMutex<Heartbeat>,
}

impl Run {
    /// Starts the heartbeat of a claim that a statement sent at `sent` granted.
    pub(crate) fn start(
        store: Arc<dyn KeyStore>,
        (request, claim): (ClaimRequest, Claim),
        policy: Policy,
        keep: KeepHeaders,
        journal: Journal,
        sent: Instant,
    ) -> Arc<Self> {
        let (claim, turn) = (Arc::new(claim), Turn::new());
        let lease = Arc::new(Lease::granted(policy.lease_span(), sent));
        let heartbeat = Heartbeat::start(
            Arc::clone(&store),
            Arc::clone(&claim),
            Arc::clone(&lease),
            turn.clone(),
            policy.max_execution_span(),
        );
        Arc::new(Self {
            store,
            claim,
            request,
            policy,
            lease,
            keep,
            started: sent,
            ledger: Mutex::new(Ledger::Running),
            journal: Mutex::new(journal),
            calling: AtomicBool::new(false),
            turn,
            heartbeat: AsyncMutex::new(heartbeat),
        })
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored and what is sent of an answer: only kept headers, and a substitute for one over the limit.
    pub(crate) fn kept(&self, answer: StoredResponse) -> Kept {
        let answer = answer.retain_headers(|name| (self.keep)(name));
        if answer.size() > self.policy.max_response_bytes() {
            return Kept { stored: StoredResponse::not_kept(answer.status()), sent: Some(answer) };
        }
        Kept { stored: answer.clone(), sent: Some(answer) }
    }

    /// Takes the run to `end`, unless it is already at or on its way to another.
    ///
    /// # Errors
    /// `ClaimLost` if the run has ended: whoever still holds the operation was left behind.
    pub(crate) fn begin(&self, end: Ledger) -> Result<(), Error> {
        let mut ledger = self.ledger();
        if !matches!(*ledger, Ledger::Running) {
            return Err(Error::new(ErrorKind::ClaimLost, "the operation has already ended"));
        }
        *ledger = end;
        Ok(())
    }

    /// As [`end`](Self::end), in a task of its own: a caller that is dropped meanwhile stops nothing.
    pub(crate) async fn end_undisturbed(self: &Arc<Self>) -> Result<(), Error> {
        let run = Arc::clone(self);
        let end = async move { run.end().await }.in_current_span();
        #[expect(clippy::disallowed_methods, reason = "bounded by the settling, and the engine waits for it")]
        let end = tokio::spawn(end);
        end.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Unknown, "the runtime stopped before the run ended"))
        })
    }

    /// Carries out the end that the ledger is on its way to, and writes down where that led.
    ///
    /// The heartbeat is stopped and answered first. One caller ends the run, any other waits for that.
    pub(crate) async fn end(&self) -> Result<(), Error> {
        let within = self.policy.settle_span();
        let mut heartbeat = self.heartbeat.lock().await;
        let ledger = self.ledger().clone();
        let end = match ledger {
            Ledger::Completing(kept) => End::Complete(kept),
            Ledger::Releasing => End::Release,
            Ledger::HandingOn => End::HandOn,
            Ledger::Running
            | Ledger::InTransaction
            | Ledger::Committing
            | Ledger::RolledBack
            | Ledger::Refused
            | Ledger::Completed(_)
            | Ledger::Released
            | Ledger::Left
            | Ledger::Lost
            | Ledger::Unsettled
            | Ledger::Corrupt => return Ok(()),
        };
        heartbeat.stop(within).await;
        let (store, claim, retention) = (&self.store, &*self.claim, self.policy.retention_span());
        let (name, result, done) = match end {
            End::Complete(kept) => {
                let result =
                    settle(within, "complete", || store.complete(claim, &kept.stored, retention)).await;
                (kept.end(), result, Ledger::Completed(kept))
            }
            End::Release => {
                let result = settle(within, "release", || store.release(claim, retention)).await;
                ("released", result, Ledger::Released)
            }
            End::HandOn => {
                let result = settle(within, "renew", || store.renew(claim, Duration::ZERO)).await;
                ("handed_on", result, Ledger::Left)
            }
        };
        match result {
            Ok(()) => {
                event::ended(&self.claim, name, self.started.elapsed(), self.policy.lease_span());
                *self.ledger() = done;
                Ok(())
            }
            Err(error) => {
                *self.ledger() = self.failed(&error);
                Err(error.into())
            }
        }
    }

    /// Stops the renewals, and waits for the answer to the one that is under way.
    pub(crate) async fn stop_heartbeat(&self) {
        self.heartbeat.lock().await.stop(self.policy.settle_span()).await;
    }

    /// Leaves the key to its lease: nothing is sent, the heartbeat stops.
    pub(crate) async fn leave(&self) {
        self.stop_heartbeat().await;
        event::ended(&self.claim, "left", self.started.elapsed(), self.policy.lease_span());
        *self.ledger() = Ledger::Left;
    }

    /// Where a failed end leads.
    pub(crate) fn failed(&self, error: &StoreError) -> Ledger {
        if error.kind() == StoreErrorKind::ClaimLost {
            event::claim_lost(&self.claim, error.operation());
        } else {
            event::failure(self.claim.id(), error);
        }
        match error.kind() {
            StoreErrorKind::Corrupt => Ledger::Corrupt,
            StoreErrorKind::Invalid | StoreErrorKind::TooLate => Ledger::Refused,
            // Not recorded, though the work was done: to the caller that is unknown too.
            StoreErrorKind::Unavailable | StoreErrorKind::Unknown => Ledger::Unsettled,
            StoreErrorKind::ClaimLost => Ledger::Lost,
        }
    }
}
