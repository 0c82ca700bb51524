//! What the code that does the work holds.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Effect, Error, ErrorKind, Fault, Fence, KeyId, Origin, ProviderKey, StoredResponse,
    ledger::Ledger,
    run::Run,
    transaction::{InStep, InTransaction, Step},
};

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

    pub(crate) fn into_run(self) -> Arc<Run> {
        self.run
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

    /// Calls a system outside the database, at most as often as `effect` allows, over all the runs of this operation.
    ///
    /// In order: a mark that it may start is committed (unless it is natural); `call` runs, with the key for the provider; its
    /// value is committed; this returns, with the value as it reads back. A later run gets the same, and `call` does not run. An effect that is open from an earlier run is called again only if it may be.
    ///
    /// `call` says what its error means: `?` makes it "may have happened", [`Fault::not_done`] says that nothing was sent. A definite
    /// refusal is a value.
    ///
    /// Names are used once an operation, and a resumed run comes past the recorded ones before it begins a new one or ends. At most
    /// [`MAX_EFFECTS`](crate::MAX_EFFECTS) an operation, each with a value of at most [`MAX_RESULT`](crate::MAX_RESULT) bytes of JSON.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idem_core::{BoxError, Effect, Fault, Operation, StoredResponse};
    /// # #[derive(Clone)] struct Gateway;
    /// # #[derive(Debug)] enum GatewayError { Declined, Connect(std::io::Error), Broken(std::io::Error) }
    /// # impl Gateway { async fn charge(&self, _: u64, _: &str) -> Result<String, GatewayError> { Ok("ch_1".into()) } }
    ///
    /// async fn pay(mut op: Operation, gateway: Gateway) -> Result<idem_core::Completed, BoxError> {
    ///     let day = Effect::keyed(Duration::from_hours(24));
    ///     let charge: Option<String> = op.effect("charge", day, async |key| {
    ///         match gateway.charge(500, &key.hex()).await {
    ///             Ok(id) => Ok(Some(id)),
    ///             Err(GatewayError::Declined) => Ok(None),                               // a definite "no" is a result
    ///             Err(GatewayError::Connect(error)) => Err(Fault::not_done(error)),    // nothing was sent
    ///             Err(GatewayError::Broken(error)) => Err(error.into()),               // it may have happened
    ///         }
    ///     }).await?;
    ///     let status = if charge.is_some() { 201 } else { 402 };
    ///     Ok(op.complete(StoredResponse::json(status, &charge)?).await?)
    /// }
    /// ```
    ///
    /// # Errors
    /// `EffectNotDone` if it was definitely not called, or `call` said so; `EffectUnknown` if it may have been done, now or by
    /// an earlier run; `TooLate` once the provider's window has no room for a repeat; `ClaimLost` if another owner has the
    /// key, the run has ended or the lease may be over; `Unknown` if the value is not known to be committed; `Corrupt` if a
    /// recorded value does not decode; `Invalid` for a name, a window, a value that is too large or does not read back as it
    /// was written, a new name before the recorded ones, and under an opaque policy.
    ///
    /// # Cancel safety
    /// Dropped in its call, the effect counts as one that may have happened. Dropped before it, nothing is called; after it,
    /// the value is not lost: the same effect asked again by this run, and every later run, gets it.
    ///
    /// **Source:** B. Leach, "Implementing Stripe-like Idempotency Keys in Postgres" (recovery points, foreign state mutations).
    pub async fn effect<T, F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>> + Send,
        effect: Effect,
        call: F,
    ) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce(ProviderKey) -> Fut + Send,
        Fut: Future<Output = Result<T, Fault>> + Send,
    {
        let name = name.into();
        self.run.effect(&name, effect, call).await
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
        if self.run.journal().is_behind() {
            self.run.begin(Ledger::Refused)?;
            return Err(Error::new(
                ErrorKind::Invalid,
                "a recorded effect or step was not passed before the end; was it renamed or removed?",
            ));
        }
        let kept = self.run.kept(response);
        self.run.begin(Ledger::Completing(kept))?;
        self.run.end_undisturbed().await?;
        Ok(Completed::proof())
    }

    /// Lets a transaction of the store's end the operation; for store crates, whose own type holds what this returns.
    ///
    /// It waits for the renewal that is under way; from here on nothing is renewed.
    ///
    /// # Errors
    /// `Invalid` if a recorded effect or step was not passed; `ClaimLost` if the run has ended; what an earlier effect left
    /// unsettled.
    ///
    /// # Cancel safety
    /// Dropped, nothing has happened.
    pub async fn join_transaction(self) -> Result<InTransaction, Error> {
        InTransaction::join(self).await
    }

    /// Begins a step, unless an earlier run committed it; for store crates, as [`join_transaction`](Self::join_transaction).
    ///
    /// Steps and effects share their names, their number and the size of their results.
    ///
    /// # Errors
    /// As [`effect`](Self::effect) before its call.
    ///
    /// # Cancel safety
    /// Dropped, nothing has happened.
    pub async fn join_step<T: DeserializeOwned>(&mut self, name: &str) -> Result<Step<T>, Error> {
        InStep::join(&self.run, name).await
    }

    /// Ends the operation because it may be tried again: nothing is open, nothing is kept, the next request runs.
    ///
    /// # Errors
    /// `Invalid` under an opaque policy, whose handler may have had an effect, and once an effect is open or recorded; the run is
    /// then judged as if the work had failed. Else as [`complete`](Self::complete).
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
        if !self.run.journal().is_blank() {
            self.run.begin(Ledger::Refused)?;
            return Err(Error::new(
                ErrorKind::Invalid,
                "an effect is open, or an effect or a step is recorded: the operation is not released, a retry goes on from there",
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

impl Completed {
    pub(crate) fn proof() -> Self {
        Self { _private: () }
    }
}

/// Proof that the operation was released and may be tried again; return it.
#[derive(Debug)]
#[must_use = "return it: it says that nothing was done"]
pub struct Released {
    _private: (),
}
