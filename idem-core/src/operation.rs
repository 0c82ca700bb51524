//! What the code that does the work holds.

use std::{fmt, sync::Arc};

use crate::{Error, ErrorKind, Fence, KeyId, Origin, StoredResponse, ledger::Ledger, run::Run};

/// One run of one keyed operation, held by the code that does the work.
///
/// Not `Clone`, and it ends by value: after [`complete`](Self::complete) or [`release`](Self::release) there is nothing
/// left to end twice.
///
/// ```compile_fail,E0382
/// # use idem_core::{Operation, StoredResponse};
/// # async fn work(op: Operation) -> Result<(), idem_core::Error> {
/// op.complete(StoredResponse::new(201, "done")?).await?;
/// op.release().await?;
/// # Ok(()) }
/// ```
///
/// Moved into a task that outlives the work, it is left behind: the engine ends the run when the work returns, and later
/// calls answer `ClaimLost`.
pub struct Operation {
    run: Arc<Run>,
}

impl Operation {
    pub(crate) fn of(run: Arc<Run>) -> Self {
        Self { run }
    }

    /// Whose key, and which.
    pub fn id(&self) -> &KeyId {
        self.run.claim.id()
    }

    /// What this owner shows with every write; a business row may keep it.
    pub fn fence(&self) -> Fence {
        self.run.claim.fence()
    }

    /// How this run came to the key.
    pub fn origin(&self) -> Origin {
        self.run.claim.origin()
    }

    /// Waits until the claim may be lost: the lease was not renewed in time, another owner was seen, or
    /// `max_execution` is over.
    ///
    /// It fires before another owner can have taken over, unless the host was suspended. Work that can stop should.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn lost(&self) {
        self.run.lease.lost().await;
    }

    /// Ends the operation with an answer; committed before it returns, and then what is sent whatever comes after.
    ///
    /// An answer above the policy's `max_response` is sent to this caller and not kept: retries get
    /// [`StoredResponse::not_kept`].
    ///
    /// # Errors
    /// `ClaimLost` if another owner has the key or the run has ended; `Unknown` if it could not be settled in time;
    /// `Corrupt`; `Invalid`, also for a header line that no HTTP message can carry: nothing is committed, since no retry
    /// could ever be sent it, and the run is judged as if the work had failed.
    ///
    /// # Cancel safety
    /// Dropped after its first poll, the end still stands: it is carried out in a task of its own, and the engine waits
    /// for it.
    pub async fn complete(self, response: StoredResponse) -> Result<Completed, Error> {
        if let Err(invalid) = response.check_headers() {
            self.run.begin(Ledger::Refused)?;
            return Err(invalid.into());
        }
        let kept = self.run.kept(response);
        self.run.begin(Ledger::Completing(kept))?;
        self.run.end_undisturbed().await?;
        Ok(Completed { _private: () })
    }

    /// Ends the operation because it may be tried again: nothing is open, nothing is kept, the next request runs.
    ///
    /// # Errors
    /// `Invalid` under an opaque policy, whose handler may have had an effect; the run is then judged as if the work had
    /// failed. Else as [`complete`](Self::complete).
    ///
    /// # Cancel safety
    /// As [`complete`](Self::complete).
    pub async fn release(self) -> Result<Released, Error> {
        if self.run.policy.is_opaque() {
            self.run.begin(Ledger::Refused)?;
            return Err(Error::new(
                ErrorKind::Invalid,
                "an opaque operation may have had an effect and is not released",
            ));
        }
        self.run.begin(Ledger::Releasing)?;
        self.run.end_undisturbed().await?;
        Ok(Released { _private: () })
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("id", self.id()).field("fence", &self.fence()).finish()
    }
}

/// Proof that the answer is committed; return it.
///
/// ```compile_fail,E0451
/// let forged = idem_core::Completed { _private: () };
/// ```
#[derive(Debug)]
#[must_use = "return it: it is the answer"]
pub struct Completed {
    _private: (),
}

/// Proof that the operation was released and may be tried again; return it.
#[derive(Debug)]
#[must_use = "return it: it says that nothing was done"]
pub struct Released {
    _private: (),
}
