//! The seam: where keys live.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    Claim, ClaimOutcome, ClaimRequest, KeyId, Record, RecoveryPoint, Rerun, StoreError, StoredResponse,
};

/// Where keys live: six atomic, repeatable steps.
///
/// # Contract
///
/// For people who write a store; the suite in `idem-conformance` checks all of it.
///
/// * Each of the five guarantees is one linearizable step for its `(scope, key)`, and is committed before it returns.
///   What it decides is written down in [`state`](crate::state): a store gives those answers and keeps those records.
/// * Each can be called again with the same arguments after a lost reply. It then gives the same answer, or
///   `ClaimLost` when the record has moved on since.
/// * `ClaimLost` means: the fence is not current or the record has ended, and *nothing* was written.
/// * The store's clock judges leases and expiry. No method takes a time.
/// * An error says whether the step may have happened: `Unavailable` only if it certainly did not, else `Unknown`.
///   A call that panics is taken for an `Unknown`.
/// * Ids of operations are drawn by the store, in the step that creates or wipes a record, and never used again.
///
/// There are no default bodies: a guarantee that a wrapper forgets to forward would be lost in silence.
///
/// # Cancel safety
///
/// A dropped call may still happen, now or later, as if its reply had been lost.
#[async_trait]
pub trait KeyStore: Debug + Send + Sync + 'static {
    /// Takes a key, or says why not.
    ///
    /// Before it returns `Claimed`, the claim is committed and visible to every other claim.
    ///
    /// # Errors
    /// `Unavailable`, also if the record's fingerprint is of a version that the request does not carry; `Unknown`;
    /// `Corrupt`; `Invalid`.
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError>;

    /// Pushes the lease out to at least `lease` from now; zero gives the key up at once without ending it.
    ///
    /// A lease is never shortened except by zero. `lease` is zero or 1 ms to 10 years.
    ///
    /// # Errors
    /// `ClaimLost`, `Unavailable`, `Unknown`, `Corrupt`, `Invalid`.
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError>;

    /// Notes how far the operation has come and until when a new owner may run it again.
    ///
    /// Written only if the point's number is above the record's. The same number with the same point is `Ok` and
    /// writes nothing.
    ///
    /// # Errors
    /// `ClaimLost`; `TooLate` for [`Rerun::Again`] once that time is over; `Invalid` if the number is used;
    /// `Unavailable`, `Unknown`, `Corrupt`.
    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError>;

    /// Ends with an answer, kept for at least `retention` from now.
    ///
    /// A second call with the same fence is `Ok`, keeps the first answer and writes nothing.
    ///
    /// # Errors
    /// `ClaimLost`, `Unavailable`, `Unknown`, `Corrupt`, `Invalid`.
    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError>;

    /// Ends because it may be tried again (`failed`); kept for at least `retention` from now.
    ///
    /// A second call with the same fence is `Ok` and writes nothing.
    ///
    /// # Errors
    /// `Invalid` while an effect is open; `ClaimLost`, `Unavailable`, `Unknown`, `Corrupt`.
    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError>;

    /// The claim ended in somebody's transaction: forget what you hold of it.
    ///
    /// The engine says it once such a transaction has been committed ([`transaction`](crate::transaction)), in a task that
    /// nobody waits for. It promises nothing and delays no answer. A record of truth does nothing, a cache drops its hint, a
    /// wrapper forwards.
    async fn ended(&self, claim: &Claim);
}

/// What operators and sweepers need of a store.
#[async_trait]
pub trait Maintain: KeyStore {
    /// Deletes at most `limit` records that have ended and outlived their retention, and says how many.
    ///
    /// Whether a record may go is judged again in the very step that deletes it.
    ///
    /// # Errors
    /// `Unavailable`, `Unknown`, `Corrupt`, `Invalid`.
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError>;

    /// At most `limit` records that are in progress past their lease, longest first.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown`, which mean the same of a look; `Corrupt`, `Invalid`.
    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError>;

    /// The record as it is; never changes it.
    ///
    /// # Errors
    /// As [`stuck`](Self::stuck).
    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError>;

    /// Settles what is in doubt, if it still is as it was `seen`.
    ///
    /// Raises the token, so that nothing of the old owner lands afterwards.
    ///
    /// # Errors
    /// `ClaimLost` if the record has moved on since it was seen or is not in doubt; `Invalid` for a resumption whose
    /// number is not one above the record's, or an answer that no HTTP message can carry; `Unavailable`, `Unknown`, `Corrupt`.
    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError>;
}

/// A record in progress past its lease, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The record.
    pub record: Record,
    /// Whether it waits for a decision; else the next claim takes it over.
    pub in_doubt: bool,
    /// How long its lease has been over.
    pub stuck_for: Duration,
}

/// What a person or a reconciler decided about an operation in doubt.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Decision, Maintain, StoreError, StoredResponse, policy::RETENTION};
///
/// async fn settle(store: &dyn Maintain, charge_of: impl Fn(&str) -> Option<String>) -> Result<(), StoreError> {
///     const LONGEST_CALL: Duration = Duration::from_secs(60);
///     for stuck in store.stuck(100).await? {
///         if !stuck.in_doubt || stuck.stuck_for < LONGEST_CALL {
///             continue; // a call may still be under way: what is not there yet may come
///         }
///         let seen = stuck.record;
///         let decision = match charge_of(seen.id.key().as_str()) {
///             Some(charge) => Decision::Complete(StoredResponse::new(201, charge).expect("a final status")),
///             None => Decision::Fail, // it did not happen: the next request runs
///         };
///         store.resolve(&seen, &decision, RETENTION).await?; // refused if the record moved since it was seen
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It ended with this answer.
    Complete(StoredResponse),
    /// Nothing happened: the record ends as failed, the next claim within its retention starts from the top, and then
    /// it is swept.
    ///
    /// Whoever decides this by asking the outside world asks once the lease has been over for longer than a call can be under
    /// way: what is not there yet may come. What the operation has recorded of other effects is forgotten; where it has
    /// named effects, settle the open ones with [`Doubt`](crate::Doubt) instead.
    Fail,
    /// The next claim goes on from here; numbered one above the record's last checkpoint.
    Resume(RecoveryPoint),
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: KeyStore + ?Sized> KeyStore for Arc<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        (**self).claim(request).await
    }
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        (**self).renew(claim, lease).await
    }
    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        (**self).checkpoint(claim, point, rerun).await
    }
    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        (**self).complete(claim, response, retention).await
    }
    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        (**self).release(claim, retention).await
    }
    async fn ended(&self, claim: &Claim) {
        (**self).ended(claim).await;
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Maintain + ?Sized> Maintain for Arc<S> {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        (**self).sweep(limit).await
    }
    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        (**self).stuck(limit).await
    }
    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        (**self).find(id).await
    }
    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        (**self).resolve(seen, decision, retention).await
    }
}
