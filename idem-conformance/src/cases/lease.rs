//! Holding a key for a while: lease, renewal, taking over.

use std::{sync::Arc, time::Duration};

use idem_core::{ClaimOutcome, ClaimRequest, MAX_SPAN, MIN_LEASE, Origin, Rerun, State, StoreErrorKind};

use super::claim::one_winner;
use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, body, point, request},
    step::{Reply, Step},
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);

pub(super) async fn lease_live_is_not_taken_over(bench: &Bench) {
    let id = bench.id();
    let claim = bench.take(&id).await;
    bench.elapse(LEASE.saturating_sub(MARGIN)).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }));
    assert_eq!(bench.record(&id).await.map(|record| record.fence()), Some(claim.fence()));
}

pub(super) async fn lease_over_is_taken_over(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(LEASE + MARGIN).await;
    let taker = bench.take(&id).await;
    assert_eq!(taker.origin(), Origin::TakenOver);
    assert_eq!((taker.fence().operation, taker.fence().token), (owner.fence().operation, 2));
    assert!(
        matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }),
        "the taker has a lease of its own"
    );
}

pub(super) async fn lease_takeover_has_one_winner(bench: &Bench) {
    for round in 0..40 {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.hand_on(&claim).await;
        one_winner(bench, &id, if round == 0 { 32 } else { 12 }, Origin::TakenOver).await;
        assert_eq!(bench.record(&id).await.map(|record| record.token), Some(2), "one takeover");
    }
}

pub(super) async fn lease_takeover_keeps_the_operation(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(3, "charging"), Rerun::Until(LEASE * 10)).await.expect("checkpoint");
    bench.elapse(LEASE + MARGIN).await;
    let before = bench.record(&id).await.expect("there is a record");
    bench.take(&id).await;
    let after = bench.record(&id).await.expect("there is a record");
    assert_eq!(
        (
            after.operation,
            after.fingerprint,
            after.created_at,
            after.expires_at,
            after.rerun_until,
            after.checkpoint
        ),
        (before.operation, before.fingerprint, before.created_at, before.expires_at, before.rerun_until, 3)
    );
    assert_eq!(after.version, before.version + 1);
    assert!(after.locked_at > before.locked_at, "the new owner's claim is younger");
}

pub(super) async fn lease_takeover_hands_over_the_point(bench: &Bench) {
    let id = bench.id();
    for number in 1..=3 {
        let owner = bench.take(&id).await;
        assert_eq!(owner.checkpoint(), number - 1);
        let last = (number > 1).then(|| point(number - 1, "step"));
        assert_eq!(owner.point(), last.as_ref());
        bench.checkpoint(&owner, &point(number, "step"), Rerun::Always).await.expect("checkpoint");
        bench.hand_on(&owner).await;
    }
}

pub(super) async fn lease_takeover_hands_over_what_its_write_saw(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        let mark = Step::Checkpoint(Arc::clone(&owner), point(1, "late"), Rerun::Always);
        bench.race(&[mark, Step::Claim(request(&id))]).await;
    }
}

pub(super) async fn lease_takeover_stops_at_a_mark(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        let mark = Step::Checkpoint(Arc::clone(&owner), point(1, "charging"), Rerun::Never);
        let replies = bench.race(&[mark, Step::Claim(request(&id))]).await;
        let marked = matches!(replies[0], Reply::Write(Ok(())));
        assert!(!(marked && replies[1].claim().is_some()), "the marked effect was given to a new owner");
    }
}

pub(super) async fn lease_takeovers_count_the_owners(bench: &Bench) {
    let id = bench.id();
    let first = bench.take(&id).await.fence();
    for token in 2..=5 {
        bench.elapse(LEASE + MARGIN).await;
        let fence = bench.take(&id).await.fence();
        assert_eq!((fence.operation, fence.token), (first.operation, token));
    }
}

pub(super) async fn lease_of_the_taker_does_not_matter(bench: &Bench) {
    for lease in [MIN_LEASE, MAX_SPAN] {
        let id = bench.id();
        let _owner = bench.take(&id).await;
        let taker =
            |same| Arc::new(ClaimRequest::new(id.clone(), same, lease, RETENTION).expect("valid spans"));
        bench.elapse(LEASE.saturating_sub(MARGIN)).await;
        let early = bench.claim(&taker(body("first"))).await;
        assert!(matches!(early, Ok(ClaimOutcome::InProgress { .. })), "{early:?}");
        bench.elapse(MARGIN * 2).await;
        assert_eq!(bench.take_by(&taker(body("first"))).await.origin(), Origin::TakenOver);
    }
}

