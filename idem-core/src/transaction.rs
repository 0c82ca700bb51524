//! The operation inside a transaction of its store: for store crates.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    BoxError, Claim, Completed, Error, ErrorKind, Operation, RecoveryPoint, Rerun, StoreError,
    StoredResponse,
    journal::{Known, encode},
    ledger::Ledger,
    run::{
        Run,
        effects::read_back,
        transaction::{Joined, rolled_back},
    },
};

/// The operation while it can end in a transaction of its store.
///
/// For store crates: what an application holds is the store's own type, whose first statement locks the record under the
/// fence and whose last ones write the answer and commit. While this lives nothing is renewed, since the lock on the record
/// holds better than the lease and a renewal would wait for it, and the work is not dropped by a draining engine.
///
/// Dropped, the transaction counts as rolled back: the store has to see to it that it is.
pub struct InTransaction {
    run: Arc<Run>,
    /// `None` once it is on its way to a commit.
    joined: Option<Joined>,
}

impl InTransaction {
    pub(crate) async fn join(operation: Operation) -> Result<Self, Error> {
        let run = operation.into_run();
        let calling = run.calling()?;
        if run.journal().is_behind() {
            run.begin(Ledger::Refused)?;
            return Err(Error::new(
                ErrorKind::Invalid,
                "a recorded effect or step was not passed before the end; was it renamed or removed?",
            ));
        }
        run.tidy_up().await?;
        let joined = run.join(calling).await?;
        Ok(Self { run, joined: Some(joined) })
    }

    /// The claim, whose fence the first statement and the last ones show.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.run.claim
    }

    /// How long the ended record is kept.
    pub fn retention(&self) -> Duration {
        self.run.policy.retention_span()
    }

    /// Ends the operation with an answer: `commit` writes what it is given into the record, and commits.
    ///
    /// `commit` is run in a task of its own. It answers `ClaimLost` if the record was not under the fence, `Unknown` if the
    /// commit was sent and may have happened, and anything else only if it certainly did not. What is unknown is settled by
    /// claiming the key again with the same attempt, which waits for the transaction's end.
    ///
    /// # Errors
    /// `RolledBack` if nothing of it happened; `ClaimLost`; `Unknown` if it could not be settled in time; `Corrupt`; `Invalid`,
    /// also for a header line that no HTTP message can carry: `commit` is not called then.
    ///
    /// # Cancel safety
    /// Dropped after its first poll, the commit still goes on, and the engine waits for it.
    pub async fn complete<F, C>(mut self, response: StoredResponse, commit: F) -> Result<Completed, Error>
    where
        F: FnOnce(StoredResponse) -> C + Send,
        C: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        if let Err(invalid) = response.check_headers() {
            let mut ledger = self.run.ledger();
            if matches!(*ledger, Ledger::InTransaction) {
                *ledger = Ledger::Refused;
            }
            return Err(invalid.into());
        }
        let kept = self.run.kept(response);
        let commit = commit(kept.stored.clone());
        let joined = self.take()?;
        self.run.commit_end(joined, kept, commit).await?;
        Ok(Completed::proof())
    }

    /// The transaction cannot go on, and is rolled back: what the caller is told of it.
    ///
    /// `ClaimLost` if that is what the store says; `RolledBack` for what may be tried again.
    pub fn failed(self, error: StoreError) -> Error {
        self.run.failed_in_transaction(error, true)
    }

    /// The operation, once the transaction has been rolled back.
    pub fn rolled_back(self) -> Operation {
        Operation::of(Arc::clone(&self.run))
    }

    fn take(&mut self) -> Result<Joined, Error> {
        self.joined.take().ok_or_else(|| Error::new(ErrorKind::Invalid, "the transaction was already ended"))
    }
}

impl Drop for InTransaction {
    fn drop(&mut self) {
        if self.joined.is_some() {
            self.run.part();
        }
    }
}

impl fmt::Debug for InTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction").field("claim", self.claim()).finish_non_exhaustive()
    }
}

/// A step of an operation that is about to be done, or was done by an earlier run.
#[derive(Debug)]
#[must_use = "a recorded step is not done again"]
pub enum Step<T> {
    /// An earlier run committed it, with this result.
    Recorded(T),
    /// It is to be done, in a transaction of the store's.
    Begun(InStep),
}

/// The operation while it comes on by a step in a transaction of its store; otherwise as [`InTransaction`].
pub struct InStep {
    inner: InTransaction,
    name: String,
}

impl InStep {
    pub(crate) async fn join<T: DeserializeOwned>(run: &Arc<Run>, name: &str) -> Result<Step<T>, Error> {
        let (calling, known) = run.come_to(name).await?;
        match known {
            Known::Result(result) => return Ok(Step::Recorded(run.passed(name, &result)?)),
            Known::Open(_) => {
                let message =
                    "an effect of this name is open: a step is in a transaction, and needs another name";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Known::Nothing => {}
        }
        let joined = run.join(calling).await?;
        let inner = InTransaction { run: Arc::clone(run), joined: Some(joined) };
        Ok(Step::Begun(Self { inner, name: name.to_owned() }))
    }

    /// The claim, whose fence the first statement and the last ones show.
    pub fn claim(&self) -> &Arc<Claim> {
        self.inner.claim()
    }

    /// Ends the step with its result: `commit` writes the checkpoint that it is given, and commits. Returns the value as every
    /// later run gets it.
    ///
    /// `commit` is as for [`InTransaction::complete`].
    ///
    /// # Errors
    /// As [`InTransaction::complete`]; `Invalid` also for a value that is too large or does not read back as it was written.
    ///
    /// # Cancel safety
    /// As [`InTransaction::complete`].
    pub async fn checkpoint<T, F, C>(mut self, value: T, commit: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce(RecoveryPoint, Rerun) -> C + Send,
        C: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let encoded = encode(&value)?;
        let value = read_back(&encoded)?;
        let (next, point) = {
            let mut journal = self.inner.run.journal();
            let mut next = journal.clone();
            let point = next.result(&self.name, encoded)?;
            // Whatever becomes of it, the number is used.
            journal.skip_to(point.checkpoint());
            next.pass(&self.name);
            (next, point)
        };
        let (number, rerun) = (point.checkpoint(), next.rerun());
        let commit = commit(point, rerun);
        let joined = self.inner.take()?;
        self.inner.run.commit_step(joined, (next, number), commit).await?;
        Ok(value)
    }

    /// The work of the step failed, and its transaction is rolled back.
    pub fn not_done(self, error: BoxError) -> Error {
        rolled_back(error)
    }

    /// The transaction cannot go on, and is rolled back; as [`InTransaction::failed`].
    pub fn failed(self, error: StoreError) -> Error {
        self.inner.run.failed_in_transaction(error, false)
    }
}

impl fmt::Debug for InStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InStep")
            .field("name", &self.name)
            .field("claim", self.claim())
            .finish_non_exhaustive()
    }
}
