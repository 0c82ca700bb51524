//! Ending because it may be tried again: only what is known not to have happened.

use std::{sync::Arc, time::Duration};

use idem_core::{ClaimOutcome, MAX_SPAN, Origin, Record, Rerun, State, StoreErrorKind};

use super::claim::one_winner;
use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, point, request},
    step::{Reply, Step},
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);
const INVALID: Result<(), StoreErrorKind> = Err(StoreErrorKind::Invalid);

pub(super) async fn failure_frees_the_key_at_once(bench: &Bench) {
    let id = bench.id();
    let first = bench.take(&id).await;
    assert_eq!(bench.release(&first).await, Ok(()));
    let retry = bench.take(&id).await;
    assert_eq!((retry.origin(), retry.fence().token), (Origin::Retried, 2));
    assert_eq!(retry.fence().operation, first.fence().operation, "it is the same operation");
    let record = bench.record(&id).await.expect("there is a record");
    assert_eq!(record.state, State::InProgress);
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }), "the retry has a lease");
}

pub(super) async fn failure_retry_has_one_winner(bench: &Bench) {
    for round in 0..40 {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.release(&claim).await.expect("release");
        one_winner(bench, &id, if round == 0 { 32 } else { 12 }, Origin::Retried).await;
        assert_eq!(bench.record(&id).await.map(|record| record.token), Some(2), "one retry");
    }
}

pub(super) async fn failure_keeps_the_recovery_point(bench: &Bench) {
    let id = bench.id();
    let first = bench.take(&id).await;
    bench.checkpoint(&first, &point(2, "half"), Rerun::Always).await.expect("checkpoint");
    bench.release(&first).await.expect("release");
    let retry = bench.take(&id).await;
    assert_eq!((retry.checkpoint(), retry.point()), (2, Some(&point(2, "half"))));
}

pub(super) async fn failure_keeps_the_rest_of_the_record(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(MARGIN).await;
    let before = bench.record(&id).await.expect("there is a record");
    bench.release(&owner).await.expect("release");
    let after = bench.record(&id).await.expect("there is a record");
    assert!(matches!(after.state, State::Failed { .. }));
    let undone = Record {
        state: State::InProgress,
        version: before.version,
        expires_at: before.expires_at,
        ..after.clone()
    };
    assert_eq!((undone, after.version), (before.clone(), before.version + 1));
}

pub(super) async fn failure_again_is_the_same(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.release(&owner).await.expect("release");
    bench.elapse(MARGIN).await;
    let before = bench.record(&id).await;
    assert_eq!(bench.release(&owner).await, Ok(()));
    assert_eq!(bench.write(Step::Release(owner, MAX_SPAN)).await, Ok(()));
    assert_eq!(bench.record(&id).await, before, "nothing is written");
}

pub(super) async fn failure_after_completion_is_lost(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    assert_eq!(bench.release(&owner).await, LOST);
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));

    // Nor is it refused for the effect that was open when it ended: there is nothing to fix.
    let owner = bench.take(&bench.id()).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.complete(&owner, &answer("done")).await.expect("complete");
    assert_eq!(bench.release(&owner).await, LOST);
}

pub(super) async fn failure_is_refused_while_an_effect_is_open(bench: &Bench) {
    for open in [Rerun::Never, Rerun::Until(LEASE * 2)] {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.checkpoint(&owner, &point(1, "charging"), open).await.expect("checkpoint");
        assert_eq!(bench.release(&owner).await, INVALID);
        bench.elapse(LEASE * 3).await;
        assert_eq!(bench.release(&owner).await, INVALID, "time does not make it known");
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
    }
}

pub(super) async fn failure_is_taken_after_the_effect_was_withdrawn(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.checkpoint(&owner, &point(2, "was not charged"), Rerun::Always).await.expect("checkpoint");
    assert_eq!(bench.release(&owner).await, Ok(()));
    assert_eq!(bench.take(&id).await.origin(), Origin::Retried);
}

pub(super) async fn failure_past_the_lease_is_taken(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(LEASE * 3).await;
    assert_eq!(bench.release(&owner).await, Ok(()), "nobody took it over");
    assert_eq!(bench.take(&id).await.origin(), Origin::Retried);
}

pub(super) async fn failure_is_kept_from_its_end(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(RETENTION * 3).await;
    bench.release(&owner).await.expect("release");
    let record = bench.record(&id).await.expect("there is a record");
    let ended = record.state.ended_at().expect("it has ended");
    assert_eq!(record.expires_at.duration_since(ended).ok(), Some(RETENTION));
    bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
    assert_eq!(bench.take(&id).await.origin(), Origin::Retried);

    let id = bench.id();
    let owner = bench.take(&id).await;
    let promised = bench.record(&id).await.map(|record| record.expires_at);
    assert_eq!(bench.write(Step::Release(owner, Duration::ZERO)).await, Ok(()));
    assert_eq!(bench.record(&id).await.map(|record| record.expires_at), promised, "and never shorter");
}

pub(super) async fn failure_refuses_absurd_retention(bench: &Bench) {
    let owner = bench.take(&bench.id()).await;
    for retention in [Duration::MAX, MAX_SPAN + Duration::from_millis(1)] {
        assert_eq!(bench.write(Step::Release(Arc::clone(&owner), retention)).await, INVALID, "{retention:?}");
    }
    assert_eq!(bench.release(&owner).await, Ok(()), "the claim is still good");
}

pub(super) async fn failure_meets_a_mark_in_one_order(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        let mark = Step::Checkpoint(Arc::clone(&owner), point(1, "charging"), Rerun::Never);
        let replies = bench.race(&[mark, Step::Release(owner, RETENTION), Step::Claim(request(&id))]).await;
        let marked = matches!(replies[0], Reply::Write(Ok(())));
        assert!(!(marked && replies[2].claim().is_some()), "a marked effect was given to a new owner");
    }
}
