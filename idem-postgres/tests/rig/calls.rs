//! What the tests ask a store for, and what they expect.

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, Fingerprints, KeyId, KeyStore, RecoveryPoint, Scope,
    StoreError, StoreErrorKind, StoredResponse,
};

pub const LEASE: Duration = Duration::from_secs(90);
pub const RETENTION: Duration = Duration::from_hours(24);
/// What is longer than all of the above.
pub const LONG: Duration = Duration::from_hours(100);

pub fn id(key: &str) -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("a scope"), key.parse().expect("a key"))
}

pub fn same(body: &str) -> Fingerprints {
    Fingerprint::of("test").body(body.as_bytes()).finish()
}

pub fn request(key: &str) -> ClaimRequest {
    ClaimRequest::new(id(key), same("{}"), LEASE, RETENTION).expect("a request")
}

pub fn answer() -> StoredResponse {
    StoredResponse::new(201, "paid").expect("a final status").header("content-type", "text/plain")
}

pub fn point(checkpoint: u64) -> RecoveryPoint {
    RecoveryPoint::new(checkpoint, "drafted", "{}").expect("a point")
}

/// The claim that `outcome` gives.
///
/// # Panics
/// If it gives none.
pub fn claimed(outcome: Result<ClaimOutcome, StoreError>) -> Claim {
    match outcome {
        Ok(ClaimOutcome::Claimed(claim)) => claim,
        other => panic!("no claim but {other:?}"),
    }
}

/// A claim of a key that nobody has had before.
pub async fn fresh(store: &impl KeyStore, key: &str) -> Claim {
    claimed(store.claim(&request(key)).await)
}

pub fn kind<T>(answered: &Result<T, StoreError>) -> Option<StoreErrorKind> {
    answered.as_ref().err().map(StoreError::kind)
}
