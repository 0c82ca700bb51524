//! Notes of how far an operation has come, and until when a new owner may run it again.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Claim, ClaimOutcome, KeyId, MAX_SPAN, Origin, Record, RecoveryPoint, Rerun, RerunUntil, StoreErrorKind,
};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, point, request},
    step::Step,
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);
const INVALID: Result<(), StoreErrorKind> = Err(StoreErrorKind::Invalid);
const TOO_LATE: Result<(), StoreErrorKind> = Err(StoreErrorKind::TooLate);

/// A fresh key and its owner.
async fn owned(bench: &Bench) -> (KeyId, Arc<Claim>) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    (id, owner)
}

async fn rerun_until(bench: &Bench, id: &KeyId) -> RerunUntil {
    bench.record(id).await.expect("there is a record").rerun_until
}

pub(super) async fn checkpoint_is_kept_whole(bench: &Bench) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let points = [
        RecoveryPoint::new(1, "a", ""),
        RecoveryPoint::new(2, "n".repeat(RecoveryPoint::MAX_NAME), every_byte),
        RecoveryPoint::new(3, "caf\u{e9} \u{1f4b6} '\"\\{}%", "{\"a\":1,\"a\":1e2}"),
        RecoveryPoint::new(4, "large", vec![0xfe; RecoveryPoint::MAX_DATA]),
        RecoveryPoint::new(i64::MAX.unsigned_abs(), "last", "x"),
    ];
    let (id, mut owner) = owned(bench).await;
    for point in points {
        let point = point.expect("a valid recovery point");
        assert_eq!(bench.checkpoint(&owner, &point, Rerun::Always).await, Ok(()), "{point:?}");
        bench.hand_on(&owner).await;
        owner = bench.take(&id).await;
        assert!(owner.point() == Some(&point), "{point:?} is handed over whole");
        assert_eq!(owner.checkpoint(), point.checkpoint());
    }
}

pub(super) async fn checkpoint_changes_nothing_else(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.elapse(MARGIN).await;
    let before = bench.record(&id).await.expect("there is a record");
    bench.checkpoint(&owner, &point(4, "charging"), Rerun::Never).await.expect("checkpoint");
    let after = bench.record(&id).await.expect("there is a record");
    let expected = Record {
        checkpoint: 4,
        point: Some(point(4, "charging")),
        rerun_until: RerunUntil::Never,
        version: before.version + 1,
        ..before
    };
    assert_eq!(after, expected);
}

pub(super) async fn checkpoint_numbers_may_skip(bench: &Bench) {
    let (_, owner) = owned(bench).await;
    for number in [1, 2, 5, 100] {
        assert_eq!(bench.checkpoint(&owner, &point(number, "step"), Rerun::Always).await, Ok(()));
    }
}

pub(super) async fn checkpoint_again_is_taken_for_itself(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "step"), Rerun::Never).await.expect("checkpoint");
    let before = bench.record(&id).await;
    assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Never).await, Ok(()));
    assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Always).await, Ok(()));
    assert_eq!(bench.record(&id).await, before, "it writes nothing, whatever it says of running again");
}

pub(super) async fn checkpoint_number_is_used_once(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(2, "step"), Rerun::Never).await.expect("checkpoint");
    let before = bench.record(&id).await;
    let data = RecoveryPoint::new(2, "step", "other data").expect("a valid recovery point");
    let name =
        RecoveryPoint::new(2, "other", point(2, "step").data().to_vec()).expect("a valid recovery point");
    for other in [point(2, "other"), data, name] {
        assert_eq!(bench.checkpoint(&owner, &other, Rerun::Always).await, INVALID);
    }
    assert_eq!(bench.record(&id).await, before);
}

pub(super) async fn checkpoint_late_undoes_nothing(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    let mark = point(1, "charging");
    bench.checkpoint(&owner, &mark, Rerun::Never).await.expect("checkpoint");
    bench.checkpoint(&owner, &point(2, "charged"), Rerun::Always).await.expect("checkpoint");
    let before = bench.record(&id).await;
    assert_eq!(bench.checkpoint(&owner, &mark, Rerun::Never).await, INVALID);
    assert_eq!(bench.record(&id).await, before);
}

