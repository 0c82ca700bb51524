//! Late writes: nothing that an owner of yesterday sends lands.

use std::{collections::HashSet, sync::Arc, time::Duration};

use idem_core::{Claim, Decision, Fence, KeyId, OperationId, Origin, Rerun, StoreErrorKind};

use super::scene::{Scene, arrange_at};
use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, key, point, request},
    step::{Reply, Step},
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);

/// Every write that shows a fence.
pub(super) fn writes(claim: &Arc<Claim>) -> [Step; 6] {
    let claim = || Arc::clone(claim);
    [
        Step::Renew(claim(), LEASE * 2),
        Step::Renew(claim(), Duration::ZERO),
        Step::Checkpoint(claim(), point(90, "late"), Rerun::Never),
        Step::Checkpoint(claim(), point(91, "late"), Rerun::Always),
        Step::Complete(claim(), answer("late"), RETENTION),
        Step::Release(claim(), RETENTION),
    ]
}

/// Sends them all; each has to be lost. That the record keeps every byte is judged with each.
pub(super) async fn all_lost(bench: &Bench, claim: &Arc<Claim>) {
    for step in writes(claim) {
        let call = format!("{step:?}");
        assert_eq!(bench.write(step).await, LOST, "{call}");
    }
}

pub(super) async fn fence_after_a_takeover_is_lost(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.elapse(LEASE + MARGIN).await;
    let taker = bench.take(&id).await;
    all_lost(bench, &owner).await;
    bench.elapse(LEASE + MARGIN).await;
    all_lost(bench, &owner).await;
    assert_eq!(bench.complete(&taker, &answer("taker's")).await, Ok(()), "the taker still has it");
    all_lost(bench, &owner).await;
}

pub(super) async fn fence_after_a_retry_is_lost(bench: &Bench) {
    let id = bench.id();
    let first = bench.take(&id).await;
    bench.release(&first).await.expect("release");
    let second = bench.take(&id).await;
    all_lost(bench, &first).await;
    bench.release(&second).await.expect("release");
    all_lost(bench, &first).await;
}

pub(super) async fn fence_of_an_earlier_operation_is_lost(bench: &Bench) {
    let id = bench.id();
    let old = bench.take(&id).await;
    bench.complete(&old, &answer("old")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let new = bench.take(&id).await;
    assert_eq!((old.fence().token, new.fence().token), (1, 1), "the token alone does not tell them apart");
    all_lost(bench, &old).await;
    bench.complete(&new, &answer("new")).await.expect("complete");
    all_lost(bench, &old).await;
}

pub(super) async fn fence_after_a_sweep_is_lost(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.release(&owner).await.expect("release");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    assert_eq!(bench.store.sweep(10).await.ok(), Some(1));
    all_lost(bench, &owner).await;
    assert_eq!(bench.record(&id).await, None, "a late write makes no record");
    let new = bench.take(&id).await;
    assert_eq!(new.origin(), Origin::New);
    all_lost(bench, &owner).await;
}

pub(super) async fn fence_that_was_never_given_is_lost(bench: &Bench) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    let real = owner.fence();
    let invented = [
        Fence { token: real.token + 1, ..real },
        Fence { token: 0, ..real },
        Fence { operation: OperationId::random(), ..real },
    ];
    for fence in invented {
        let claim = Arc::new(Claim::new(id.clone(), fence, owner.fingerprint(), Origin::New));
        all_lost(bench, &claim).await;
    }
}

pub(super) async fn fence_of_another_key_is_lost(bench: &Bench) {
    let (one, two) = (bench.id(), bench.id());
    let (first, _second) = (bench.take(&one).await, bench.take(&two).await);
    let crossed = Arc::new(Claim::new(two, first.fence(), first.fingerprint(), Origin::New));
    all_lost(bench, &crossed).await;
    let nowhere = Arc::new(Claim::new(bench.id(), first.fence(), first.fingerprint(), Origin::New));
    all_lost(bench, &nowhere).await;
    assert_eq!(bench.record(nowhere.id()).await, None);

    // The same key in another scope is another key.
    let elsewhere = key("another scope", one.key().as_str());
    let claim =
        |id: &KeyId| Arc::new(Claim::new(id.clone(), first.fence(), first.fingerprint(), Origin::New));
    all_lost(bench, &claim(&elsewhere)).await;
    let _third = bench.take(&elsewhere).await;
    all_lost(bench, &claim(&elsewhere)).await;
    assert_eq!(bench.complete(&first, &answer("mine")).await, Ok(()));
}

