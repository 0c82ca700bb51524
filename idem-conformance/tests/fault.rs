//! The faults that tests plan happen as planned.
#![expect(clippy::expect_used, clippy::wildcard_enum_match_arm, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use idem_conformance::{Call, Faulty};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, KeyId, KeyStore, Maintain, Origin, RecoveryPoint, Rerun,
    Scope, State, StoreErrorKind, StoredResponse,
};
use idem_memory::MemoryStore;
use tokio::join;

const LEASE: Duration = Duration::from_secs(90);
const RETENTION: Duration = Duration::from_hours(24);

fn request() -> ClaimRequest {
    let id = KeyId::new(Scope::new("faults").expect("valid"), "key".parse().expect("valid"));
    let same = Fingerprint::of("faults").finish();
    ClaimRequest::new(id, same, LEASE, RETENTION).expect("valid")
}

fn faulty() -> (Faulty, MemoryStore) {
    let store = MemoryStore::new();
    (Faulty::new(Arc::new(store.clone())), store)
}

async fn take(store: &impl KeyStore, request: &ClaimRequest) -> Claim {
    match store.claim(request).await.expect("answered") {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn answer() -> StoredResponse {
    StoredResponse::new(201, "done").expect("valid")
}

#[tokio::test]
async fn a_lost_request_never_happens_and_a_lost_reply_did() {
    let (faulty, store) = faulty();
    let request = request();
    faulty.lose_request(Call::Claim);
    faulty.lose_reply(Call::Claim);

    let lost = faulty.claim(&request).await.map_err(|error| error.kind());
    assert_eq!(lost.err(), Some(StoreErrorKind::Unknown));
    assert_eq!(store.find(&request.id).await.expect("finds"), None);

    let lost = faulty.claim(&request).await.map_err(|error| error.kind());
    assert_eq!(lost.err(), Some(StoreErrorKind::Unknown));
    assert!(store.find(&request.id).await.expect("finds").is_some());

    assert_eq!(take(&faulty, &request).await.origin(), Origin::Reissued);
    assert_eq!((faulty.seen(Call::Claim), faulty.pending()), (3, 0));
}

#[tokio::test]
async fn faults_meet_their_own_kind_of_call_in_order() {
    let (faulty, store) = faulty();
    let claim = take(&store, &request()).await;
    faulty.pass(Call::Renew);
    faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    faulty.fail(Call::Renew, StoreErrorKind::Corrupt);
    faulty.fail(Call::Sweep, StoreErrorKind::Unavailable);

    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(faulty.clone().renew(&claim, LEASE).await.map_err(|error| error.kind()));
    }
    let failed = Err(StoreErrorKind::Unavailable);
    assert_eq!(kinds, [Ok(()), failed, Err(StoreErrorKind::Corrupt), Ok(())]);
    assert_eq!(store.find(claim.id()).await.expect("finds").map(|record| record.version), Some(3));
    assert_eq!((faulty.pending(), faulty.seen(Call::Renew), faulty.seen(Call::Sweep)), (1, 4, 0));
}

#[tokio::test]
async fn a_delayed_call_lands_when_the_test_wants() {
    let (faulty, store) = faulty();
    let (first, second) = (request(), request());
    let claim = take(&faulty, &first).await;
    let late = faulty.delay(Call::Complete);
    let unknown = faulty.complete(&claim, &answer(), RETENTION).await.map_err(|error| error.kind());
    assert_eq!(unknown, Err(StoreErrorKind::Unknown));
    assert_eq!(
        store.find(&first.id).await.expect("finds").map(|record| record.state),
        Some(State::InProgress)
    );

    faulty.renew(&claim, Duration::ZERO).await.expect("handed on");
    let taker = take(&faulty, &second).await;
    assert_eq!(taker.origin(), Origin::TakenOver);
    let landed = late.land().await.map_err(|error| error.kind());
    assert_eq!(landed.err(), Some(StoreErrorKind::ClaimLost));
}

#[tokio::test]
async fn a_delayed_claim_lands_with_its_own_attempt_and_outcome() {
    let (faulty, store) = faulty();
    let request = request();
    let late = faulty.delay(Call::Claim);
    assert!(faulty.claim(&request).await.is_err());
    let landed = late.land().await.expect("the store answers");
    assert!(matches!(landed, Some(ClaimOutcome::Claimed(claim)) if claim.origin() == Origin::New));
    assert_eq!(
        store.find(&request.id).await.expect("finds").map(|record| record.attempt),
        Some(request.attempt)
    );
}

#[tokio::test]
async fn a_held_request_has_not_happened_and_a_held_reply_has() {
    let (faulty, store) = faulty();
    let claim = take(&faulty, &request()).await;
    let point = RecoveryPoint::new(1, "half", "").expect("valid");
    let found = async || store.find(claim.id()).await.expect("finds").expect("is there");

    let mut held = faulty.hold(Call::Checkpoint);
    let (written, ()) = join!(faulty.checkpoint(&claim, &point, Rerun::Always), async {
        held.arrived().await;
        held.arrived().await;
        assert_eq!(found().await.checkpoint, 0);
        held.release();
    });
    written.expect("written");
    assert_eq!(found().await.checkpoint, 1);

    let mut held = faulty.hold_reply(Call::Release);
    let (released, ()) = join!(faulty.release(&claim, RETENTION), async {
        held.arrived().await;
        assert_eq!(found().await.state.name(), "failed");
        held.release();
    });
    released.expect("released");
}

#[tokio::test]
async fn dropped_handles_stop_nobody() {
    let (faulty, store) = faulty();
    let request = request();
    drop(faulty.hold(Call::Claim));
    let claim = take(&faulty, &request).await;

    drop(faulty.delay(Call::Complete));
    assert!(faulty.complete(&claim, &answer(), RETENTION).await.is_err());
    assert_eq!(
        store.find(&request.id).await.expect("finds").map(|record| record.state),
        Some(State::InProgress)
    );

    let never = faulty.delay(Call::Sweep);
    drop(faulty);
    assert_eq!(never.land().await.map_err(|error| error.kind()).err(), Some(StoreErrorKind::Invalid));
}
