//! How runs end: what is stored and what the caller is told.

use std::sync::Arc;

use idem::{Answer, ErrorKind, Maintain, Operation, RunError, State, conformance::Call};
use tokio::sync::{Notify, oneshot};

use crate::rig::{LEASE, Rig, answer, executed, id, opaque, pay, replayed, resumable};

#[tokio::test]
async fn s03_the_claim_is_committed_before_the_work_starts() {
    let rig = Rig::new();
    let store = rig.store.clone();
    let ran = rig
        .run(resumable(), async move |op: Operation| {
            let record = store.find(&id()).await?.ok_or("no record while the work runs")?;
            assert_eq!((record.state, record.token), (State::InProgress, op.fence().token));
            Ok(answer(200, "seen"))
        })
        .await;
    assert!(executed(&ran, "seen"), "{ran:?}");
}

#[tokio::test]
async fn s06_every_retry_gets_the_first_answer() {
    let rig = Rig::new();
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
    for _ in 0..3 {
        assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
    }
    assert_eq!(rig.runs(), 1);
}

#[tokio::test]
async fn s12_what_the_work_returns_is_judged_by_policy_and_status() {
    // (opaque, status, stored)
    let rows = [
        (false, 200, true),
        (false, 404, true),
        (false, 409, true),
        (false, 408, false),
        (false, 425, false),
        (false, 429, false),
        (false, 500, false),
        (false, 503, false),
        (true, 200, true),
        (true, 429, true),
        (true, 500, true),
    ];
    for (is_opaque, status, stored) in rows {
        let rig = Rig::new();
        let policy = if is_opaque { opaque() } else { resumable() };
        let ran = rig.run(policy.clone(), async move |_| Ok(answer(status, "judged"))).await;
        if stored {
            assert!(executed(&ran, "judged"), "{status} {ran:?}");
            assert!(replayed(&rig.run(policy.clone(), pay).await, "judged"), "{status}");
        } else {
            assert!(matches!(ran, Ok(Answer::Released)), "{status} {ran:?}");
            assert!(matches!(rig.record().await.state, State::Failed { .. }), "{status}");
            assert!(executed(&rig.run(policy.clone(), pay).await, "paid"), "{status}");
        }
    }
}

#[tokio::test]
async fn s12_a_failed_or_panicking_resumable_run_may_be_tried_again() {
    let rig = Rig::new();
    let ran = rig.run::<_, _, idem::Completed>(resumable(), async |_| Err("gateway down".into())).await;
    assert!(matches!(&ran, Err(RunError::Work(error)) if error.to_string() == "gateway down"), "{ran:?}");
    let ran = rig.run::<_, _, idem::Completed>(resumable(), async |_| panic!("a bug")).await;
    assert!(matches!(ran, Err(RunError::Panicked)), "{ran:?}");
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
    assert_eq!((rig.runs(), rig.record().await.token), (3, 3));
}

#[tokio::test]
async fn a_committed_answer_is_what_is_sent_whatever_the_work_returns_after_it() {
    for policy in [resumable(), opaque()] {
        for ending in 0..3 {
            let rig = Rig::new();
            let ran = rig
                .run(policy.clone(), async move |op: Operation| {
                    let _committed = op.complete(answer(201, "committed")).await?;
                    match ending {
                        0 => Ok(answer(500, "something else")),
                        1 => Err("failed after the commit".into()),
                        _ => panic!("after the commit"),
                    }
                })
                .await;
            assert!(executed(&ran, "committed"), "{ran:?}");
            assert!(replayed(&rig.run(policy.clone(), pay).await, "committed"));
        }
    }
}

#[tokio::test]
async fn an_explicit_release_is_believed() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async |op: Operation| Ok(op.release().await?)).await;
    assert!(matches!(ran, Ok(Answer::Released)), "{ran:?}");
    assert!(matches!(rig.record().await.state, State::Failed { .. }));
}

#[tokio::test]
async fn w01_work_goes_on_when_its_caller_is_gone() {
    let rig = Rig::new();
    let (started, has_started) = oneshot::channel();
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let (done, is_done) = oneshot::channel();
    let run = rig.run(resumable(), async move |op: Operation| {
        let _ = started.send(());
        gate.notified().await;
        let completed = pay(op).await;
        let _ = done.send(());
        completed
    });
    tokio::select! {
        biased;
        ran = run => panic!("the work waits: {ran:?}"),
        result = has_started => result.expect("it starts"),
    }
    // `run` is dropped here: the client hung up.
    go.notify_one();
    is_done.await.expect("the work goes on");
    assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
    assert_eq!(rig.runs(), 1);
}

#[tokio::test]
async fn s15_an_end_whose_future_was_dropped_still_stands() {
    let rig = Rig::new();
    let held = rig.faulty.hold(Call::Complete);
    let run = tokio::spawn({
        let rig = rig.clone();
        async move {
            rig.run(resumable(), async |op: Operation| {
                // An inner timeout drops the handler's own call in mid-flight.
                let mut end = Box::pin(op.complete(answer(201, "paid")));
                assert!(futures_util::poll!(&mut end).is_pending());
                drop(end);
                Ok(answer(504, "timed out"))
            })
            .await
        }
    });
    held.release();
    let ran = run.await.expect("no panic");
    assert!(executed(&ran, "paid"), "{ran:?}");
    assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
}