pub(super) async fn checkpoint_numbers_run_over_all_owners(bench: &Bench) {
    let (id, first) = owned(bench).await;
    bench.checkpoint(&first, &point(3, "step"), Rerun::Always).await.expect("checkpoint");
    bench.hand_on(&first).await;
    let second = bench.take(&id).await;
    assert_eq!(bench.checkpoint(&second, &point(1, "again"), Rerun::Always).await, INVALID);
    assert_eq!(bench.checkpoint(&second, &point(4, "on"), Rerun::Always).await, Ok(()));
    bench.release(&second).await.expect("release");
    let third = bench.take(&id).await;
    assert_eq!((third.checkpoint(), third.point()), (4, Some(&point(4, "on"))));
    assert_eq!(bench.checkpoint(&third, &point(4, "other"), Rerun::Always).await, INVALID);
}

pub(super) async fn checkpoint_after_the_end_is_lost(bench: &Bench) {
    let (_, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "step"), Rerun::Always).await.expect("checkpoint");
    bench.complete(&owner, &answer("done")).await.expect("complete");
    assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Always).await, LOST);
    assert_eq!(bench.checkpoint(&owner, &point(2, "step"), Rerun::Never).await, LOST);

    let (_, owner) = owned(bench).await;
    bench.release(&owner).await.expect("release");
    assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Never).await, LOST);
}

pub(super) async fn checkpoint_refuses_an_absurd_window(bench: &Bench) {
    let (_, owner) = owned(bench).await;
    for window in [Duration::MAX, MAX_SPAN + Duration::from_millis(1)] {
        assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Until(window)).await, INVALID);
    }
    assert_eq!(bench.checkpoint(&owner, &point(1, "step"), Rerun::Until(MAX_SPAN)).await, Ok(()));
}

pub(super) async fn checkpoint_until_lets_run_again_in_time(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(LEASE * 5)).await.expect("checkpoint");
    bench.elapse((LEASE * 5).saturating_sub(MARGIN)).await;
    let taker = bench.take(&id).await;
    assert_eq!((taker.origin(), taker.point()), (Origin::TakenOver, Some(&point(1, "charging"))));
    bench.elapse(LEASE + MARGIN * 2).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }), "its time is over");
}

pub(super) async fn checkpoint_until_now_is_over_now(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(Duration::ZERO)).await.expect("checkpoint");
    assert_eq!(bench.checkpoint(&owner, &point(2, "again"), Rerun::Again).await, TOO_LATE);
    bench.hand_on(&owner).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
}

pub(super) async fn checkpoint_until_keeps_the_earlier_end(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "one"), Rerun::Until(LEASE * 5)).await.expect("checkpoint");
    let first = rerun_until(bench, &id).await;
    bench.checkpoint(&owner, &point(2, "two"), Rerun::Until(LEASE * 9)).await.expect("checkpoint");
    assert_eq!(rerun_until(bench, &id).await, first, "a later end does not count");
    bench.checkpoint(&owner, &point(3, "three"), Rerun::Until(LEASE * 2)).await.expect("checkpoint");
    assert!(rerun_until(bench, &id).await < first, "an earlier one does");
}

pub(super) async fn checkpoint_never_is_in_doubt_once_stale(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }), "its owner is at work");
    bench.elapse(LEASE + MARGIN).await;
    for _ in 0..3 {
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
    }
    bench.elapse(RETENTION * 4000).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }), "no time settles it");
}

pub(super) async fn checkpoint_never_is_not_softened(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.checkpoint(&owner, &point(2, "other"), Rerun::Until(LEASE * 9)).await.expect("checkpoint");
    bench.checkpoint(&owner, &point(3, "result"), Rerun::Keep).await.expect("checkpoint");
    assert_eq!(rerun_until(bench, &id).await, RerunUntil::Never);
    assert_eq!(bench.checkpoint(&owner, &point(4, "again"), Rerun::Again).await, TOO_LATE);
}

