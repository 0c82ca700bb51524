//! Duplicates that ask again until the owner is done.

use std::sync::Arc;

use idem_core::{Claim, ClaimOutcome, KeyId, Rerun};

use crate::bench::{Bench, LEASE, MARGIN, answer, point, request};

/// Far more than a store has connections.
const CROWD: usize = 64;

/// A fresh key and its owner.
async fn owned(bench: &Bench) -> (KeyId, Arc<Claim>) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    (id, owner)
}

/// One more caller asks, and is told to wait.
async fn told_to_wait(bench: &Bench, id: &KeyId) {
    let outcome = bench.ask(id).await;
    assert!(matches!(outcome, ClaimOutcome::InProgress { .. }), "while the owner is at work: {outcome:?}");
}

pub(super) async fn wait_leaves_the_owner_everything(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    for _ in 0..CROWD {
        told_to_wait(bench, &id).await;
    }
    assert_eq!(bench.renew(&owner, LEASE).await, Ok(()), "its renewal");
    assert_eq!(bench.checkpoint(&owner, &point(1, "here"), Rerun::Always).await, Ok(()), "its checkpoint");
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()), "its answer");
}

pub(super) async fn wait_ends_with_the_answer(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    told_to_wait(bench, &id).await;
    told_to_wait(bench, &id).await;
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()));
    for _ in 0..2 {
        let outcome = bench.ask(&id).await;
        assert!(matches!(&outcome, ClaimOutcome::Completed(it) if *it == answer("done")), "{outcome:?}");
    }
}

pub(super) async fn wait_ends_with_a_takeover(bench: &Bench) {
    let (id, owner) = owned(bench).await;
    told_to_wait(bench, &id).await;
    bench.elapse(LEASE + MARGIN).await;
    let outcome = bench.claim(&request(&id)).await;
    let Ok(ClaimOutcome::Claimed(next)) = outcome else { panic!("its lease is over: {outcome:?}") };
    assert_eq!(next.fence().token, owner.fence().token + 1);
    told_to_wait(bench, &id).await;
}
