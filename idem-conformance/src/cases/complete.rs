//! Ending with an answer: once, for good, and for as long as was promised.

use std::{sync::Arc, time::Duration};

use idem_core::{ClaimOutcome, MAX_SPAN, Origin, Record, Rerun, State, StoreErrorKind};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, point, request},
    step::{Reply, Step},
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);

/// How long the record is kept from its end.
fn kept(record: &Record) -> Duration {
    let ended = record.state.ended_at().expect("it has ended");
    record.expires_at.duration_since(ended).expect("it expires after its end")
}

pub(super) async fn complete_ends_with_the_answer(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()));
    let record = bench.record(&id).await.expect("there is a record");
    assert!(matches!(&record.state, State::Completed { response, .. } if *response == answer("done")));
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("done")));
}

pub(super) async fn complete_is_visible_before_it_returns(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.store.complete(&owner, &answer("done"), RETENTION).await.expect("complete");
    let replay = Step::Claim(request(&id)).call(&*bench.other).await;
    assert!(matches!(replay, Reply::Claim(Ok(ClaimOutcome::Completed(_)))), "{replay:?}");
}

pub(super) async fn complete_again_keeps_the_first(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("first")).await.expect("complete");
    let first = bench.record(&id).await;
    bench.elapse(MARGIN).await;
    let aged = bench.record(&id).await;
    for text in ["first", "second"] {
        assert_eq!(bench.complete(&owner, &answer(text)).await, Ok(()), "it has ended as it was asked to");
    }
    assert_eq!(bench.write(Step::Complete(Arc::clone(&owner), answer("first"), MAX_SPAN)).await, Ok(()));
    assert_eq!(bench.record(&id).await, aged, "nothing is written");
    assert_eq!(first.map(|record| record.version), aged.map(|record| record.version));
}

pub(super) async fn complete_after_a_release_is_lost(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.release(&owner).await.expect("release");
    assert_eq!(bench.complete(&owner, &answer("late")).await, LOST);
}

pub(super) async fn complete_by_another_owner_is_lost(bench: &Bench) {
    let id = bench.id();
    let old = bench.take(&id).await;
    bench.hand_on(&old).await;
    let new = bench.take(&id).await;
    bench.complete(&new, &answer("new owner's")).await.expect("complete");
    assert_eq!(bench.complete(&old, &answer("new owner's")).await, LOST, "the same answer is no proof");
    assert!(
        matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("new owner's"))
    );
}

pub(super) async fn complete_takes_an_open_effect(bench: &Bench) {
    for rerun in [Rerun::Never, Rerun::Until(LEASE)] {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.checkpoint(&owner, &point(1, "charging"), rerun).await.expect("checkpoint");
        assert_eq!(bench.complete(&owner, &answer("declined")).await, Ok(()));
        bench.elapse(LEASE + MARGIN).await;
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)), "what has ended is not in doubt");
    }
}

pub(super) async fn complete_settles_what_is_in_doubt(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(LEASE + MARGIN).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
    assert_eq!(bench.complete(&owner, &answer("slow")).await, Ok(()), "its owner knows how it ended");
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
}

pub(super) async fn complete_is_kept_from_the_end(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    for _ in 0..3 {
        bench.elapse(RETENTION).await;
        bench.renew(&owner, LEASE).await.expect("renew");
    }
    bench.complete(&owner, &answer("late")).await.expect("complete");
    assert_eq!(kept(&bench.record(&id).await.expect("there is a record")), RETENTION);
    bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
}

pub(super) async fn complete_never_shrinks_what_was_promised(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    let claimed = bench.record(&id).await.expect("there is a record").expires_at;
    assert_eq!(bench.write(Step::Complete(owner, answer("done"), Duration::ZERO)).await, Ok(()));
    assert_eq!(bench.record(&id).await.map(|record| record.expires_at), Some(claimed));
}

pub(super) async fn complete_for_no_time_is_over_at_once(bench: &Bench) {
    for swept in [false, true] {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        assert_eq!(bench.write(Step::Complete(owner, answer("done"), Duration::ZERO)).await, Ok(()));
        let origin = if swept { Origin::New } else { Origin::Expired };
        assert_eq!(bench.store.sweep(u32::from(swept)).await.ok(), Some(u64::from(swept)));
        assert_eq!(bench.take(&id).await.origin(), origin);
    }
}

pub(super) async fn complete_keeps_the_rest_of_the_record(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(2, "charged"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(MARGIN).await;
    let before = bench.record(&id).await.expect("there is a record");
    bench.complete(&owner, &answer("done")).await.expect("complete");
    let after = bench.record(&id).await.expect("there is a record");
    let undone = Record {
        state: State::InProgress,
        version: before.version,
        expires_at: before.expires_at,
        ..after.clone()
    };
    assert_eq!((undone, after.version), (before.clone(), before.version + 1));
}

pub(super) async fn complete_twice_at_once_keeps_one(bench: &Bench) {
    for _ in 0..60 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        let end = |text| Step::Complete(Arc::clone(&owner), answer(text), RETENTION);
        bench.race(&[end("one"), end("two"), Step::Claim(request(&id))]).await;
    }
}

pub(super) async fn complete_takes_the_longest_retention(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    assert_eq!(bench.write(Step::Complete(owner, answer("done"), MAX_SPAN)).await, Ok(()));
    assert_eq!(kept(&bench.record(&id).await.expect("there is a record")), MAX_SPAN);
    bench.elapse(RETENTION * 3000).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
}

pub(super) async fn complete_refuses_absurd_retention(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    for retention in [Duration::MAX, MAX_SPAN + Duration::from_millis(1)] {
        let refused = bench.write(Step::Complete(Arc::clone(&owner), answer("done"), retention)).await;
        assert_eq!(refused, Err(StoreErrorKind::Invalid), "{retention:?}");
    }
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()), "the claim is still good");
}
