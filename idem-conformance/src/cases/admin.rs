//! What operators look at: the record, and the list of what is stuck.

use std::{sync::Arc, time::Duration};

use idem_core::{ClaimRequest, KeyId, Rerun, Stuck};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, body, point, request},
    step::Step,
};

async fn stuck(bench: &Bench, limit: u32) -> Vec<Stuck> {
    bench.store.stuck(limit).await.expect("stuck answers")
}

fn ids(stuck: &[Stuck]) -> Vec<&KeyId> {
    stuck.iter().map(|stuck| &stuck.record.id).collect()
}

pub(super) async fn admin_find_of_nothing_is_nothing(bench: &Bench) {
    let id = bench.id();
    assert_eq!(bench.store.find(&id).await.ok(), Some(None));
    let _claim = bench.take(&id).await;
    assert_eq!(bench.store.find(&bench.id()).await.ok(), Some(None), "another key's record is not shown");
}

pub(super) async fn admin_find_changes_nothing(bench: &Bench) {
    let (stale, expired) = (bench.id(), bench.id());
    let _owner = bench.take(&stale).await;
    let owner = bench.take(&expired).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    for id in [stale, expired] {
        let before = bench.record(&id).await;
        assert!(before.is_some(), "finding forgets nothing");
        for _ in 0..20 {
            assert_eq!(bench.store.find(&id).await.ok(), Some(before.clone()));
        }
    }
}

pub(super) async fn admin_find_sees_what_others_wrote(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    let steps = [
        Step::Checkpoint(Arc::clone(&owner), point(1, "step"), Rerun::Until(LEASE * 2)),
        Step::Renew(Arc::clone(&owner), LEASE * 2),
        Step::Complete(owner, answer("done"), RETENTION),
    ];
    for step in steps {
        bench.step_on(&bench.other, step).await;
        let (here, there) = (bench.store.find(&id).await.expect("find answers"), bench.record(&id).await);
        assert_eq!(here, there);
    }
}

pub(super) async fn admin_stuck_lists_the_longest_first(bench: &Bench) {
    let mut expected = Vec::new();
    // The later it was claimed, the shorter its lease, the longer it is stuck.
    for lease in (1..=4).rev() {
        let id = bench.id();
        let request = ClaimRequest::new(id.clone(), body("first"), LEASE * lease, RETENTION);
        let _owner = bench.take_by(&Arc::new(request.expect("valid spans"))).await;
        expected.insert(0, id);
    }
    bench.elapse(LEASE * 5).await;
    let listed = stuck(bench, 10).await;
    assert_eq!(ids(&listed), expected.iter().collect::<Vec<_>>());
    assert!(listed.is_sorted_by(|one, next| one.stuck_for >= next.stuck_for));
    assert_eq!(ids(&stuck(bench, 2).await), expected[..2].iter().collect::<Vec<_>>(), "at most the limit");
    assert!(stuck(bench, 0).await.is_empty());
}

pub(super) async fn admin_stuck_says_for_how_long(bench: &Bench) {
    let id = bench.id();
    let _owner = bench.take(&id).await;
    bench.elapse(LEASE * 4).await;
    let listed = stuck(bench, 10).await;
    assert_eq!(ids(&listed), [&id]);
    assert!(listed[0].stuck_for.abs_diff(LEASE * 3) < MARGIN, "{:?}", listed[0].stuck_for);
    assert_eq!(Some(&listed[0].record), bench.record(&id).await.as_ref(), "with the whole record");
}

pub(super) async fn admin_stuck_tells_what_is_in_doubt(bench: &Bench) {
    for (rerun, in_doubt) in [
        (None, false),
        (Some(Rerun::Always), false),
        (Some(Rerun::Until(LEASE * 9)), false),
        (Some(Rerun::Until(LEASE)), true),
        (Some(Rerun::Never), true),
    ] {
        let id = bench.id();
        let owner = bench.take(&id).await;
        if let Some(rerun) = rerun {
            bench.checkpoint(&owner, &point(1, "step"), rerun).await.expect("checkpoint");
        }
        bench.elapse(LEASE * 2).await;
        let listed = stuck(bench, 10).await;
        assert_eq!(ids(&listed), [&id]);
        assert_eq!(listed[0].in_doubt, in_doubt, "{rerun:?}");
        assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()));
    }
}

pub(super) async fn admin_stuck_leaves_out_the_rest(bench: &Bench) {
    let completed = bench.take(&bench.id()).await;
    bench.complete(&completed, &answer("done")).await.expect("complete");
    let released = bench.take(&bench.id()).await;
    bench.release(&released).await.expect("release");
    bench.elapse(LEASE + MARGIN).await;
    let live = bench.take(&bench.id()).await;
    bench.checkpoint(&live, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    assert_eq!(stuck(bench, 10).await, []);
}

pub(super) async fn admin_stuck_sees_a_hand_on(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.hand_on(&owner).await;
    assert_eq!(ids(&stuck(bench, 10).await), [&id]);
    let taker = bench.take(&id).await;
    assert_eq!(stuck(bench, 10).await, [], "a new owner is at work");
    bench.renew(&taker, Duration::ZERO).await.expect("renew");
    assert_eq!(ids(&stuck(bench, 10).await), [&id]);
}

pub(super) async fn admin_stuck_changes_nothing(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(LEASE + MARGIN).await;
    let before = bench.record(&id).await;
    for _ in 0..20 {
        assert_eq!(stuck(bench, 10).await.len(), 1);
    }
    assert_eq!(bench.record(&id).await, before);
}

pub(super) async fn admin_notice_of_an_end_changes_nothing(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    let before = bench.record(&id).await;
    bench.store.ended(&owner).await;
    assert_eq!(bench.record(&id).await, before);
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()), "the claim is as good as before");
    let before = bench.record(&id).await;
    bench.store.ended(&owner).await;
    assert_eq!(bench.record(&id).await, before);
    let replay = bench.claim(&request(&id)).await;
    assert!(matches!(replay, Ok(idem_core::ClaimOutcome::Completed(_))), "{replay:?}");
}
