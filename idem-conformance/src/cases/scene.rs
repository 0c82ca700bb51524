//! Records for which a call does something, and that call: what is lost, delayed or dropped in other cases.

use idem_core::{Decision, KeyId, Rerun};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, point, request},
    step::Step,
};

/// A call that changes its record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scene {
    /// A claim of a free key.
    First,
    /// A claim of an expired record.
    Expired,
    /// A claim of a released record.
    Retry,
    /// A claim of a stale record.
    Takeover,
    /// A claim that is sent again.
    Again,
    Renewal,
    HandOn,
    Mark,
    Completion,
    Release,
    /// The three decisions about what is in doubt.
    Completed,
    Failed,
    Resumed,
    Sweep,
}

impl Scene {
    /// Each that is about one key.
    pub(super) const OF_ONE_KEY: [Self; 13] = [
        Self::First,
        Self::Expired,
        Self::Retry,
        Self::Takeover,
        Self::Again,
        Self::Renewal,
        Self::HandOn,
        Self::Mark,
        Self::Completion,
        Self::Release,
        Self::Completed,
        Self::Failed,
        Self::Resumed,
    ];
}

/// Makes the record and returns the call.
pub(super) async fn arrange(bench: &Bench, scene: Scene) -> Step {
    arrange_at(bench, scene, bench.id()).await
}

/// Makes the record at a key that is free.
pub(super) async fn arrange_at(bench: &Bench, scene: Scene, id: KeyId) -> Step {
    let first = request(&id);
    if matches!(scene, Scene::First) {
        return Step::Claim(first);
    }
    let owner = bench.take_by(&first).await;
    match scene {
        Scene::Expired | Scene::Sweep => {
            bench.complete(&owner, &answer("old")).await.expect("complete");
            bench.elapse(RETENTION + LEASE + MARGIN).await;
        }
        Scene::Retry => bench.release(&owner).await.expect("release"),
        Scene::Takeover => bench.hand_on(&owner).await,
        Scene::Completed | Scene::Failed | Scene::Resumed => {
            bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
            bench.hand_on(&owner).await;
        }
        Scene::First
        | Scene::Again
        | Scene::Renewal
        | Scene::HandOn
        | Scene::Mark
        | Scene::Completion
        | Scene::Release => {}
    }
    let decide = async |decision| {
        let seen = bench.record(&id).await.expect("there is a record");
        Step::Resolve(Box::new(seen), decision, RETENTION)
    };
    match scene {
        Scene::First | Scene::Expired | Scene::Retry | Scene::Takeover => Step::Claim(request(&id)),
        Scene::Again => Step::Claim(first),
        Scene::Renewal => Step::Renew(owner, LEASE * 2),
        Scene::HandOn => Step::Renew(owner, std::time::Duration::ZERO),
        Scene::Mark => Step::Checkpoint(owner, point(1, "charging"), Rerun::Never),
        Scene::Completion => Step::Complete(owner, answer("done"), RETENTION),
        Scene::Release => Step::Release(owner, RETENTION),
        Scene::Completed => decide(Decision::Complete(answer("charged"))).await,
        Scene::Failed => decide(Decision::Fail).await,
        Scene::Resumed => decide(Decision::Resume(point(2, "charged"))).await,
        Scene::Sweep => Step::Sweep(id),
    }
}
