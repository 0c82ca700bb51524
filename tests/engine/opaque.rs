//! A black box is marked before it starts, and never starts twice.

use idem::{
    Answer, Decision, ErrorKind, Maintain, Operation, Record, RecoveryPoint, RerunUntil, RunError, State,
    StoreErrorKind, StoredResponse, conformance::Call,
};

use crate::rig::{LEASE, Rig, answer, engine_error, executed, opaque, pay, replayed, resumable};

#[tokio::test(start_paused = true)]
async fn s02_the_mark_is_committed_before_the_work_starts() {
    let rig = Rig::new();
    let seen = rig.clone();
    let ran = rig
        .run(opaque(), async move |_| {
            let record = seen.record().await;
            assert_eq!((record.rerun_until, record.checkpoint), (RerunUntil::Never, 1));
            assert_eq!(record.point.as_ref().map(RecoveryPoint::name), Some("handler"));
            Ok(answer(201, "paid"))
        })
        .await;
    assert!(executed(&ran, "paid"), "{ran:?}");
}

/// Leaves an opaque run as a crash or a panic in it does, past its lease.
async fn in_doubt() -> Rig {
    let rig = Rig::new();
    let ran = rig.run::<_, _, StoredResponse>(opaque(), async |_| panic!("after the charge, perhaps")).await;
    assert!(matches!(ran, Err(RunError::Panicked)), "{ran:?}");
    assert_eq!(rig.record().await.state, State::InProgress, "left, not released");
    assert!(matches!(rig.run(opaque(), pay).await, Ok(Answer::InProgress { .. })));
    rig.clock.advance(LEASE);
    rig
}

#[tokio::test(start_paused = true)]
async fn s10_a_panic_in_a_black_box_is_in_doubt_and_never_run_again() {
    let rig = in_doubt().await;
    for policy in [opaque(), resumable()] {
        assert!(matches!(rig.run(policy.clone(), pay).await, Ok(Answer::InDoubt { .. })));
    }
    assert_eq!(rig.runs(), 1);
    let stuck = rig.store.stuck(10).await.expect("memory answers");
    assert!(stuck.len() == 1 && stuck[0].in_doubt);
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_doubt_is_decided_with_an_answer() {
    let rig = in_doubt().await;
    let seen = rig.record().await;
    rig.store.resolve(&seen, &Decision::Complete(answer(201, "looked up")), LEASE).await.expect("in doubt");
    assert!(replayed(&rig.run(opaque(), pay).await, "looked up"));
    assert_eq!(rig.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_doubt_that_did_not_happen_runs_again_behind_its_number() {
    let rig = in_doubt().await;
    let seen = rig.record().await;
    let decision = Decision::did_not_happen(&seen).expect("its handler is marked");
    rig.store.resolve(&seen, &decision, LEASE).await.expect("in doubt");
    assert!(executed(&rig.run(opaque(), pay).await, "paid"));
    let record = rig.record().await;
    assert_eq!((rig.runs(), record.checkpoint, record.operation), (2, 3, seen.operation));
    assert!(Decision::did_not_happen(&Record { point: None, ..seen }).is_err(), "nothing is marked");
}

#[tokio::test(start_paused = true)]
async fn an_opaque_failure_is_told_and_left() {
    let rig = Rig::new();
    let ran = rig.run::<_, _, StoredResponse>(opaque(), async |_| Err("timed out".into())).await;
    assert!(matches!(ran, Err(RunError::Work(_))), "{ran:?}");
    rig.clock.advance(LEASE);
    assert!(matches!(rig.run(opaque(), pay).await, Ok(Answer::InDoubt { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_opaque_operation_is_not_released() {
    let rig = Rig::new();
    let ran = rig
        .run(opaque(), async |op: Operation| {
            assert_eq!(op.release().await.expect_err("refused").kind(), ErrorKind::Invalid);
            Ok(answer(200, "carried on"))
        })
        .await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Invalid), "{ran:?}");
    rig.clock.advance(LEASE);
    assert!(matches!(rig.run(opaque(), pay).await, Ok(Answer::InDoubt { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_mark_whose_reply_was_lost_is_settled() {
    let rig = Rig::new();
    rig.faulty.lose_reply(Call::Checkpoint);
    rig.faulty.lose_request(Call::Checkpoint);
    assert!(executed(&rig.run(opaque(), pay).await, "paid"));
    assert_eq!(rig.record().await.checkpoint, 1);
}

#[tokio::test(start_paused = true)]
async fn s02_without_its_mark_the_work_does_not_start_and_the_key_is_free() {
    let rig = Rig::new();
    let policy = opaque();
    let late = rig.faulty.delay(Call::Checkpoint);
    rig.faulty.fail(Call::Checkpoint, StoreErrorKind::Corrupt);
    let ran = rig.run(policy.clone(), pay).await;
    assert_eq!((engine_error(&ran), rig.runs()), (Some(ErrorKind::Corrupt), 0), "{ran:?}");
    // The mark was taken back with a higher number: its late landing changes nothing.
    let before = rig.record().await;
    assert_eq!((before.rerun_until, before.checkpoint), (RerunUntil::Always, 2));
    let _ = late.land().await;
    assert_eq!(rig.record().await, before);
    assert!(executed(&rig.run(policy.clone(), pay).await, "paid"), "handed on at once");
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_finds_another_owner_runs_nothing() {
    let rig = Rig::new();
    let mark = rig.faulty.hold(Call::Checkpoint);
    let run = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(opaque(), pay).await }
    });
    while rig.faulty.seen(Call::Checkpoint) == 0 {
        tokio::task::yield_now().await;
    }
    rig.clock.advance(LEASE);
    assert!(executed(&rig.run_on(&rig.other(), opaque(), pay).await, "paid"));
    mark.release();
    assert!(matches!(run.await.expect("no panic"), Ok(Answer::InProgress { .. })));
    assert_eq!(rig.runs(), 1);
}

/// A store that takes the mark in and says nothing, to the withdrawal neither, holds nobody for ever.
#[tokio::test(start_paused = true)]
async fn s02_a_mark_that_is_never_answered_ends_in_time_and_nothing_runs() {
    let rig = Rig::new();
    let _silent = (rig.faulty.hold(Call::Checkpoint), rig.faulty.hold(Call::Checkpoint));
    let ran = tokio::time::timeout(LEASE * 10, rig.run(opaque(), pay)).await.expect("it ends in time");
    assert_eq!((engine_error(&ran), rig.runs()), (Some(ErrorKind::Unavailable), 0), "{ran:?}");
}