pub(super) async fn checkpoint_always_closes_the_effect(bench: &Bench) {
    for open in [Rerun::Never, Rerun::Until(LEASE)] {
        let (id, owner) = owned(bench).await;
        bench.checkpoint(&owner, &point(1, "charging"), open).await.expect("checkpoint");
        bench.elapse(LEASE + MARGIN).await;
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
        assert_eq!(bench.checkpoint(&owner, &point(2, "charged"), Rerun::Always).await, Ok(()));
        assert_eq!(bench.take(&id).await.point(), Some(&point(2, "charged")));
    }
}

pub(super) async fn checkpoint_again_leaves_the_time(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(LEASE * 5)).await.expect("checkpoint");
    bench.elapse(LEASE).await;
    let before = rerun_until(bench, &id).await;
    assert_eq!(bench.checkpoint(&owner, &point(2, "charging again"), Rerun::Again).await, Ok(()));
    assert_eq!(rerun_until(bench, &id).await, before);

    // Where no effect is open there is no end to keep.
    let (id, owner) = owned(bench).await;
    assert_eq!(bench.checkpoint(&owner, &point(1, "free"), Rerun::Again).await, Ok(()));
    assert_eq!(rerun_until(bench, &id).await, RerunUntil::Always);
}

pub(super) async fn checkpoint_again_can_be_too_late(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(LEASE * 2)).await.expect("checkpoint");
    bench.renew(&owner, LEASE * 20).await.expect("renew");
    let again = point(2, "charging again");
    assert_eq!(bench.checkpoint(&owner, &again, Rerun::Again).await, Ok(()));
    bench.elapse(LEASE * 2 + MARGIN).await;
    let before = bench.record(&id).await;
    assert_eq!(
        bench.checkpoint(&owner, &again, Rerun::Again).await,
        TOO_LATE,
        "sent again, it is too late too"
    );
    assert_eq!(bench.checkpoint(&owner, &point(3, "once more"), Rerun::Again).await, TOO_LATE);
    assert_eq!(bench.record(&id).await, before);
}

pub(super) async fn checkpoint_keep_never_raises(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(LEASE * 2)).await.expect("checkpoint");
    let before = rerun_until(bench, &id).await;
    bench.checkpoint(&owner, &point(2, "result"), Rerun::Keep).await.expect("checkpoint");
    assert_eq!(rerun_until(bench, &id).await, before);
    bench.elapse(LEASE * 3).await;
    assert_eq!(
        bench.checkpoint(&owner, &point(3, "result"), Rerun::Keep).await,
        Ok(()),
        "a result is never late"
    );
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
}

pub(super) async fn checkpoint_doubt_dates_from_the_later_end(bench: &Bench) {
    for (window, lease) in [(LEASE * 5, LEASE), (LEASE, LEASE * 5)] {
        let (id, owner) = owned(bench).await;
        bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(window)).await.expect("checkpoint");
        bench.renew(&owner, lease).await.expect("renew");
        bench.elapse(LEASE * 7).await;
        let record = bench.record(&id).await.expect("there is a record");
        let RerunUntil::At(end) = record.rerun_until else { panic!("{:?}", record.rerun_until) };
        match bench.ask(&id).await {
            ClaimOutcome::InDoubt { since } => assert_eq!(since, end.max(record.lease_until)),
            other => panic!("answered with {other:?}"),
        }
    }
}

pub(super) async fn checkpoint_survives_takeover_and_retry(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Until(LEASE * 9)).await.expect("checkpoint");
    let end = rerun_until(bench, &id).await;
    bench.hand_on(&owner).await;
    let taker = bench.take(&id).await;
    assert_eq!(rerun_until(bench, &id).await, end, "the mark is still open for the new owner");
    assert_eq!(bench.release(&taker).await, INVALID);
}

pub(super) async fn checkpoint_pairs_of_one_owner_do_not_cross(bench: &Bench) {
    for _ in 0..60 {
        let (id, owner) = owned(bench).await;
        let mark = |number, rerun| Step::Checkpoint(Arc::clone(&owner), point(number, "step"), rerun);
        bench.race(&[mark(1, Rerun::Never), mark(2, Rerun::Always)]).await;
        assert_eq!(bench.record(&id).await.map(|record| record.checkpoint), Some(2), "the later one stands");
        bench.race(&[mark(3, Rerun::Never), mark(3, Rerun::Never), Step::Claim(request(&id))]).await;
    }
}
