//! Lost requests, lost replies and calls that arrive late: sending the same call again settles all of them.

use std::sync::Arc;

use idem_core::{Claim, ClaimOutcome, Decision, KeyId, Origin, Rerun, State, StoreErrorKind};

use super::scene::{Scene, arrange};
use crate::{
    Delayed, Faulty,
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, point, request},
    judge::{Window, explain},
    step::{Reply, Step},
};

/// Makes the call, loses it on the way there or back, and makes it again; `bench.step` judges each later sending.
async fn can_be_sent_again(bench: &Bench, scene: Scene) {
    for landed in [false, true] {
        let step = arrange(bench, scene).await;
        let before = bench.record(step.id()).await;
        let opened = bench.now().await;
        let reply = lost(bench, &step, landed).await;
        assert_eq!(reply.error(), Some(StoreErrorKind::Unknown));
        let window = Window { before: opened, after: bench.now().await };
        let after = bench.record(step.id()).await;
        let history: &[(&Step, Option<&Reply>)] = if landed { &[(&step, None)] } else { &[] };
        if let Err(why) = explain(before.as_ref(), history, after.as_ref(), window) {
            panic!("{scene:?}, lost: {why}");
        }
        let again = bench.step(step.clone()).await;
        assert_eq!(again.error(), None, "{scene:?}, sent again");
        if let (true, Some(claim), Some(after)) = (landed, again.claim(), after) {
            assert_eq!((claim.origin(), claim.fence()), (Origin::Reissued, after.fence()));
        }
        let third = bench.step(step.clone()).await;
        assert_eq!(third.error(), None, "{scene:?}, sent a third time");
    }
}

/// Makes a call whose reply is lost, or whose request is.
async fn lost(bench: &Bench, step: &Step, landed: bool) -> Reply {
    let faulty = Faulty::new(Arc::clone(&bench.store));
    if landed {
        faulty.lose_reply(step.method());
    } else {
        faulty.lose_request(step.method());
    }
    step.call(&faulty).await
}

/// Sends a call that stays on its way.
async fn delayed(bench: &Bench, step: &Step) -> Delayed {
    let faulty = Faulty::new(Arc::clone(&bench.store));
    let delayed = faulty.delay(step.method());
    let reply = step.call(&faulty).await;
    assert_eq!(reply.error(), Some(StoreErrorKind::Unknown));
    delayed
}

/// Lets it arrive: the record has moved on and keeps every byte.
async fn lands_nowhere(bench: &Bench, id: &KeyId, delayed: Delayed) -> Option<ClaimOutcome> {
    let before = bench.record(id).await;
    let answer = delayed.land().await;
    assert_eq!(bench.record(id).await, before, "a late call changed the record; it was answered {answer:?}");
    answer.ok().flatten()
}

async fn fresh(bench: &Bench) -> (KeyId, Arc<Claim>) {
    let id = bench.id();
    let owner = bench.take(&id).await;
    (id, owner)
}

pub(super) async fn ambiguity_of_a_first_claim_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::First).await;
}

pub(super) async fn ambiguity_of_an_expired_claim_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Expired).await;
}

pub(super) async fn ambiguity_of_a_retry_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Retry).await;
}

pub(super) async fn ambiguity_of_a_takeover_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Takeover).await;
}

pub(super) async fn ambiguity_of_a_renewal_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Renewal).await;
    can_be_sent_again(bench, Scene::HandOn).await;
}

pub(super) async fn ambiguity_of_a_checkpoint_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Mark).await;
}

pub(super) async fn ambiguity_of_a_completion_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Completion).await;
}

pub(super) async fn ambiguity_of_a_release_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Release).await;
}

pub(super) async fn ambiguity_of_a_decision_is_settled(bench: &Bench) {
    for scene in [Scene::Completed, Scene::Failed, Scene::Resumed] {
        can_be_sent_again(bench, scene).await;
    }
}

pub(super) async fn ambiguity_of_a_sweep_is_settled(bench: &Bench) {
    can_be_sent_again(bench, Scene::Sweep).await;
}

pub(super) async fn ambiguity_of_a_phase_is_settled_by_its_claim(bench: &Bench) {
    // What a commit wrote is learnt by sending the claim again: the number of the last checkpoint says it.
    for committed in [false, true] {
        let id = bench.id();
        let claim = request(&id);
        let owner = bench.take_by(&claim).await;
        let phase = Step::Checkpoint(Arc::clone(&owner), point(1, "ride created"), Rerun::Always);
        lost(bench, &phase, committed).await;
        let again = bench.take_by(&claim).await;
        assert_eq!((again.fence(), again.checkpoint()), (owner.fence(), u64::from(committed)));
    }
}

pub(super) async fn ambiguity_late_claim_takes_nothing(bench: &Bench) {
    let id = bench.id();
    let first = delayed(bench, &Step::Claim(request(&id))).await;
    let second = delayed(bench, &Step::Claim(request(&id))).await;
    let owner = bench.take(&id).await;
    let outcome = lands_nowhere(bench, &id, first).await;
    assert!(matches!(outcome, Some(ClaimOutcome::InProgress { .. })), "{outcome:?}");
    bench.complete(&owner, &answer("done")).await.expect("complete");
    let outcome = lands_nowhere(bench, &id, second).await;
    assert!(matches!(outcome, Some(ClaimOutcome::Completed(_))), "{outcome:?}");
}

pub(super) async fn ambiguity_late_takeover_meets_a_renewal(bench: &Bench) {
    let (id, owner) = fresh(bench).await;
    bench.hand_on(&owner).await;
    let takeover = delayed(bench, &Step::Claim(request(&id))).await;
    bench.renew(&owner, LEASE).await.expect("renew");
    let outcome = lands_nowhere(bench, &id, takeover).await;
    assert!(matches!(outcome, Some(ClaimOutcome::InProgress { .. })), "{outcome:?}");
}

