//! The operation's part in a transaction of its store: joined, committed, and settled where the commit was not answered.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};
use tracing::Instrument as _;

use super::{Run, effects::Calling};
use crate::{
    ClaimOutcome, Error, ErrorKind, KeyStore as _, StoreError, StoreErrorKind, StoredResponse, event,
    journal::Journal,
    ledger::{Kept, Ledger},
    settle::{caught, settle_own},
};

/// What a run gives up while a transaction of its is open: it is not dropped, and renews nothing.
pub(crate) struct Joined {
    _calling: Calling,
    _turn: Option<OwnedSemaphorePermit>,
}

/// What is known of a transaction whose commit was not answered.
enum Found {
    /// The operation had ended, with this answer.
    Ended(StoredResponse),
    /// The record is as the transaction found it, or has come on by this checkpoint.
    Mine(u64),
    Lost,
}

impl Run {
    /// Joins a transaction that is about to be opened: it waits for the renewal that is under way, and no other follows.
    ///
    /// # Errors
    /// `ClaimLost` once the run is at its end.
    pub(crate) async fn join(self: &Arc<Self>, calling: Calling) -> Result<Joined, Error> {
        let joined = Joined { _calling: calling, _turn: self.turn.take().await };
        // The lease is what a paused owner may hold the row for.
        self.renew_if_overdue().await;
        let mut ledger = self.ledger();
        if !matches!(*ledger, Ledger::Running) {
            return Err(Error::new(ErrorKind::ClaimLost, "the operation has ended or is at its end"));
        }
        *ledger = Ledger::InTransaction;
        drop(ledger);
        Ok(joined)
    }

    /// The transaction is rolled back, or will be: the work goes on without it.
    pub(crate) fn part(&self) {
        let mut ledger = self.ledger();
        if matches!(*ledger, Ledger::InTransaction) {
            *ledger = Ledger::Running;
        }
    }

