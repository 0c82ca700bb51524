//! Calls whose future is dropped: as if the process had died there, and not worse.

use std::{future::poll_fn, task::Poll};

use futures_util::future::join_all;

use super::scene::{Scene, arrange};
use crate::{
    bench::{Bench, answer, request},
    judge::{Window, explain},
    step::{Reply, Step},
};

/// No store polls a call more often than this before it answers; if one does, the first so many are tried.
const MOST_POLLS: usize = 40;

/// Polls a call so often and then drops it; its answer, if it had one by then.
async fn drop_after<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = Box::pin(call);
    let mut polled = 0;
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if polled == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops the call at each of its polls and makes it again.
///
/// A dropped call happened, did not happen, or happens later: its second sending answers as if it stood alone, before or
/// after the first.
async fn dropped_at_each_poll(bench: &Bench, scene: Scene) {
    for polls in 0..MOST_POLLS {
        let step = arrange(bench, scene).await;
        let before = bench.record(step.id()).await;
        let opened = bench.now().await;
        let finished = drop_after(polls, step.call(&*bench.store)).await.is_some();
        let again = step.insist(&*bench.store).await;
        let after = bench.record(step.id()).await;
        let window = Window { before: opened, after: bench.now().await };
        let seen = Some(&again);
        let histories: [&[(&Step, Option<&Reply>)]; 3] =
            [&[(&step, seen)], &[(&step, None), (&step, seen)], &[(&step, seen), (&step, None)]];
        let verdicts: Vec<_> = histories
            .iter()
            .map(|history| explain(before.as_ref(), history, after.as_ref(), window))
            .take_while(Result::is_err)
            .collect();
        assert!(
            verdicts.len() < histories.len(),
            "{scene:?} dropped after {polls} polls and sent again: {verdicts:#?}\n  answer: {again:?}\n  record before: {before:?}\n  record after: {after:?}"
        );
        assert_eq!(again.error(), None, "{scene:?} dropped after {polls} polls and sent again");
        if finished {
            return;
        }
    }
}

pub(super) async fn cancel_of_a_first_claim(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::First).await;
}

pub(super) async fn cancel_of_an_expired_claim(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Expired).await;
}

pub(super) async fn cancel_of_a_retry(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Retry).await;
}

pub(super) async fn cancel_of_a_takeover(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Takeover).await;
}

pub(super) async fn cancel_of_a_renewal(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Renewal).await;
    dropped_at_each_poll(bench, Scene::HandOn).await;
}

pub(super) async fn cancel_of_a_checkpoint(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Mark).await;
}

pub(super) async fn cancel_of_a_completion(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Completion).await;
}

pub(super) async fn cancel_of_a_release(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Release).await;
}

pub(super) async fn cancel_of_a_decision(bench: &Bench) {
    for scene in [Scene::Completed, Scene::Failed, Scene::Resumed] {
        dropped_at_each_poll(bench, scene).await;
    }
}

pub(super) async fn cancel_of_a_sweep(bench: &Bench) {
    dropped_at_each_poll(bench, Scene::Sweep).await;
}

pub(super) async fn cancel_of_a_hundred_leaves_the_store_answering(bench: &Bench) {
    let owner = bench.take(&bench.id()).await;
    let ids: Vec<_> = (0..100).map(|_| bench.id()).collect();
    // One after the other, then all at once.
    for (number, id) in ids.iter().enumerate() {
        drop_after(1 + number % 3, Step::Claim(request(id)).call(&*bench.store)).await;
    }
    let claims: Vec<_> = (0..100).map(|_| Step::Claim(request(&bench.id()))).collect();
    drop_after(1, join_all(claims.iter().map(|claim| claim.call(&*bench.store)))).await;
    assert_eq!(bench.complete(&owner, &answer("done")).await, Ok(()));
    for _ in 0..30 {
        bench.take(&bench.id()).await;
    }
}
