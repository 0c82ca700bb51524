//! Where a store under measurement keeps its records, and what it is asked.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, KeyId, KeyStore, Maintain, Scope, StoredResponse,
};
use uuid::Uuid;

pub(crate) const LEASE: Duration = Duration::from_mins(10);
pub(crate) const RETENTION: Duration = Duration::from_hours(24);

/// Makes stores that are in the state that a bench begins with.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    fn name(&self) -> &'static str;

    /// A store without records.
    async fn empty(&self) -> Arc<dyn Maintain>;

    /// A store with nothing but this many records that ended and outlived their retention.
    async fn outlived(&self, records: u32) -> Arc<dyn Maintain>;
}

/// A key that was never used; random, as clients draw them.
pub(crate) fn fresh_id() -> KeyId {
    let scope = Scope::new("bench").expect("a scope");
    KeyId::new(scope, Uuid::new_v4().to_string().parse().expect("a key"))
}

/// A request of its own for that key; all requests carry the same fingerprint.
pub(crate) fn request(id: KeyId) -> ClaimRequest {
    let same = Fingerprint::of("bench").body(b"{\"amount\":1000}").finish();
    ClaimRequest::new(id, same, LEASE, RETENTION).expect("a request")
}

/// An answer of 200 bytes.
pub(crate) fn answer() -> StoredResponse {
    StoredResponse::new(201, vec![b'x'; 200]).expect("an answer")
}

pub(crate) async fn claim(store: &dyn KeyStore, request: &ClaimRequest) -> Claim {
    match store.claim(request).await.expect("a claim") {
        ClaimOutcome::Claimed(claim) => claim,
        other @ (ClaimOutcome::Completed(_)
        | ClaimOutcome::InProgress { .. }
        | ClaimOutcome::InDoubt { .. }
        | ClaimOutcome::Mismatch) => panic!("a fresh key was answered with {other:?}"),
    }
}

/// Claims so many fresh keys.
pub(crate) async fn claims(store: &dyn KeyStore, keys: u32) -> Vec<Claim> {
    let mut claims = Vec::new();
    for _ in 0..keys {
        claims.push(claim(store, &request(fresh_id())).await);
    }
    claims
}

/// Splits calls that leave a record each, so that a fast store is emptied before memory runs out.
pub(crate) fn chunks(calls: u64) -> impl Iterator<Item = u32> {
    const MOST: u32 = 10_000;
    let last = u32::try_from(calls % u64::from(MOST)).expect("less than MOST");
    (0..calls / u64::from(MOST)).map(|_| MOST).chain((last > 0).then_some(last))
}