pub(super) async fn lease_counts_by_the_stores_clock(bench: &Bench) {
    // Years pass for the store and none for this process: nothing it writes may come from the caller's clock.
    let id = bench.id();
    for _ in 0..3 {
        let owner = bench.take(&id).await;
        match bench.ask(&id).await {
            ClaimOutcome::InProgress { retry_after } => {
                assert!(retry_after > LEASE.saturating_sub(MARGIN), "{retry_after:?}");
            }
            other => panic!("answered with {other:?}"),
        }
        bench.renew(&owner, LEASE).await.expect("renew");
        bench.elapse(RETENTION * 400).await;
    }
}

pub(super) async fn lease_renewed_holds_longer(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    for _ in 0..3 {
        bench.elapse(LEASE.saturating_sub(MARGIN)).await;
        assert_eq!(bench.renew(&owner, LEASE).await, Ok(()));
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }));
    }
}

pub(super) async fn lease_renewal_never_shortens(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    let before = bench.record(&id).await.expect("there is a record");
    for lease in [MIN_LEASE, Duration::from_secs(1), LEASE / 2] {
        assert_eq!(bench.renew(&owner, lease).await, Ok(()));
    }
    let after = bench.record(&id).await.expect("there is a record");
    assert_eq!((after.lease_until, after.version), (before.lease_until, before.version + 3));
}

pub(super) async fn lease_renewal_touches_nothing_else(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(MARGIN).await;
    let before = bench.record(&id).await.expect("there is a record");
    bench.renew(&owner, LEASE * 3).await.expect("renew");
    let after = bench.record(&id).await.expect("there is a record");
    assert!(after.lease_until > before.lease_until, "the lease is longer");
    let untouched =
        idem_core::Record { lease_until: before.lease_until, version: before.version, ..after.clone() };
    assert_eq!((untouched, after.version), (before.clone(), before.version + 1));
}

pub(super) async fn lease_renewed_with_zero_is_handed_on(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "half"), Rerun::Always).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    assert_eq!(bench.record(&id).await.map(|record| record.state), Some(State::InProgress));
    let next = bench.take(&id).await;
    assert_eq!((next.origin(), next.checkpoint()), (Origin::TakenOver, 1));
}

pub(super) async fn lease_over_can_be_renewed_by_its_owner(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(LEASE + MARGIN).await;
    assert_eq!(bench.renew(&owner, LEASE).await, Ok(()), "nobody took it over");
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }));
}

pub(super) async fn lease_of_an_ended_record_cannot_be_renewed(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    assert_eq!(bench.renew(&owner, LEASE).await, LOST);
    assert_eq!(bench.renew(&owner, Duration::ZERO).await, LOST);

    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.release(&owner).await.expect("release");
    assert_eq!(bench.renew(&owner, LEASE).await, LOST);
    assert_eq!(bench.renew(&owner, Duration::ZERO).await, LOST);
}

pub(super) async fn lease_renewal_races_a_takeover(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        let replies = bench.race(&[Step::Renew(owner, LEASE), Step::Claim(request(&id))]).await;
        let renewed = matches!(replies[0], Reply::Write(Ok(())));
        assert_ne!(renewed, replies[1].claim().is_some(), "one of them has the key");
    }
}

pub(super) async fn lease_takes_the_shortest_and_the_longest(bench: &Bench) {
    for lease in [MIN_LEASE, MAX_SPAN] {
        let id = bench.id();
        let request = ClaimRequest::new(id.clone(), body("first"), lease, MAX_SPAN).expect("valid spans");
        let owner = bench.take_by(&Arc::new(request)).await;
        assert_eq!(bench.renew(&owner, lease).await, Ok(()));
        assert_eq!(bench.renew(&owner, MAX_SPAN).await, Ok(()));
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }));
    }
}

pub(super) async fn lease_refuses_absurd_renewals(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    for lease in [Duration::MAX, MAX_SPAN + Duration::from_millis(1), Duration::from_nanos(1)] {
        assert_eq!(bench.renew(&owner, lease).await, Err(StoreErrorKind::Invalid), "{lease:?}");
    }
}

pub(super) async fn lease_over_does_not_end_the_work(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(LEASE * 3).await;
    assert_eq!(bench.checkpoint(&owner, &point(1, "slow"), Rerun::Always).await, Ok(()));
    assert_eq!(bench.complete(&owner, &answer("slow")).await, Ok(()));
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("slow")));
}
