//! One key, one request: what another one is told, and that it leaves no trace.

use std::sync::Arc;

use idem_core::{
    ClaimOutcome, ClaimRequest, Fingerprint, Fingerprints, KeyId, Origin, Rerun, StoreErrorKind,
};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, body, point, request, request_of},
    step::{Reply, Step},
};

/// A fingerprint of rules that are not this build's.
fn of_version(version: u8, digest: u8) -> Fingerprint {
    let mut bytes = [digest; 33];
    bytes[0] = version;
    Fingerprint::from_bytes(bytes)
}

/// Asks with another body; the answer and that no byte changed are judged.
async fn is_refused(bench: &Bench, id: &KeyId) {
    let outcome = bench.claim(&request_of(id, body("second"))).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::Mismatch)), "{outcome:?}");
}

/// Asks with a version that the record was not made by.
async fn cannot_tell(bench: &Bench, id: &KeyId) {
    let outcome = bench.claim(&request_of(id, Fingerprints::new(of_version(200, 1)))).await;
    assert!(matches!(outcome, Err(StoreErrorKind::Unavailable)), "{outcome:?}");
}

/// A key in each state in which its record counts.
async fn every_state(bench: &Bench) -> [KeyId; 5] {
    let live = bench.id();
    let (stale, doubt, completed, failed) = (bench.id(), bench.id(), bench.id(), bench.id());
    let claim = bench.take(&stale).await;
    bench.hand_on(&claim).await;
    let claim = bench.take(&doubt).await;
    bench.checkpoint(&claim, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.hand_on(&claim).await;
    let claim = bench.take(&completed).await;
    bench.complete(&claim, &answer("secret")).await.expect("complete");
    let claim = bench.take(&failed).await;
    bench.release(&claim).await.expect("release");
    bench.take(&live).await;
    [live, stale, doubt, completed, failed]
}

pub(super) async fn fingerprint_of_another_request_waits_for_nobody(bench: &Bench) {
    let id = bench.id();
    let claim = bench.take(&id).await;
    is_refused(bench, &id).await;
    assert_eq!(bench.complete(&claim, &answer("first")).await, Ok(()), "the owner is not disturbed");
}

pub(super) async fn fingerprint_of_another_request_takes_nothing_over(bench: &Bench) {
    let id = bench.id();
    let _owner = bench.take(&id).await;
    bench.elapse(LEASE + MARGIN).await;
    is_refused(bench, &id).await;
    assert_eq!(bench.take(&id).await.origin(), Origin::TakenOver, "the first request still can");
}

pub(super) async fn fingerprint_of_another_request_is_not_in_doubt(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(LEASE + MARGIN).await;
    is_refused(bench, &id).await;
}

pub(super) async fn fingerprint_of_another_request_sees_no_answer(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("secret")).await.expect("complete");
    is_refused(bench, &id).await;
}

pub(super) async fn fingerprint_of_another_request_retries_nothing(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.release(&owner).await.expect("release");
    is_refused(bench, &id).await;
    assert_eq!(bench.take(&id).await.origin(), Origin::Retried, "the first request still can");
}

pub(super) async fn fingerprint_counts_even_for_the_owner(bench: &Bench) {
    let id = bench.id();
    let first = request(&id);
    let _owner = bench.take_by(&first).await;
    let mut forged = ClaimRequest::new(id.clone(), body("second"), LEASE, RETENTION).expect("valid spans");
    forged.attempt = first.attempt;
    let outcome = bench.claim(&Arc::new(forged)).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::Mismatch)), "{outcome:?}");
}

pub(super) async fn fingerprint_refusals_write_nothing(bench: &Bench) {
    for id in every_state(bench).await {
        let before = bench.record(&id).await;
        for _ in 0..10 {
            Step::Claim(request_of(&id, body("second"))).call(&*bench.store).await;
            Step::Claim(request_of(&id, Fingerprints::new(of_version(200, 1)))).call(&*bench.store).await;
        }
        assert_eq!(bench.record(&id).await, before);
    }
}

