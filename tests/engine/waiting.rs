//! A duplicate may wait for the owner's result.

use std::{convert::Infallible, sync::Arc, time::Duration};

use idem::{Answer, KeyId, Operation, Scope, StoredResponse, conformance::Call};
use tokio::sync::Notify;

use crate::rig::{Rig, answer, executed, pay, replayed, resumable, same};

const WAIT: Duration = Duration::from_secs(5);

/// Starts a run that pays once it is told.
async fn owner(rig: &Rig) -> (tokio::task::JoinHandle<crate::rig::Ran>, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let (wait, owner) = (Arc::clone(&go), rig.clone());
    let run = tokio::spawn(async move {
        owner
            .run(resumable(), async move |op: Operation| {
                wait.notified().await;
                pay(op).await
            })
            .await
    });
    rig.started(1).await;
    (run, go)
}

#[tokio::test(start_paused = true)]
async fn s21_a_waiting_duplicate_gets_the_owners_result() {
    let rig = Rig::new();
    let (run, go) = owner(&rig).await;
    let waiter = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable().wait(WAIT), pay).await }
    });
    rig.elapse(WAIT / 2).await;
    go.notify_one();
    assert!(executed(&run.await.expect("no panic"), "paid"));
    assert!(replayed(&waiter.await.expect("no panic"), "paid"));
    assert_eq!(rig.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn s21_the_wait_is_bounded() {
    let rig = Rig::new();
    let (run, go) = owner(&rig).await;
    let before = tokio::time::Instant::now();
    let waited = rig.run(resumable().wait(WAIT), pay).await;
    assert!(matches!(waited, Ok(Answer::InProgress { .. })), "{waited:?}");
    assert!((WAIT..WAIT * 2).contains(&before.elapsed()), "{:?}", before.elapsed());
    go.notify_one();
    assert!(executed(&run.await.expect("no panic"), "paid"));
}

#[tokio::test(start_paused = true)]
async fn s21_a_waiting_duplicate_holds_no_place() {
    let mut rig = Rig::new();
    rig.engine = rig.engine.max_running(2);
    let (run, go) = owner(&rig).await;
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move { rig.run(resumable().wait(WAIT), pay).await })
        })
        .collect();
    rig.elapse(WAIT / 4).await;
    assert!(rig.faulty.seen(Call::Claim) > 8, "they took turns in the one place that is left");
    go.notify_one();
    assert!(executed(&run.await.expect("no panic"), "paid"));
    for waiter in waiters {
        assert!(replayed(&waiter.await.expect("no panic"), "paid"));
    }
}

#[tokio::test(start_paused = true)]
async fn s21_a_waiter_that_hung_up_stops_asking() {
    let rig = Rig::new();
    let (run, go) = owner(&rig).await;
    let waiter = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable().wait(WAIT), pay).await }
    });
    rig.elapse(Duration::from_millis(500)).await;
    waiter.abort();
    rig.elapse(Duration::from_secs(1)).await;
    let asked = rig.faulty.seen(Call::Claim);
    rig.elapse(WAIT).await;
    assert_eq!(rig.faulty.seen(Call::Claim), asked);
    go.notify_one();
    assert!(executed(&run.await.expect("no panic"), "paid"));
}

#[tokio::test(start_paused = true)]
async fn s21_a_waiter_runs_when_the_owner_gave_up() {
    let rig = Rig::new();
    let go = Arc::new(Notify::new());
    let (wait, owner) = (Arc::clone(&go), rig.clone());
    let run = tokio::spawn(async move {
        owner
            .run(resumable(), async move |_| {
                wait.notified().await;
                Ok(answer(503, "try again"))
            })
            .await
    });
    rig.started(1).await;
    let waiter = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable().wait(WAIT), pay).await }
    });
    rig.elapse(Duration::from_millis(500)).await;
    go.notify_one();
    assert!(matches!(run.await.expect("no panic"), Ok(Answer::Released)));
    assert!(executed(&waiter.await.expect("no panic"), "paid"));
}

/// The only place here is taken while the duplicate sleeps between two polls of a key that another process works on.
#[tokio::test(start_paused = true)]
async fn s21_a_duplicate_waits_no_longer_for_a_place_than_for_the_result() {
    let mut rig = Rig::new();
    rig.engine = rig.engine.max_running(1);
    let elsewhere = Rig { engine: rig.other(), ..rig.clone() };
    let (run, go) = owner(&elsewhere).await;
    let duplicate = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable().wait(WAIT), pay).await }
    });
    while rig.faulty.seen(Call::Claim) == 0 {
        tokio::task::yield_now().await;
    }
    let other_key = KeyId::new(Scope::new("tenant 7").expect("valid"), "key-2".parse().expect("valid"));
    let engine = rig.engine.clone();
    let hang = async |_| std::future::pending::<Result<StoredResponse, Infallible>>().await;
    let blocker = tokio::spawn(async move { engine.run(other_key, same(), &resumable(), hang).await });
    rig.elapse(WAIT).await;
    assert!(duplicate.is_finished(), "it waits for a place");
    assert!(matches!(duplicate.await.expect("no panic"), Ok(Answer::InProgress { .. })));
    blocker.abort();
    go.notify_one();
    assert!(executed(&run.await.expect("no panic"), "paid"));
}
