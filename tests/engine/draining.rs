//! A process that stops hands on what it can.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{Answer, ErrorKind, Operation, Policy, StoredResponse, conformance::Call};

use crate::rig::{LEASE, Ran, Rig, engine_error, executed, opaque, pay, resumable};

const GRACE: Duration = Duration::from_secs(2);

async fn hanging(rig: &Rig, policy: Policy) -> tokio::task::JoinHandle<Ran> {
    let before = rig.runs();
    let run = tokio::spawn({
        let rig = rig.clone();
        async move {
            rig.run(policy.clone(), async |_| pending::<crate::rig::Result<StoredResponse>>().await).await
        }
    });
    rig.started(before + 1).await;
    run
}

#[tokio::test(start_paused = true)]
async fn w08_a_draining_engine_takes_nothing_on() {
    let rig = Rig::new();
    assert_eq!(rig.engine.drain(GRACE).await, 0);
    let refused = rig.run(resumable(), pay).await;
    assert_eq!(engine_error(&refused), Some(ErrorKind::Unavailable), "{refused:?}");
    assert_eq!((rig.runs(), rig.faulty.seen(Call::Claim)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn w08_runs_may_end_by_themselves_within_the_grace() {
    let rig = Rig::new();
    let run = tokio::spawn({
        let rig = rig.clone();
        async move {
            rig.run(resumable(), async |op: Operation| {
                tokio::time::timeout(GRACE / 2, pending::<()>()).await.expect_err("time passes");
                pay(op).await
            })
            .await
        }
    });
    rig.started(1).await;
    assert_eq!(rig.engine.drain(GRACE).await, 0);
    assert!(executed(&run.await.expect("no panic"), "paid"));
}

#[tokio::test(start_paused = true)]
async fn b176_resumable_work_is_dropped_and_handed_on() {
    let rig = Rig::new();
    let run = hanging(&rig, resumable()).await;
    assert_eq!(rig.engine.drain(GRACE).await, 0);
    let stopped = run.await.expect("no panic");
    assert_eq!(engine_error(&stopped), Some(ErrorKind::Unavailable), "{stopped:?}");
    assert!(
        executed(&rig.run_on(&rig.other(), resumable(), pay).await, "paid"),
        "the next request resumes at once"
    );
}

#[tokio::test(start_paused = true)]
async fn b176_opaque_work_is_left_to_its_lease() {
    let rig = Rig::new();
    let run = hanging(&rig, opaque()).await;
    assert_eq!(rig.engine.drain(GRACE).await, 1);
    assert!(matches!(rig.run_on(&rig.other(), opaque(), pay).await, Ok(Answer::InProgress { .. })));
    run.abort();
    rig.clock.advance(LEASE * 2);
    assert_eq!(rig.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn w08_those_that_wait_for_a_place_are_refused() {
    let mut rig = Rig::new();
    rig.engine = rig.engine.max_running(1);
    let run = hanging(&rig, resumable()).await;
    let waiting = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable(), pay).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(rig.engine.drain(GRACE).await, 0);
    assert_eq!(engine_error(&waiting.await.expect("no panic")), Some(ErrorKind::Unavailable));
    assert_eq!(engine_error(&run.await.expect("no panic")), Some(ErrorKind::Unavailable));
    assert_eq!(rig.faulty.seen(Call::Claim), 1);
}

#[tokio::test(start_paused = true)]
async fn s21_no_more_than_max_running_work_at_once() {
    let mut rig = Rig::new();
    rig.engine = rig.engine.max_running(1);
    let run = hanging(&rig, resumable()).await;
    let mut second = Box::pin(rig.run(resumable(), pay));
    for _ in 0..16 {
        assert!(futures_util::poll!(&mut second).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.faulty.seen(Call::Claim), 1, "the second has not claimed");
    drop(second);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn b176_opaque_work_is_not_dropped() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (rig, dropped) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
    let guard = Guard(Arc::clone(&dropped));
    let run = tokio::spawn({
        let rig = rig.clone();
        async move {
            rig.run(opaque(), async move |op: Operation| {
                let _inside = guard;
                pending::<()>().await;
                pay(op).await
            })
            .await
        }
    });
    rig.started(1).await;
    assert_eq!(rig.engine.drain(GRACE).await, 1);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the black box was dropped in the middle of its effect");
    run.abort();
}
