//! Settling what is in doubt: by whom it was seen, as it was seen.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Decision, KeyId, MAX_SPAN, OperationId, Origin, Record, RecoveryPoint,
    Rerun, RerunUntil, State, StoreErrorKind, StoredResponse,
};

use super::fence::all_lost;
use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, key, point, request},
    step::{Reply, Step},
};

const LOST: Result<(), StoreErrorKind> = Err(StoreErrorKind::ClaimLost);
const INVALID: Result<(), StoreErrorKind> = Err(StoreErrorKind::Invalid);

/// An operation in doubt.
struct Doubt {
    id: KeyId,
    request: Arc<ClaimRequest>,
    owner: Arc<Claim>,
    seen: Record,
}

async fn doubt(bench: &Bench) -> Doubt {
    let id = bench.id();
    let request = request(&id);
    let owner = bench.take_by(&request).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    let seen = bench.record(&id).await.expect("there is a record");
    Doubt { id, request, owner, seen }
}

fn decisions() -> [Decision; 3] {
    [Decision::Complete(answer("charged")), Decision::Fail, Decision::Resume(point(2, "charged"))]
}

pub(super) async fn resolve_completes(bench: &Bench) {
    let Doubt { id, seen, .. } = doubt(bench).await;
    assert_eq!(bench.resolve(&seen, &Decision::Complete(answer("charged"))).await, Ok(()));
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("charged")));
    let record = bench.record(&id).await.expect("there is a record");
    assert_eq!((record.token, record.version), (seen.token + 1, seen.version + 1));
    assert_eq!((record.rerun_until, record.checkpoint), (RerunUntil::Always, 1));
}

pub(super) async fn resolve_fails_and_the_next_starts_anew(bench: &Bench) {
    let Doubt { id, seen, .. } = doubt(bench).await;
    assert_eq!(bench.resolve(&seen, &Decision::Fail).await, Ok(()));
    let retry = bench.take(&id).await;
    assert_eq!((retry.origin(), retry.fence().token), (Origin::Retried, seen.token + 2));
    assert_eq!((retry.checkpoint(), retry.point()), (1, None), "the number stays used, the point is gone");
    assert_eq!(bench.checkpoint(&retry, &point(1, "charging"), Rerun::Never).await, INVALID);
    assert_eq!(bench.checkpoint(&retry, &point(2, "charging"), Rerun::Never).await, Ok(()));
}

pub(super) async fn resolve_resumes_and_the_next_goes_on(bench: &Bench) {
    let Doubt { id, seen, .. } = doubt(bench).await;
    assert_eq!(bench.resolve(&seen, &Decision::Resume(point(2, "charged"))).await, Ok(()));
    let record = bench.record(&id).await.expect("there is a record");
    assert_eq!((&record.state, record.rerun_until), (&State::InProgress, RerunUntil::Always));
    let next = bench.take(&id).await;
    assert_eq!((next.origin(), next.point()), (Origin::TakenOver, Some(&point(2, "charged"))));
    assert_eq!(next.fence().token, seen.token + 2);
}

pub(super) async fn resolve_again_is_the_same(bench: &Bench) {
    for decision in decisions() {
        let Doubt { id, seen, .. } = doubt(bench).await;
        bench.resolve(&seen, &decision).await.expect("resolve");
        let settled = bench.record(&id).await;
        assert_eq!(bench.resolve(&seen, &decision).await, Ok(()), "{decision:?} sent again");
        assert_eq!(bench.record(&id).await, settled, "nothing is written");
    }
}

pub(super) async fn resolve_by_another_decision_is_lost(bench: &Bench) {
    let charged = |status| StoredResponse::new(status, "charged".to_owned()).expect("a valid status");
    let resumed = |name, data: &str| {
        Decision::Resume(RecoveryPoint::new(2, name, data.to_owned()).expect("a valid recovery point"))
    };
    let others = [
        Decision::Complete(answer("not charged")),
        Decision::Complete(charged(202).header("content-type", "text/plain")),
        Decision::Complete(charged(201)),
        Decision::Resume(point(2, "other")),
        resumed("other", "data of charged"),
        resumed("charged", "other data"),
    ];
    for decision in decisions() {
        let Doubt { seen, .. } = doubt(bench).await;
        bench.resolve(&seen, &decision).await.expect("resolve");
        for other in decisions().into_iter().chain(others.clone()).filter(|other| *other != decision) {
            assert_eq!(bench.resolve(&seen, &other).await, LOST, "{other:?} after {decision:?}");
        }
    }
}