pub(super) async fn fingerprint_that_expired_binds_nobody(bench: &Bench) {
    for unlike in [body("second"), Fingerprints::new(of_version(200, 1))] {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.complete(&owner, &answer("first")).await.expect("complete");
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        let claim = bench.take_by(&request_of(&id, unlike.clone())).await;
        assert_eq!((claim.origin(), claim.fingerprint()), (Origin::Expired, unlike.current()));
    }
}

pub(super) async fn fingerprint_of_an_older_version_is_accepted(bench: &Bench) {
    let (older, newer) = (of_version(3, 1), of_version(4, 2));
    let id = bench.id();
    let owner = bench.take_by(&request_of(&id, Fingerprints::new(older))).await;
    let both = || request_of(&id, Fingerprints::new(newer).accept(older));
    bench.hand_on(&owner).await;
    let taker = bench.take_by(&both()).await;
    assert_eq!(
        (taker.origin(), taker.fingerprint()),
        (Origin::TakenOver, older),
        "the record's own comes back"
    );
    assert_eq!(bench.record(&id).await.map(|record| record.fingerprint), Some(older));
    bench.release(&taker).await.expect("release");
    let retry = bench.take_by(&both()).await;
    assert_eq!((retry.origin(), retry.fingerprint()), (Origin::Retried, older));
    bench.complete(&retry, &answer("done")).await.expect("complete");
    assert!(matches!(bench.claim(&both()).await, Ok(ClaimOutcome::Completed(_))));
}

pub(super) async fn fingerprint_of_an_older_version_still_differs(bench: &Bench) {
    let id = bench.id();
    let _owner = bench.take_by(&request_of(&id, Fingerprints::new(of_version(3, 1)))).await;
    let unlike = Fingerprints::new(of_version(4, 2)).accept(of_version(3, 9));
    let outcome = bench.claim(&request_of(&id, unlike)).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::Mismatch)), "{outcome:?}");
}

pub(super) async fn fingerprint_of_an_unknown_version_is_unavailable(bench: &Bench) {
    for id in every_state(bench).await {
        cannot_tell(bench, &id).await;
    }
    // A digest that is equal by chance says nothing under other rules.
    let id = bench.id();
    let _owner = bench.take_by(&request_of(&id, Fingerprints::new(of_version(3, 1)))).await;
    cannot_tell(bench, &id).await;
}

pub(super) async fn fingerprint_keeps_all_its_bytes(bench: &Bench) {
    for version in [0, 1, 127, 128, 255] {
        for digest in [0, 0x7f, 0x80, 0xff] {
            let id = bench.id();
            let same = Fingerprints::new(of_version(version, digest));
            let owner = bench.take_by(&request_of(&id, same.clone())).await;
            assert_eq!(owner.fingerprint(), same.current());
            let mut last = of_version(version, digest).to_bytes();
            last[32] ^= 1;
            let unlike = request_of(&id, Fingerprints::new(Fingerprint::from_bytes(last)));
            assert!(matches!(bench.claim(&unlike).await, Ok(ClaimOutcome::Mismatch)), "the last bit counts");
        }
    }
}

pub(super) async fn fingerprint_of_the_winner_decides(bench: &Bench) {
    for _ in 0..60 {
        let id = bench.id();
        let replies =
            bench.race(&[Step::Claim(request(&id)), Step::Claim(request_of(&id, body("second")))]).await;
        let refused = |reply: &Reply| matches!(reply, Reply::Claim(Ok(ClaimOutcome::Mismatch)));
        assert_eq!(replies.iter().filter(|reply| refused(reply)).count(), 1);
    }
}

pub(super) async fn fingerprint_is_compared_by_the_write(bench: &Bench) {
    for _ in 0..60 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        let replies = bench
            .race(&[
                Step::Claim(request(&id)),
                Step::Claim(request_of(&id, body("second"))),
                Step::Renew(owner, LEASE),
            ])
            .await;
        assert!(matches!(replies[1], Reply::Claim(Ok(ClaimOutcome::Mismatch))), "{replies:?}");
    }
}