pub(super) async fn ambiguity_late_claim_holds_for_one_lease(bench: &Bench) {
    // Its caller is long gone: nobody knows of the claim, and nobody is locked out for ever.
    let id = bench.id();
    let late = delayed(bench, &Step::Claim(request(&id))).await;
    let owner = bench.take(&id).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    assert_eq!(bench.store.sweep(10).await.ok(), Some(1));
    let ghost = late.land().await.expect("the claim lands");
    assert!(
        matches!(&ghost, Some(ClaimOutcome::Claimed(claim)) if claim.fence() != owner.fence()),
        "{ghost:?}"
    );
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }));
    bench.elapse(LEASE + MARGIN).await;
    assert_eq!(bench.take(&id).await.origin(), Origin::TakenOver);
}

pub(super) async fn ambiguity_late_renewal_lands_nowhere(bench: &Bench) {
    for span in [LEASE * 9, std::time::Duration::ZERO] {
        let (id, owner) = fresh(bench).await;
        let renewal = || Step::Renew(Arc::clone(&owner), span);
        let (before, after) = (delayed(bench, &renewal()).await, delayed(bench, &renewal()).await);
        bench.hand_on(&owner).await;
        let taker = bench.take(&id).await;
        lands_nowhere(bench, &id, before).await;
        bench.complete(&taker, &answer("done")).await.expect("complete");
        lands_nowhere(bench, &id, after).await;
    }
}

pub(super) async fn ambiguity_late_checkpoint_lands_nowhere(bench: &Bench) {
    let (id, owner) = fresh(bench).await;
    let mark = || Step::Checkpoint(Arc::clone(&owner), point(1, "charging"), Rerun::Never);
    let (first, second) = (delayed(bench, &mark()).await, delayed(bench, &mark()).await);
    // Its owner never learnt of it and withdraws it by the next number.
    bench.checkpoint(&owner, &point(2, "not charging"), Rerun::Always).await.expect("checkpoint");
    lands_nowhere(bench, &id, first).await;
    bench.hand_on(&owner).await;
    let taker = bench.take(&id).await;
    lands_nowhere(bench, &id, second).await;
    assert_eq!(bench.release(&taker).await, Ok(()), "no effect is open");
}

pub(super) async fn ambiguity_late_completion_lands_nowhere(bench: &Bench) {
    let (id, owner) = fresh(bench).await;
    let end = || Step::Complete(Arc::clone(&owner), answer("slow"), RETENTION * 9);
    let (first, second) = (delayed(bench, &end()).await, delayed(bench, &end()).await);
    bench.hand_on(&owner).await;
    let taker = bench.take(&id).await;
    lands_nowhere(bench, &id, first).await;
    bench.complete(&taker, &answer("done")).await.expect("complete");
    lands_nowhere(bench, &id, second).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("done")));

    // After its own second sending it changes nothing either.
    let (id, owner) = fresh(bench).await;
    let late = delayed(bench, &Step::Complete(Arc::clone(&owner), answer("done"), RETENTION * 9)).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    lands_nowhere(bench, &id, late).await;
}

pub(super) async fn ambiguity_late_release_lands_nowhere(bench: &Bench) {
    let (id, owner) = fresh(bench).await;
    let release = || Step::Release(Arc::clone(&owner), RETENTION);
    let (retried, ended) = (delayed(bench, &release()).await, delayed(bench, &release()).await);
    bench.release(&owner).await.expect("release");
    let retry = bench.take(&id).await;
    lands_nowhere(bench, &id, retried).await;
    bench.complete(&retry, &answer("done")).await.expect("complete");
    lands_nowhere(bench, &id, ended).await;
}

pub(super) async fn ambiguity_late_decision_lands_nowhere(bench: &Bench) {
    for decision in
        [Decision::Complete(answer("charged")), Decision::Fail, Decision::Resume(point(2, "charged"))]
    {
        let (id, owner) = fresh(bench).await;
        bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
        bench.hand_on(&owner).await;
        let seen = bench.record(&id).await.expect("there is a record");
        let late = delayed(bench, &Step::Resolve(Box::new(seen), decision, RETENTION)).await;
        assert_eq!(bench.complete(&owner, &answer("slow")).await, Ok(()));
        lands_nowhere(bench, &id, late).await;
    }
}

pub(super) async fn ambiguity_late_sweep_keeps_the_living(bench: &Bench) {
    let (id, owner) = fresh(bench).await;
    bench.complete(&owner, &answer("old")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let late = delayed(bench, &Step::Sweep(id.clone())).await;
    let anew = bench.take(&id).await;
    lands_nowhere(bench, &id, late).await;
    assert_eq!(bench.record(&id).await.map(|record| record.state), Some(State::InProgress));
    assert_eq!(bench.complete(&anew, &answer("new")).await, Ok(()));
}

pub(super) async fn ambiguity_in_a_crowd_has_one_winner(bench: &Bench) {
    for _ in 0..25 {
        // Half of the callers had their reply lost and send again, at once with the others.
        let id = bench.id();
        let steps: Vec<_> = (0..8).map(|_| Step::Claim(request(&id))).collect();
        for step in &steps[..4] {
            lost(bench, step, true).await;
        }
        let replies = bench.rush(&steps).await;
        let claims: Vec<_> = replies.iter().filter_map(Reply::claim).collect();
        assert_eq!(claims.len(), 1, "{replies:?}");
        assert!(replies[0].claim().is_some(), "the first to arrive has it, though it was not told");
    }
}
