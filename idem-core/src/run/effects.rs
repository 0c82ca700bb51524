//! Marks before a call, results after it.

use std::sync::{Arc, MutexGuard, PoisonError, atomic::Ordering};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Run;
use crate::{
    Effect, Error, ErrorKind, Fault, ProviderKey, RecoveryPoint, Rerun, StoreErrorKind,
    effect::Repeat,
    journal::{Journal, Known, Open, encode},
    ledger::Ledger,
    settle::settle,
};

impl Run {
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an effect is under way.
    pub(crate) fn is_calling(&self) -> bool {
        self.calling.load(Ordering::Relaxed)
    }

    /// One effect: what is recorded of it, or mark, call, result.
    pub(crate) async fn effect<T, F, Fut>(
        self: &Arc<Self>,
        name: &str,
        effect: Effect,
        call: F,
    ) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce(ProviderKey) -> Fut + Send,
        Fut: Future<Output = Result<T, Fault>> + Send,
    {
        let (_calling, known) = self.come_to(name).await?;
        let open = match known {
            Known::Result(result) => return self.passed(name, &result),
            Known::Open(open) => Some(open),
            Known::Nothing => None,
        };
        effect.check(&self.policy)?;
        self.mark(name, effect, open).await?;
        self.check_running()?;
        let key = ProviderKey::new(self.claim.id(), self.claim.fingerprint(), name);
        match call(key).await {
            Ok(value) => {
                let encoded = encode(&value)?;
                let value = read_back(&encoded)?;
                self.record(name, encoded).await?;
                self.journal().pass(name);
                Ok(value)
            }
            Err(Fault::NotDone(error)) if open.is_none() => {
                self.withdraw(name).await;
                Err(Error::new(ErrorKind::EffectNotDone, "the effect was not done; retry with the same key")
                    .with_source(error))
            }
            // Not done this time says nothing of the time before.
            Err(Fault::NotDone(error) | Fault::Unknown(error)) => {
                Err(Error::new(ErrorKind::EffectUnknown, "the effect may have been done").with_source(error))
            }
        }
    }

    /// What is known of an effect or a step that is about to begin, with nothing unsettled before it.
    pub(crate) async fn come_to(self: &Arc<Self>, name: &str) -> Result<(Calling, Known), Error> {
        if self.policy.is_opaque() {
            let message = "an opaque operation is one effect and has neither others nor steps";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let calling = self.calling()?;
        self.tidy_up().await?;
        let known = self.journal().begin(name)?;
        Ok((calling, known))
    }

    /// What an earlier run recorded, as this one gets it.
    pub(crate) fn passed<T: DeserializeOwned>(&self, name: &str, result: &RawValue) -> Result<T, Error> {
        let value = decode(result)?;
        self.journal().pass(name);
        Ok(value)
    }

    /// As [`tidy`](Self::tidy), where something is not settled, for the run to go on.
    pub(crate) async fn tidy_up(&self) -> Result<(), Error> {
        if self.journal().is_unsettled() {
            self.tidy().await.map_err(|error| self.untidy(error))?;
        }
        Ok(())
    }

    /// Commits the note that the effect may start, so that a call may follow now.
    async fn mark(&self, name: &str, effect: Effect, open: Option<Open>) -> Result<(), Error> {
        let (first, mut rerun) = match (effect.0, open) {
            (Repeat::Always, None) => return self.check_lease(),
            (Repeat::Within(window), None) => {
                (Some(Open::Keyed), Rerun::Until(window.saturating_sub(self.policy.margin())))
            }
            (Repeat::Never, None) => (Some(Open::Never), Rerun::Never),
            (Repeat::Within(_), Some(Open::Keyed)) => (None, Rerun::Again),
            // Whatever this release calls it: it may have happened, and not every owner could repeat it.
            (Repeat::Always | Repeat::Never, Some(_)) | (Repeat::Within(_), Some(Open::Never)) => {
                return Err(Error::new(ErrorKind::EffectUnknown, "the effect may have been done before"));
            }
        };
        loop {
            let point = match first {
                Some(open) if rerun != Rerun::Again => self.journal().mark(name, open)?,
                Some(_) | None => self.journal().point(name)?,
            };
            let sent = Instant::now();
            let marked = self.checkpoint(&point, rerun).await.and_then(|()| self.check_lease());
            if let Err(error) = marked {
                return Err(self.uncalled(name, first.is_some(), error).await);
            }
            // Only a keyed effect has a window that a slow mark can use up.
            if first == Some(Open::Never) || sent.elapsed() < self.policy.call_within_span() {
                return Ok(());
            }
            rerun = Rerun::Again;
        }
    }

    /// Nothing is called behind a mark that is not committed, or that was committed too late.
    async fn uncalled(&self, name: &str, first: bool, error: Error) -> Error {
        if first {
            self.withdraw(name).await;
        }
        let unknown = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        match (unknown, first) {
            (false, _) => error,
            (true, true) => {
                Error::new(ErrorKind::EffectNotDone, "the effect could not be marked, and was not called")
                    .with_source(error)
            }
            (true, false) => Error::new(
                ErrorKind::EffectUnknown,
                "the effect may have been done before, and was not repeated",
            )
            .with_source(error),
        }
    }

    /// Takes a mark back: its effect was not called. Where that cannot be settled it is tried again before the run's next
    /// effect, and before its end.
    async fn withdraw(&self, name: &str) {
        self.journal().not_called(name);
        if self.journal().is_unsettled() {
            let _ = self.tidy().await;
        }
    }

    /// What is not settled: results, which are there, or only marks behind which nothing was called.
    fn untidy(&self, error: Error) -> Error {
        let results = self.journal().holds_unsettled_result();
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown if results => {
                Error::new(ErrorKind::Unknown, "an earlier result could not be settled; nothing was called")
            }
            ErrorKind::Unavailable | ErrorKind::Unknown => Error::new(
                ErrorKind::EffectNotDone,
                "an earlier mark could not be settled; nothing was called",
            ),
            ErrorKind::ClaimLost
            | ErrorKind::Corrupt
            | ErrorKind::Invalid
            | ErrorKind::TooLate
            | ErrorKind::RolledBack
            | ErrorKind::EffectNotDone
            | ErrorKind::EffectUnknown => return error,
        }
        .with_source(error)
    }