    /// The transaction that was to end the operation, or a step of it, came to nothing before its commit was sent.
    pub(crate) fn failed_in_transaction(&self, error: StoreError, ends: bool) -> Error {
        let found = self.failed(&error);
        let mut ledger = self.ledger();
        if matches!(*ledger, Ledger::InTransaction | Ledger::Committing) {
            *ledger = if matches!(found, Ledger::Lost | Ledger::Corrupt) {
                found
            } else if ends {
                Ledger::RolledBack
            } else {
                Ledger::Running
            };
        }
        drop(ledger);
        match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Unknown => rolled_back(error),
            StoreErrorKind::ClaimLost
            | StoreErrorKind::TooLate
            | StoreErrorKind::Corrupt
            | StoreErrorKind::Invalid => error.into(),
        }
    }

    /// Commits the transaction that ends the operation with `kept`, in a task of its own.
    pub(crate) async fn commit_end<C>(
        self: &Arc<Self>,
        joined: Joined,
        kept: Kept,
        commit: C,
    ) -> Result<(), Error>
    where
        C: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        self.committing()?;
        let run = Arc::clone(self);
        undisturbed(async move {
            let ended = match caught("commit", commit).await {
                Ok(()) => kept,
                Err(error) if error.kind() == StoreErrorKind::Unknown => match run.look(error).await? {
                    Found::Ended(stored) if stored == kept.stored => kept,
                    Found::Ended(stored) => Kept { sent: Some(stored.clone()), stored },
                    Found::Mine(_) => {
                        *run.ledger() = Ledger::RolledBack;
                        return Err(Error::new(ErrorKind::RolledBack, ROLLED_BACK));
                    }
                    Found::Lost => return Err(run.lost_in_transaction()),
                },
                Err(error) => return Err(run.failed_in_transaction(error, true)),
            };
            let name = ended.end();
            *run.ledger() = Ledger::Completed(ended);
            drop(joined);
            run.stop_heartbeat().await;
            event::ended(&run.claim, name, run.started.elapsed(), run.policy.lease_span());
            run.tell_that_it_ended();
            Ok(())
        })
        .await
    }

    /// Commits the transaction of a step with the journal that has its result, in a task of its own.
    pub(crate) async fn commit_step<C>(
        self: &Arc<Self>,
        joined: Joined,
        (next, number): (Journal, u64),
        commit: C,
    ) -> Result<(), Error>
    where
        C: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        self.committing()?;
        let run = Arc::clone(self);
        undisturbed(async move {
            match caught("commit", commit).await {
                Ok(()) => {}
                Err(error) if error.kind() == StoreErrorKind::Unknown => match run.look(error).await? {
                    Found::Mine(reached) if reached >= number => {}
                    Found::Mine(_) => {
                        *run.ledger() = Ledger::Running;
                        return Err(Error::new(ErrorKind::RolledBack, ROLLED_BACK));
                    }
                    // Nobody ends an operation in the middle of its run.
                    Found::Ended(_) | Found::Lost => return Err(run.lost_in_transaction()),
                },
                Err(error) => return Err(run.failed_in_transaction(error, false)),
            }
            run.journal().replace(next);
            *run.ledger() = Ledger::Running;
            // What follows asks for a lease that is not over; a long transaction may have used it up.
            run.renew_if_overdue().await;
            drop(joined);
            Ok(())
        })
        .await
    }

    /// Waits until a commit that is under way, if one is, has been settled.
    pub(crate) async fn committed(&self) {
        while matches!(*self.ledger(), Ledger::Committing) {
            // Held by the commit's task to its end.
            drop(self.turn.take().await);
        }
    }

    /// From here on only the record knows.
    ///
    /// # Errors
    /// `ClaimLost` if the run was ended without waiting for the transaction; it is rolled back then.
    fn committing(&self) -> Result<(), Error> {
        let mut ledger = self.ledger();
        if !matches!(*ledger, Ledger::InTransaction) {
            return Err(Error::new(
                ErrorKind::ClaimLost,
                "the run has ended; the transaction is rolled back",
            ));
        }
        *ledger = Ledger::Committing;
        Ok(())
    }

    /// Settles a commit that was not answered by sending the claim again.
    ///
    /// Never by looking: a commit may be under way that no look sees yet. The claim is a write of the record, so it waits for the
    /// end of whatever transaction holds it, and what it returns is final.
    async fn look(&self, unknown: StoreError) -> Result<Found, Error> {
        event::unknown(unknown.operation());
        let within = self.policy.settle_span();
        match settle_own(&*self.store, &self.request, within).await {
            Ok((ClaimOutcome::Completed(answer), _)) => Ok(Found::Ended(answer)),
            Ok((ClaimOutcome::Claimed(claim), sent)) if claim.fence() == self.claim.fence() => {
                self.lease.renewed(sent);
                Ok(Found::Mine(claim.checkpoint()))
            }
            Ok((ClaimOutcome::Claimed(other), _)) => {
                // Ours was swept, or ended and expired; nobody runs what this one stands for. Its lease frees it otherwise.
                let _ = timeout(within, caught("renew", self.store.renew(&other, Duration::ZERO))).await;
                Ok(Found::Lost)
            }
            Ok((
                ClaimOutcome::InProgress { .. } | ClaimOutcome::InDoubt { .. } | ClaimOutcome::Mismatch,
                _,
            )) => Ok(Found::Lost),
            Err(error) => {
                let found = self.failed(&error);
                let corrupt = matches!(found, Ledger::Corrupt);
                *self.ledger() = if corrupt { found } else { Ledger::Unsettled };
                self.stop_heartbeat().await;
                Err(Error::new(ErrorKind::Unknown, "the transaction's commit could not be settled")
                    .with_source(error))
            }
        }
    }

    fn lost_in_transaction(&self) -> Error {
        event::claim_lost(&self.claim, "commit");
        self.lease.lose();
        *self.ledger() = Ledger::Lost;
        Error::new(
            ErrorKind::ClaimLost,
            "another owner was found where the transaction's commit was to be settled",
        )
    }

    /// Renews the lease if the heartbeat could not, or not for a while. It is this run's turn.
    async fn renew_if_overdue(&self) {
        if !self.lease.is_overdue() {
            return;
        }
        let sent = Instant::now();
        let renewal = caught("renew", self.store.renew(&self.claim, self.policy.lease_span()));
        match timeout(self.policy.lease_span() / 3, renewal).await {
            Ok(Ok(())) => self.lease.renewed(sent),
            Ok(Err(error)) if error.kind() == StoreErrorKind::ClaimLost => {
                event::claim_lost(&self.claim, "renew");
                self.lease.lose();
            }
            // The transaction, or the next call of the heartbeat, finds out.
            Ok(Err(error)) => event::renewal_failed(&self.claim, &error),
            Err(_) => {}
        }
    }

    /// Lets a cache in front of the record forget the claim. It delays no answer.
    #[expect(clippy::disallowed_methods, reason = "a notice that promises nothing; nobody waits for it")]
    fn tell_that_it_ended(&self) {
        let (store, claim) = (Arc::clone(&self.store), Arc::clone(&self.claim));
        drop(tokio::spawn(async move { store.ended(&claim).await }));
    }
}

const ROLLED_BACK: &str = "the transaction was rolled back; retry with the same key";

pub(crate) fn rolled_back(source: impl Into<crate::BoxError>) -> Error {
    Error::new(ErrorKind::RolledBack, ROLLED_BACK).with_source(source)
}

/// Carries something out in a task of its own: a caller that is dropped meanwhile stops nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "bounded by the store and the settling, and the engine waits for it"
)]
async fn undisturbed(work: impl Future<Output = Result<(), Error>> + Send + 'static) -> Result<(), Error> {
    tokio::spawn(work.in_current_span()).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unknown, "the runtime stopped before the transaction was settled"))
    })
}