pub(super) async fn resolve_is_never_taken_for_an_owners_step(bench: &Bench) {
    let same = Decision::Complete(answer("charged"));

    // The slow owner ends with the same answer: the next version, but no new token.
    let Doubt { owner, seen, .. } = doubt(bench).await;
    assert_eq!(bench.complete(&owner, &answer("charged")).await, Ok(()));
    assert_eq!(bench.resolve(&seen, &same).await, LOST);

    // The next owner ends with it: the next token, but a later version.
    let id = bench.id();
    let owner = bench.take(&id).await;
    bench.checkpoint(&owner, &point(1, "step"), Rerun::Always).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    let seen = bench.record(&id).await.expect("there is a record");
    let next = bench.take(&id).await;
    let resume = RecoveryPoint::new(2, "step", "data of step").expect("a valid recovery point");
    assert_eq!(
        bench.resolve(&seen, &Decision::Resume(resume)).await,
        LOST,
        "the point of old under its old number"
    );
    assert_eq!(bench.complete(&next, &answer("charged")).await, Ok(()));
    assert_eq!(bench.resolve(&seen, &same).await, LOST);
}

pub(super) async fn resolve_settles_only_what_is_in_doubt(bench: &Bench) {
    // At work; stale, and the next claim may run; past its mark's time, and at work; ended.
    let live = bench.id();
    let _owner = bench.take(&live).await;
    let stale = bench.id();
    let owner = bench.take(&stale).await;
    bench.checkpoint(&owner, &point(1, "step"), Rerun::Until(LEASE * 9)).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    let marked = bench.id();
    let owner = bench.take(&marked).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    let completed = bench.id();
    let owner = bench.take(&completed).await;
    bench.complete(&owner, &answer("done")).await.expect("complete");
    // In doubt until its slow owner ended it.
    let settled = bench.id();
    let owner = bench.take(&settled).await;
    bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.hand_on(&owner).await;
    bench.complete(&owner, &answer("slow")).await.expect("complete");
    let failed = bench.id();
    let owner = bench.take(&failed).await;
    bench.release(&owner).await.expect("release");
    for id in [live, stale, marked, completed, settled, failed] {
        let seen = bench.record(&id).await.expect("there is a record");
        let resume = Decision::Resume(point(seen.checkpoint + 1, "decided"));
        for decision in [Decision::Complete(answer("decided")), Decision::Fail, resume] {
            assert_eq!(bench.resolve(&seen, &decision).await, LOST, "{decision:?}");
        }
        assert_eq!(bench.record(&id).await, Some(seen));
    }
}

pub(super) async fn resolve_is_lost_when_the_record_moved(bench: &Bench) {
    for moved in 0..3 {
        let Doubt { id, owner, seen, .. } = doubt(bench).await;
        match moved {
            0 => bench.hand_on(&owner).await,
            1 => {
                let next = point(2, "moved");
                assert_eq!(bench.checkpoint(&owner, &next, Rerun::Never).await, Ok(()));
            }
            _ => {
                bench.renew(&owner, LEASE).await.expect("renew");
                bench.hand_on(&owner).await;
            }
        }
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::InDoubt { .. }), "it is in doubt all the same");
        for decision in decisions() {
            assert_eq!(bench.resolve(&seen, &decision).await, LOST, "{decision:?}");
        }
    }
}

pub(super) async fn resolve_is_of_one_operation(bench: &Bench) {
    let Doubt { seen, .. } = doubt(bench).await;
    let other = Record { operation: OperationId::random(), ..seen.clone() };
    let nowhere = Record { id: bench.id(), ..seen.clone() };
    let elsewhere = Record { id: key("another scope", seen.id.key().as_str()), ..seen.clone() };
    for decision in decisions() {
        assert_eq!(bench.resolve(&other, &decision).await, LOST, "{decision:?}");
        assert_eq!(bench.resolve(&nowhere, &decision).await, LOST, "{decision:?}");
        assert_eq!(bench.resolve(&elsewhere, &decision).await, LOST, "{decision:?}");
    }
    assert_eq!(bench.record(&nowhere.id).await, None);
}

