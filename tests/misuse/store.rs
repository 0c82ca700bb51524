//! A store that leaves something out, and a caller that does not look at something, do not compile.

use std::time::Duration;

use idem::{Claim, ClaimOutcome, ClaimRequest, KeyStore, RecoveryPoint, Rerun, StoreError, StoredResponse};

/// A wrapper: what it forgets to forward, the store behind it would never hear of.
#[derive(Debug)]
pub(crate) struct Wrapper<S>(pub(crate) S);

#[async_trait::async_trait]
//~ E0046
impl<S: KeyStore> KeyStore for Wrapper<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.0.claim(request).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.0.renew(claim, lease).await
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        self.0.checkpoint(claim, point, rerun).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.0.complete(claim, response, retention).await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        self.0.release(claim, retention).await
    }

    #[cfg(not(misuse))]
    async fn ended(&self, claim: &Claim) {
        self.0.ended(claim).await;
    }
}

pub(crate) fn may_run(outcome: &ClaimOutcome) -> bool {
    //~ E0004
    match outcome {
        ClaimOutcome::Claimed(_) => true,
        ClaimOutcome::Completed(_) | ClaimOutcome::InProgress { .. } | ClaimOutcome::Mismatch => false,
        #[cfg(not(misuse))]
        ClaimOutcome::InDoubt { .. } => false,
    }
}
