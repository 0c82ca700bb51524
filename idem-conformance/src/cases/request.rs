//! What was asked for, stored with the claim for whoever finishes the operation.

use std::sync::Arc;

use idem_core::{Claim, ClaimOutcome, Decision, KeyId, Origin, Record, Rerun, StoredRequest};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, asked, point, request, request_with},
    step::Step,
};

/// A fresh key, its owner, and what he asked for.
async fn owned(bench: &Bench) -> (KeyId, Arc<Claim>, StoredRequest) {
    let (id, asked) = (bench.id(), asked("charges", b"{\"amount\":10}"));
    let owner = bench.take_by(&request_with(&id, asked.clone())).await;
    (id, owner, asked)
}

async fn record(bench: &Bench, id: &KeyId) -> Record {
    bench.record(id).await.expect("there is a record")
}

async fn stored(bench: &Bench, id: &KeyId) -> Option<StoredRequest> {
    record(bench, id).await.request
}

/// A claim that asks for something else, in the route and in the bytes.
fn other(id: &KeyId) -> Arc<idem_core::ClaimRequest> {
    request_with(id, asked("refunds", b"{\"amount\":99}"))
}

pub(super) async fn request_is_kept_whole(bench: &Bench) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    for (route, data) in [
        ("r", Vec::new()),
        ("caf\u{e9} \u{1f4b6} '\"\\{}%", every_byte),
        (&*"r".repeat(StoredRequest::MAX_ROUTE), b"{\"a\":1,\"a\":1e2}".to_vec()),
        ("large", vec![0xfe; StoredRequest::MAX_DATA]),
    ] {
        let (id, asked) = (bench.id(), asked(route, &data));
        let _owner = bench.take_by(&request_with(&id, asked.clone())).await;
        assert!(stored(bench, &id).await == Some(asked), "{route:?} is kept whole");
    }
}

pub(super) async fn request_is_stored_only_if_given(bench: &Bench) {
    let id = bench.id();
    let first = bench.take(&id).await;
    assert_eq!(stored(bench, &id).await, None);
    bench.hand_on(&first).await;
    let taker = bench.take_by(&other(&id)).await;
    assert_eq!(taker.origin(), Origin::TakenOver);
    assert_eq!(stored(bench, &id).await, None, "a further owner brings none along");
}

pub(super) async fn request_of_the_first_claim_stays(bench: &Bench) {
    let (id, first) = (bench.id(), asked("charges", b"{\"amount\":10}"));
    let claim = request_with(&id, first.clone());
    let owner = bench.take_by(&claim).await;
    let again = bench.claim(&claim).await;
    assert!(matches!(again, Ok(ClaimOutcome::Claimed(_))), "{again:?}");
    bench.hand_on(&owner).await;
    let taker = bench.take_by(&other(&id)).await;
    assert_eq!((taker.origin(), stored(bench, &id).await.as_ref()), (Origin::TakenOver, Some(&first)));
    bench.release(&taker).await.expect("release");
    let retry = bench.take_by(&other(&id)).await;
    assert_eq!((retry.origin(), stored(bench, &id).await.as_ref()), (Origin::Retried, Some(&first)));
    bench.hand_on(&retry).await;
    let last = bench.take(&id).await;
    assert_eq!((last.fence().token, stored(bench, &id).await), (4, Some(first)), "nor does one without");
}

pub(super) async fn request_is_not_taken_from_the_refused(bench: &Bench) {
    let (id, owner, asked) = owned(bench).await;
    let busy = bench.claim(&other(&id)).await;
    assert!(matches!(busy, Ok(ClaimOutcome::InProgress { .. })), "{busy:?}");
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    let doubt = bench.claim(&other(&id)).await;
    assert!(matches!(doubt, Ok(ClaimOutcome::InDoubt { .. })), "{doubt:?}");
    assert_eq!(stored(bench, &id).await, Some(asked));
}

pub(super) async fn request_of_an_expired_record_is_replaced(bench: &Bench) {
    for next in [Some(asked("refunds", b"{\"amount\":99}")), None] {
        let (id, owner, _) = owned(bench).await;
        bench.release(&owner).await.expect("release");
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        let claim = match &next {
            Some(next) => request_with(&id, next.clone()),
            None => request(&id),
        };
        assert_eq!(bench.take_by(&claim).await.origin(), Origin::Expired);
        assert_eq!(stored(bench, &id).await, next);
    }
}

pub(super) async fn request_of_an_expired_answer_is_not_missed(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let next = asked("charges", b"\0\xff");
    assert_eq!(bench.take_by(&request_with(&id, next.clone())).await.origin(), Origin::Expired);
    assert_eq!(stored(bench, &id).await, Some(next), "what replaces an answer stores its own");
}

pub(super) async fn request_survives_what_ends_nothing(bench: &Bench) {
    let (id, owner, asked) = owned(bench).await;
    for step in [
        Step::Renew(Arc::clone(&owner), LEASE * 2),
        Step::Checkpoint(Arc::clone(&owner), point(1, "drafted"), Rerun::Always),
        Step::Checkpoint(Arc::clone(&owner), point(2, "charging"), Rerun::Until(LEASE)),
        Step::Release(Arc::clone(&owner), RETENTION),
        Step::Checkpoint(Arc::clone(&owner), point(3, "charged"), Rerun::Always),
        Step::Release(owner, RETENTION),
    ] {
        let written = bench.write(step.clone()).await;
        assert_eq!(stored(bench, &id).await.as_ref(), Some(&asked), "{step:?}: {written:?}");
    }
}

pub(super) async fn request_goes_with_the_answer(bench: &Bench) {
    let (id, owner, _) = owned(bench).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    assert_eq!(stored(bench, &id).await, None);
    let replay = bench.claim(&other(&id)).await;
    assert!(matches!(replay, Ok(ClaimOutcome::Completed(_))), "{replay:?}");
    assert_eq!(stored(bench, &id).await, None, "a replay stores nothing");
}

pub(super) async fn request_goes_with_a_decided_answer(bench: &Bench) {
    for (decision, stays) in [
        (Decision::Complete(answer("charged")), false),
        (Decision::Fail, true),
        (Decision::Resume(point(2, "charged")), true),
    ] {
        let (id, owner, asked) = owned(bench).await;
        bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
        bench.hand_on(&owner).await;
        let seen = record(bench, &id).await;
        assert_eq!(bench.resolve(&seen, &decision).await, Ok(()));
        assert_eq!(stored(bench, &id).await, Some(asked).filter(|_| stays), "{decision:?}");
        assert_eq!(bench.resolve(&seen, &decision).await, Ok(()), "the same decision again");
    }
}

pub(super) async fn request_is_listed_with_what_is_stuck(bench: &Bench) {
    let (id, owner, asked) = owned(bench).await;
    bench.hand_on(&owner).await;
    let listed = bench.store.stuck(10).await.expect("stuck answers");
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].record.id, listed[0].record.request.as_ref()), (&id, Some(&asked)));
}