pub(super) async fn resolve_shuts_the_old_owner_out(bench: &Bench) {
    for decision in decisions() {
        let Doubt { request, owner, seen, .. } = doubt(bench).await;
        bench.resolve(&seen, &decision).await.expect("resolve");
        all_lost(bench, &owner).await;
        let again = Step::Claim(request).call(&*bench.store).await;
        let fits = match (&decision, &again) {
            (Decision::Complete(_), Reply::Claim(Ok(ClaimOutcome::Completed(_)))) => true,
            (Decision::Fail, reply) => reply.claim().is_some_and(|claim| claim.origin() == Origin::Retried),
            (Decision::Resume(_), reply) => {
                reply.claim().is_some_and(|claim| claim.origin() == Origin::TakenOver)
            }
            (Decision::Complete(_), _) => false,
        };
        assert!(fits, "the old owner's claim, sent again after {decision:?}, was answered with {again:?}");
    }
}

pub(super) async fn resolve_numbers_a_resumption(bench: &Bench) {
    let Doubt { id, seen, .. } = doubt(bench).await;
    for number in [1, 3, 100] {
        assert_eq!(bench.resolve(&seen, &Decision::Resume(point(number, "off"))).await, INVALID, "{number}");
    }
    assert_eq!(bench.record(&id).await, Some(seen));
}

pub(super) async fn resolve_counts_retention_from_the_decision(bench: &Bench) {
    for decision in [Decision::Complete(answer("charged")), Decision::Fail] {
        let Doubt { id, .. } = doubt(bench).await;
        bench.elapse(RETENTION * 50).await;
        let seen = bench.record(&id).await.expect("there is a record");
        bench.resolve(&seen, &decision).await.expect("resolve");
        let record = bench.record(&id).await.expect("there is a record");
        let ended = record.state.ended_at().expect("it has ended");
        assert_eq!(record.expires_at.duration_since(ended).ok(), Some(RETENTION));
        bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
        let outcome = bench.ask(&id).await;
        let kept = match &outcome {
            ClaimOutcome::Completed(_) => true,
            ClaimOutcome::Claimed(claim) => claim.origin() == Origin::Retried,
            _ => false,
        };
        assert!(kept, "{outcome:?}");
    }
}

pub(super) async fn resolve_resumes_without_moving_the_expiry(bench: &Bench) {
    let Doubt { id, .. } = doubt(bench).await;
    bench.elapse(RETENTION * 50).await;
    let seen = bench.record(&id).await.expect("there is a record");
    assert_eq!(bench.resolve(&seen, &Decision::Resume(point(2, "charged"))).await, Ok(()));
    assert_eq!(bench.record(&id).await.map(|record| record.expires_at), Some(seen.expires_at));
}

pub(super) async fn resolve_refuses_absurd_retention(bench: &Bench) {
    let Doubt { seen, .. } = doubt(bench).await;
    for retention in [Duration::MAX, MAX_SPAN + Duration::from_millis(1)] {
        let step = Step::Resolve(Box::new(seen.clone()), Decision::Fail, retention);
        assert_eq!(bench.write(step).await, INVALID, "{retention:?}");
    }
}

pub(super) async fn resolve_by_two_lets_one_decide(bench: &Bench) {
    for _ in 0..60 {
        let Doubt { seen, .. } = doubt(bench).await;
        let step = |decision| Step::Resolve(Box::new(seen.clone()), decision, RETENTION);
        let replies = bench.race(&[step(Decision::Complete(answer("charged"))), step(Decision::Fail)]).await;
        let decided = replies.iter().filter(|reply| matches!(reply, Reply::Write(Ok(())))).count();
        assert_eq!(decided, 1, "one decision");
    }
}

pub(super) async fn resolve_meets_a_late_owner(bench: &Bench) {
    for round in 0..120 {
        let Doubt { owner, seen, request, .. } = doubt(bench).await;
        let late = match round % 4 {
            0 => Step::Complete(owner, answer("slow"), RETENTION),
            1 => Step::Renew(owner, LEASE),
            2 => Step::Checkpoint(owner, point(2, "slow"), Rerun::Always),
            _ => Step::Claim(request),
        };
        let decision = if round % 8 < 4 { Decision::Fail } else { Decision::Resume(point(2, "decided")) };
        bench.race(&[late, Step::Resolve(Box::new(seen), decision, RETENTION)]).await;
    }
}