    /// Commits a result.
    async fn record(&self, name: &str, result: Box<RawValue>) -> Result<(), Error> {
        let (point, rerun) = {
            let mut journal = self.journal();
            (journal.result(name, result)?, journal.rerun())
        };
        self.checkpoint(&point, rerun).await
    }

    /// Settles what this run has sent and does not know to be committed: marks behind which nothing was called are taken
    /// back, results stand. A higher number decides, also against a late landing of those.
    pub(crate) async fn tidy(&self) -> Result<(), Error> {
        let (tidied, point) = {
            let mut journal = self.journal();
            let mut tidied = journal.tidied();
            let point = tidied.point("settled")?;
            journal.skip_to(point.checkpoint());
            (tidied, point)
        };
        let rerun = tidied.rerun();
        self.checkpoint(&point, rerun).await?;
        self.journal().replace(tidied);
        Ok(())
    }

    /// Sends a checkpoint until its outcome is definite.
    async fn checkpoint(&self, point: &RecoveryPoint, rerun: Rerun) -> Result<(), Error> {
        let send = || self.store.checkpoint(&self.claim, point, rerun);
        let Err(error) = settle(self.policy.settle_span(), "checkpoint", send).await else {
            self.journal().settled();
            return Ok(());
        };
        if error.kind() == StoreErrorKind::ClaimLost {
            let lost = self.failed(&error);
            let mut ledger = self.ledger();
            if matches!(*ledger, Ledger::Running) {
                *ledger = lost;
            }
        }
        Err(error.into())
    }

    /// From here on an effect or a transaction is under way.
    ///
    /// # Errors
    /// `ClaimLost` once the run is at its end: an operation that was moved into a task of its own may come too late.
    pub(crate) fn calling(self: &Arc<Self>) -> Result<Calling, Error> {
        let ledger = self.ledger();
        // Under the ledger's lock: the end of the run sees it, or has been seen.
        let running = matches!(*ledger, Ledger::Running | Ledger::Refused);
        if !running || self.calling.swap(true, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::ClaimLost, "the operation has ended or is at its end"));
        }
        drop(ledger);
        Ok(Calling(Arc::clone(self)))
    }

    fn check_running(&self) -> Result<(), Error> {
        if matches!(*self.ledger(), Ledger::Running) {
            return self.check_lease();
        }
        Err(Error::new(ErrorKind::ClaimLost, "the operation has already ended; nothing was called"))
    }

    /// # Errors
    /// `ClaimLost` once the lease may be over: whatever is called then may be called by somebody else as well.
    fn check_lease(&self) -> Result<(), Error> {
        if self.lease.ends().is_some_and(|ends| Instant::now() < ends) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ClaimLost, "the lease may be over; nothing was called"))
    }
}

/// An effect or a transaction is under way while this lives: the work is not dropped, and its key is not handed on.
pub(crate) struct Calling(Arc<Run>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calling.store(false, Ordering::Relaxed);
    }
}

/// The value as every later run gets it.
pub(crate) fn read_back<T: DeserializeOwned>(encoded: &RawValue) -> Result<T, Error> {
    serde_json::from_str(encoded.get()).map_err(|_| {
        Error::new(
            ErrorKind::Invalid,
            "the result of an effect or a step does not read back as it was written",
        )
    })
}

/// What serde says may quote the result: only where it stopped is told.
fn decode<T: DeserializeOwned>(result: &RawValue) -> Result<T, Error> {
    serde_json::from_str(result.get()).map_err(|error| {
        let column = error.column();
        let message = format!(
            "the recorded result of an effect or a step does not decode at column {column}; nothing ran"
        );
        Error::new(ErrorKind::Corrupt, message)
    })
}