pub(super) async fn fence_of_one_key_moves_no_other(bench: &Bench) {
    for (number, scene) in Scene::OF_ONE_KEY.into_iter().enumerate() {
        let names = [("one", "this"), ("other", "this"), ("one", "that")];
        let ids = names.map(|(scope, name)| key(scope, &format!("{name}-{number}")));
        let mut steps = Vec::new();
        for id in &ids {
            steps.push(arrange_at(bench, scene, id.clone()).await);
        }
        for step in steps {
            let others: Vec<_> = ids.iter().filter(|id| *id != step.id()).collect();
            let mut before = Vec::new();
            for other in &others {
                before.push(bench.record(other).await);
            }
            assert_eq!(bench.step(step).await.error(), None, "{scene:?}");
            for (other, before) in others.into_iter().zip(before) {
                assert_eq!(bench.record(other).await, before, "{scene:?} moved a record of another key");
            }
        }
    }
}

pub(super) async fn fence_tokens_only_grow(bench: &Bench) {
    let id = bench.id();
    let mut last = bench.take(&id).await;
    for round in 0..6 {
        if round % 2 == 0 {
            bench.release(&last).await.expect("release");
        } else {
            bench.hand_on(&last).await;
        }
        let next = bench.take(&id).await;
        assert_eq!(next.fence(), Fence { token: last.fence().token + 1, ..last.fence() });
        last = next;
    }
}

pub(super) async fn fence_is_never_given_twice(bench: &Bench) {
    // A claim that is sent again after its operation was swept: the id must not come back with it.
    let id = bench.id();
    let late = request(&id);
    let mut seen = HashSet::new();
    for sweep in [true, false, true] {
        let claim = bench.take_by(&late).await;
        assert!(seen.insert(claim.fence().operation), "an operation id came back");
        bench.complete(&claim, &answer("done")).await.expect("complete");
        bench.elapse(RETENTION + LEASE + MARGIN).await;
        if sweep {
            assert_eq!(bench.store.sweep(10).await.ok(), Some(1));
        }
    }
    for _ in 0..50 {
        assert!(seen.insert(bench.take(&bench.id()).await.fence().operation), "an operation id came back");
    }
}

pub(super) async fn fence_decides_between_end_and_takeover(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        let end = Step::Complete(owner, answer("slow"), RETENTION);
        let replies = bench.race(&[end, Step::Claim(request(&id))]).await;
        let ended = matches!(replies[0], Reply::Write(Ok(())));
        assert_ne!(ended, replies[1].claim().is_some(), "it ended once or was taken over");
    }
}

pub(super) async fn fence_decides_between_release_and_takeover(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.hand_on(&owner).await;
        bench.race(&[Step::Release(owner, RETENTION), Step::Claim(request(&id))]).await;
    }
}

pub(super) async fn fence_decides_among_the_ends(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        let complete = Step::Complete(Arc::clone(&owner), answer("done"), RETENTION);
        let replies = bench.race(&[complete, Step::Release(owner, RETENTION)]).await;
        let ends = replies.iter().filter(|reply| matches!(reply, Reply::Write(Ok(())))).count();
        assert_eq!(ends, 1, "completed or released");
    }
}

pub(super) async fn fence_stops_a_late_checkpoint(bench: &Bench) {
    for _ in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        let mark = Step::Checkpoint(Arc::clone(&owner), point(1, "late"), Rerun::Never);
        bench.race(&[Step::Complete(Arc::clone(&owner), answer("done"), RETENTION), mark]).await;
    }
}

pub(super) async fn fence_survives_a_decision(bench: &Bench) {
    let decisions =
        [Decision::Complete(answer("decided")), Decision::Fail, Decision::Resume(point(2, "decided"))];
    for decision in decisions {
        let id = bench.id();
        let owner = bench.take(&id).await;
        bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
        bench.hand_on(&owner).await;
        let seen = bench.record(&id).await.expect("there is a record");
        assert_eq!(bench.resolve(&seen, &decision).await, Ok(()));
        all_lost(bench, &owner).await;
    }
}
