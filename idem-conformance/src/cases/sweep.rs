//! Forgetting: what a sweep may delete, and what it may not.

use std::sync::Arc;

use idem_core::{ClaimOutcome, KeyId, Origin, Rerun, StoredResponse};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, key, point, request},
    step::{Reply, Step},
};

/// Completes `count` fresh keys.
async fn completed(bench: &Bench, count: usize) -> Vec<KeyId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.complete(&claim, &answer("done")).await.expect("complete");
        ids.push(id);
    }
    ids
}

async fn left(bench: &Bench, ids: &[KeyId]) -> usize {
    let mut left = 0;
    for id in ids {
        left += usize::from(bench.record(id).await.is_some());
    }
    left
}

async fn sweep(bench: &Bench, limit: u32) -> u64 {
    bench.store.sweep(limit).await.expect("sweep answers")
}

pub(super) async fn sweep_deletes_what_outlived_its_retention(bench: &Bench) {
    let mut ids = completed(bench, 2).await;
    let released = bench.id();
    let claim = bench.take(&released).await;
    bench.release(&claim).await.expect("release");
    ids.push(released);
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    assert_eq!(sweep(bench, 100).await, 3);
    assert_eq!(left(bench, &ids).await, 0);
    assert_eq!(sweep(bench, 100).await, 0, "nothing is counted twice");
    assert_eq!(bench.take(&ids[0]).await.origin(), Origin::New, "what was swept was never there");
}

pub(super) async fn sweep_keeps_what_is_retained(bench: &Bench) {
    let ids = completed(bench, 2).await;
    let released = bench.id();
    let claim = bench.take(&released).await;
    bench.release(&claim).await.expect("release");
    bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
    assert_eq!(sweep(bench, 100).await, 0);
    assert!(matches!(bench.ask(&ids[0]).await, ClaimOutcome::Completed(_)));
    assert_eq!(bench.take(&released).await.origin(), Origin::Retried);
}

pub(super) async fn sweep_counts_retention_from_the_end(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(RETENTION * 3).await;
    bench.complete(&owner, &answer("late")).await.expect("complete");
    assert_eq!(sweep(bench, 100).await, 0, "it has only just ended");
    bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
    assert_eq!(sweep(bench, 100).await, 0);
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
    bench.elapse(MARGIN * 2).await;
    assert_eq!(sweep(bench, 100).await, 1);
}

pub(super) async fn sweep_never_takes_what_is_in_progress(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(RETENTION * 4000).await;
    assert_eq!(sweep(bench, 100).await, 0);
    assert_eq!(bench.complete(&owner, &answer("at last")).await, Ok(()));
}

pub(super) async fn sweep_never_takes_what_is_in_doubt(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(RETENTION * 4000).await;
    assert_eq!(sweep(bench, 100).await, 0);
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }));
}

pub(super) async fn sweep_deletes_at_most_its_limit(bench: &Bench) {
    let mut ids = completed(bench, 4).await;
    for number in 0..3 {
        // Two names make a record: the same key in other scopes is three more.
        let id = key(&format!("scope {number}"), ids[0].key().as_str());
        let claim = bench.take(&id).await;
        bench.complete(&claim, &answer("done")).await.expect("complete");
        ids.push(id);
    }
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    assert_eq!(sweep(bench, 3).await, 3);
    assert_eq!(left(bench, &ids).await, 4);
    assert_eq!(sweep(bench, 3).await, 3);
    assert_eq!(sweep(bench, 3).await, 1);
    assert_eq!(left(bench, &ids).await, 0);
}

pub(super) async fn sweep_passes_over_the_living(bench: &Bench) {
    // The living come first and last, so that a batch that stops at one of them would find nothing.
    let before = bench.take(&bench.id()).await;
    let old = completed(bench, 3).await;
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let young = completed(bench, 3).await;
    let after = bench.take(&bench.id()).await;
    assert_eq!(sweep(bench, 3).await, 3);
    assert_eq!((left(bench, &old).await, left(bench, &young).await), (0, 3));
    for claim in [before, after] {
        assert_eq!(bench.renew(&claim, LEASE).await, Ok(()));
    }
}

pub(super) async fn sweep_by_many_counts_each_once(bench: &Bench) {
    let ids = completed(bench, 40).await;
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let mut swept = 0;
    while left(bench, &ids).await > 0 {
        let steps: Vec<_> = (0..4).map(|_| Step::Sweep(ids[0].clone())).collect();
        for reply in bench.rush(&steps).await {
            match reply {
                Reply::Swept(Ok(count)) => swept += count,
                other => panic!("a sweep was answered with {other:?}"),
            }
        }
    }
    assert_eq!(swept, 40);
}

pub(super) async fn sweep_keeps_what_is_claimed_meanwhile(bench: &Bench) {
    for _ in 0..40 {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.complete(&claim, &answer("old")).await.expect("complete");
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        let replies = bench.race(&[Step::Sweep(id.clone()), Step::Claim(request(&id))]).await;
        let claimed = replies[1].claim().expect("an expired key can be claimed");
        assert_eq!(bench.record(&id).await.map(|record| record.fence()), Some(claimed.fence()));
    }
}

pub(super) async fn sweep_and_a_late_write_do_not_meet(bench: &Bench) {
    for _ in 0..20 {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.release(&claim).await.expect("release");
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        let late: StoredResponse = answer("late");
        bench.race(&[Step::Sweep(id.clone()), Step::Complete(Arc::clone(&claim), late, RETENTION)]).await;
        sweep(bench, 10).await;
        assert_eq!(bench.record(&id).await, None, "what the first sweep passed over the next one deletes");
    }
}

pub(super) async fn sweep_of_nothing_deletes_nothing(bench: &Bench) {
    assert_eq!(sweep(bench, 100).await, 0);
    let ids = completed(bench, 1).await;
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    assert_eq!(sweep(bench, 0).await, 0);
    assert_eq!(left(bench, &ids).await, 1);
}