/// An inner timeout dropped the handler's own end, and then the handler lingers past its lease.
#[tokio::test(start_paused = true)]
async fn s15_an_end_whose_future_was_dropped_does_not_wait_for_the_work() {
    for release in [false, true] {
        let rig = Rig::new();
        let held = rig.faulty.hold(if release { Call::Release } else { Call::Complete });
        let (dropped, is_dropped) = oneshot::channel();
        let go = Arc::new(Notify::new());
        let wait = Arc::clone(&go);
        let run = tokio::spawn({
            let rig = rig.clone();
            async move {
                rig.run(resumable(), async move |op: Operation| {
                    let mut end = Box::pin(async move {
                        if release {
                            drop(op.release().await);
                        } else {
                            drop(op.complete(answer(201, "paid")).await);
                        }
                    });
                    assert!(futures_util::poll!(&mut end).is_pending());
                    drop(end);
                    let _ = dropped.send(());
                    wait.notified().await;
                    Ok(answer(504, "timed out"))
                })
                .await
            }
        });
        is_dropped.await.expect("it starts");
        held.release();
        rig.elapse(LEASE * 2).await;
        let other = rig.run_on(&rig.other(), resumable(), pay).await;
        go.notify_one();
        let ran = run.await.expect("no panic");
        if release {
            assert!(executed(&other, "paid") && matches!(ran, Ok(Answer::Released)), "{other:?} {ran:?}");
        } else {
            assert!(replayed(&other, "paid") && executed(&ran, "paid"), "{other:?} {ran:?}");
            assert_eq!(rig.runs(), 1);
        }
    }
}

#[tokio::test]
async fn an_operation_that_outlives_its_work_is_left_behind() {
    let rig = Rig::new();
    let (hand_out, handed_out) = oneshot::channel();
    let ran = rig
        .run(resumable(), async move |op: Operation| {
            hand_out.send(op).map_err(|_| "nobody takes it")?;
            Ok(answer(202, "accepted"))
        })
        .await;
    assert!(executed(&ran, "accepted"), "{ran:?}");
    let late = handed_out.await.expect("handed out").complete(answer(201, "late")).await;
    assert_eq!(late.expect_err("left behind").kind(), ErrorKind::ClaimLost);
    assert!(replayed(&rig.run(resumable(), pay).await, "accepted"));
}

#[tokio::test]
async fn r11_an_answer_over_the_limit_is_sent_whole_and_not_kept() {
    let policy = resumable().max_response(4);
    for explicit in [true, false] {
        let rig = Rig::new();
        let ran = rig
            .run(policy.clone(), async move |op: Operation| {
                let large = answer(201, "larger than four bytes");
                Ok(if explicit { idem::Ending::from(op.complete(large).await?) } else { large.into() })
            })
            .await;
        assert!(executed(&ran, "larger than four bytes"), "{ran:?}");
        let retry = rig.run(policy.clone(), pay).await;
        let Ok(Answer::Replayed(tombstone)) = retry else { panic!("ran again: {retry:?}") };
        assert_eq!(tombstone.status(), 409);
        assert_eq!(rig.runs(), 1);
    }
}

#[tokio::test]
async fn e08_the_answer_leaves_after_its_commit() {
    let rig = Rig::new();
    let held = rig.faulty.hold(Call::Complete);
    let mut run = Box::pin(rig.run(resumable(), pay));
    for _ in 0..64 {
        assert!(futures_util::poll!(&mut run).is_pending(), "the commit is held");
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.record().await.state, State::InProgress);
    held.release();
    assert!(executed(&run.await, "paid"));
}

#[tokio::test]
async fn s01_of_fifty_callers_at_once_one_runs() {
    let rig = Rig::new();
    let start = Arc::new(tokio::sync::Barrier::new(50));
    let calls = (0..50).map(|_| {
        let (rig, start) = (rig.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            rig.run(resumable(), pay).await
        })
    });
    for ran in futures_util::future::join_all(calls).await {
        let ran = ran.expect("no panic");
        assert!(
            executed(&ran, "paid") || replayed(&ran, "paid") || matches!(ran, Ok(Answer::InProgress { .. })),
            "{ran:?}"
        );
    }
    assert_eq!(rig.runs(), 1);
}

/// Once committed, it would be answered with an error for as long as it is kept.
#[tokio::test(start_paused = true)]
async fn r07_a_header_line_that_no_message_can_carry_is_refused_before_it_is_committed() {
    let lines = [("location", "/charges/7\r\nset-cookie: a=b"), ("a name", "x"), ("", "x"), ("etag", "a\0b")];
    for (name, value) in lines {
        let complete =
            async move |op: Operation| Ok(op.complete(answer(201, "paid").header(name, value)).await?);
        let rig = Rig::new();
        assert!(rig.run(resumable(), complete).await.is_err(), "{name:?}");
        assert!(matches!(rig.record().await.state, State::Failed { .. }), "the next request runs");

        let rig = Rig::new();
        assert!(rig.run(opaque(), complete).await.is_err(), "{name:?}");
        assert_eq!(rig.record().await.state, State::InProgress, "left: it may have had an effect");
    }
    let fine = async |op: Operation| {
        Ok(op.complete(answer(201, "paid").header("x-a_b", "tab\tand \u{e9}").header("empty", "")).await?)
    };
    assert!(executed(&Rig::new().run(resumable(), fine).await, "paid"));
}

/// The same check holds for an answer that is only returned.
#[tokio::test(start_paused = true)]
async fn r07_a_returned_answer_that_no_message_can_carry_is_not_committed() {
    for (policy, later) in
        [(resumable(), State::Failed { ended_at: Rig::new().clock.now() }), (opaque(), State::InProgress)]
    {
        let rig = Rig::new();
        let ran = rig.run(policy, async |_| Ok(answer(201, "paid").header("location", "a\r\nb"))).await;
        assert_eq!(crate::rig::engine_error(&ran), Some(ErrorKind::Invalid), "{ran:?}");
        assert_eq!(rig.record().await.state, later);
    }
}
