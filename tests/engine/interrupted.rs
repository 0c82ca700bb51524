//! Effects that are dropped, or cannot be settled, at each of their steps.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, Doubt, Effect, ErrorKind, Fault, Operation, RerunUntil, RunError, State,
    StoreErrorKind, StoredResponse,
    conformance::{Call, Held},
};
use tokio::{sync::oneshot, time::timeout};

use crate::gateway::{KEYED, ONCE, WINDOW, work_error};
use crate::rig::{LEASE, Ran, Result, Rig, answer, engine_error, executed, resumable};

/// Long enough for whatever does not wait for somebody.
const SOON: Duration = Duration::from_millis(1);

fn hides() -> Fault {
    std::io::Error::other("the connection broke").into()
}

fn refuses() -> Fault {
    Fault::not_done(std::io::Error::other("nothing was sent"))
}

/// A later run, that calls once more if it may.
async fn again(rig: &Rig, effect: Effect, calls: &Arc<AtomicUsize>) -> Ran {
    let calls = Arc::clone(calls);
    rig.run(resumable(), async move |mut op: Operation| {
        let call = async |_| Ok(calls.fetch_add(1, Ordering::SeqCst) + 1);
        let number: usize = op.effect("charge", effect, call).await?;
        Ok(op.complete(StoredResponse::json(201, &number)?).await?)
    })
    .await
}

/// Calls until the answer is that it may have been done, and fails.
async fn until_unknown(op: &mut Operation) -> Result<StoredResponse> {
    loop {
        let told = op.effect("charge", KEYED, async |_| Err::<usize, _>(hides())).await;
        if told.is_err_and(|error| error.kind() == ErrorKind::EffectUnknown) {
            return Err("the provider is away".into());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s13_a_first_mark_that_was_dropped_does_not_open_the_window_for_ever() {
    let (rig, calls) = (Rig::new(), Arc::new(AtomicUsize::new(1)));
    let held = rig.faulty.hold(Call::Checkpoint);
    let ran = rig.run(resumable(), async |mut op: Operation| {
        timeout(SOON, op.effect("charge", KEYED, async |_| Ok(1))).await.expect_err("its mark is held");
        until_unknown(&mut op).await
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    drop(held);
    rig.clock.advance(WINDOW);
    assert!(matches!(again(&rig, KEYED, &calls).await, Ok(Answer::InDoubt { .. })));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn s13_nor_does_one_that_could_not_be_settled() {
    let rig = Rig::new();
    for _ in 0..200 {
        rig.faulty.fail(Call::Checkpoint, StoreErrorKind::Unavailable);
    }
    let ran = rig.run(resumable(), async |mut op: Operation| until_unknown(&mut op).await);
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    assert_ne!(rig.record().await.rerun_until, RerunUntil::Always);
}

#[tokio::test(start_paused = true)]
async fn s13_nor_one_whose_withdrawal_could_not_be_settled() {
    let rig = Rig::new();
    let inside = rig.clone();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let told = op.effect("charge", KEYED, async |_| {
            for _ in 0..30 {
                inside.faulty.lose_reply(Call::Checkpoint);
            }
            Err::<usize, _>(refuses())
        });
        assert_eq!(told.await.map_err(|error| error.kind()), Err(ErrorKind::EffectNotDone));
        until_unknown(&mut op).await
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    assert_ne!(rig.record().await.rerun_until, RerunUntil::Always);
}

#[tokio::test(start_paused = true)]
async fn s16_a_mark_that_was_dropped_is_not_carried_on_by_another_effect() {
    for effect in [KEYED, ONCE] {
        let (rig, calls) = (Rig::new(), Arc::default());
        let held = rig.faulty.hold(Call::Checkpoint);
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            timeout(SOON, op.effect("charge", effect, async |_| Ok(1))).await.expect_err("its mark is held");
            let _: u8 = op.effect("log", Effect::natural(), async |_| Ok(2)).await?;
            Ok(answer(503, "come again"))
        });
        assert!(matches!(ran.await, Ok(Answer::Released)), "the log is handed on");
        drop(held);
        let calls_inside: Arc<AtomicUsize> = Arc::clone(&calls);
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let call = async |_| Ok(calls_inside.fetch_add(1, Ordering::SeqCst));
            let _: usize = op.effect("charge", effect, call).await?;
            let _: u8 = op.effect("log", Effect::natural(), async |_| panic!("it is recorded")).await?;
            Ok(op.complete(answer(201, "paid")).await?)
        });
        assert!(executed(&ran.await, "paid"), "{effect:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

/// A run whose effect is dropped in what follows its call, before that reaches the store.
async fn dropped_after_its_call<F>(rig: &Rig, effect: Effect, told: F, then: &'static str) -> Ran
where
    F: Fn() -> std::result::Result<usize, Fault> + Send + Sync + 'static,
{
    let inside = rig.clone();
    rig.run(resumable(), async move |mut op: Operation| {
        let held: Mutex<Option<Held>> = Mutex::default();
        let call = op.effect("charge", effect, async |_| {
            *held.lock().expect("no panic inside") = Some(inside.faulty.hold(Call::Checkpoint));
            told()
        });
        timeout(SOON, call).await.expect_err("what follows the call is held");
        match then {
            "again" => {
                let number: usize = op.effect("charge", effect, async |_| panic!("it is known")).await?;
                Ok(op.complete(StoredResponse::json(201, &number)?).await?.into())
            }
            "answer" => Ok(idem::Ending::Answer(answer(503, "come again"))),
            _ => Err::<idem::Ending, BoxError>("timed out".into()),
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn s16_dropped_in_its_withdrawal_an_effect_is_still_not_done() {
    for effect in [KEYED, ONCE] {
        let (rig, calls) = (Rig::new(), Arc::default());
        let ran = dropped_after_its_call(&rig, effect, || Err(refuses()), "fail").await;
        assert!(matches!(ran, Err(RunError::Work(_))), "{ran:?}");
        assert!(
            matches!(rig.record().await.state, State::Failed { .. }),
            "withdrawn before the end, and released"
        );
        assert!(executed(&again(&rig, effect, &calls).await, "1"));
    }
}

#[tokio::test(start_paused = true)]
async fn s17_dropped_while_it_is_recorded_a_result_is_not_lost() {
    for effect in [KEYED, ONCE] {
        let rig = Rig::new();
        let ran = dropped_after_its_call(&rig, effect, || Ok(7), "again").await;
        assert!(executed(&ran, "7"), "the same run has it: {ran:?}");
        for then in ["answer", "fail"] {
            let (rig, calls) = (Rig::new(), Arc::default());
            let _handed_on = dropped_after_its_call(&rig, effect, || Ok(7), then).await;
            let ran = again(&rig, effect, &calls).await;
            assert!(executed(&ran, "7"), "so has the next one: {ran:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_run_that_is_stopped_over_an_open_effect_is_not_said_to_have_done_nothing() {
    for effect in [KEYED, ONCE] {
        let rig = Rig::new();
        let run = tokio::spawn({
            let rig = rig.clone();
            async move {
                rig.run(resumable(), async move |mut op: Operation| {
                    let _ = op.effect("charge", effect, async |_| Err::<u8, _>(hides())).await;
                    std::future::pending::<Result<StoredResponse>>().await
                })
                .await
            }
        });
        rig.started(1).await;
        assert_eq!(rig.engine.drain(Duration::from_secs(1)).await, 0);
        assert_eq!(engine_error(&run.await.expect("no panic")), Some(ErrorKind::EffectUnknown));
    }
}

#[tokio::test(start_paused = true)]
async fn v01_no_result_is_shown_by_a_doubt_or_an_error() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async |mut op: Operation| {
        let _: String = op.effect("token", KEYED, async |_| Ok("tok_secret".to_owned())).await?;
        op.effect("sms", KEYED, async |_| Err::<u8, _>(hides())).await?;
        Ok(answer(201, ""))
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::EffectUnknown));
    let seen = rig.record().await;
    let shown = format!("{:?}", Doubt::of(&seen).expect("one is open"));
    assert!(shown.contains("token") && !shown.contains("tok_secret"), "{shown}");
    let ran = rig.run(resumable(), async |mut op: Operation| {
        let _: u64 = op.effect("token", KEYED, async |_| Ok(1)).await?;
        Ok(answer(201, ""))
    });
    let ran = ran.await;
    assert_eq!(work_error(&ran), Some(ErrorKind::Corrupt));
    assert!(!format!("{ran:?}").contains("tok_secret"), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn t07_a_result_of_another_type_is_not_passed() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async |mut op: Operation| {
        let _: String = op.effect("charge", KEYED, async |_| Ok("ch_1".to_owned())).await?;
        Ok(answer(503, "come again"))
    });
    assert!(matches!(ran.await, Ok(Answer::Released)));
    let ran = rig.run(resumable(), async |mut op: Operation| {
        let wrong: std::result::Result<u64, _> = op.effect("charge", KEYED, async |_| Ok(1)).await;
        assert_eq!(wrong.map_err(|error| error.kind()), Err(ErrorKind::Corrupt));
        Ok(answer(400, "this release cannot read it"))
    });
    assert_eq!(engine_error(&ran.await), Some(ErrorKind::Invalid), "no answer stands over it");
    let ran = rig.run(resumable(), async |mut op: Operation| {
        let charge: String = op.effect("charge", KEYED, async |_| panic!("it is recorded")).await?;
        Ok(op.complete(StoredResponse::new(201, charge)?).await?)
    });
    assert!(executed(&ran.await, "ch_1"));
}

#[tokio::test(start_paused = true)]
async fn t07_a_window_above_any_span_is_refused_before_anything_is_marked() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async |mut op: Operation| {
        op.effect("charge", Effect::keyed(Duration::MAX), async |_| Ok(1)).await?;
        Ok(answer(201, ""))
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Invalid));
    assert_eq!(rig.faulty.seen(Call::Checkpoint), 0);
}

#[tokio::test(start_paused = true)]
async fn s16_a_mark_that_was_answered_late_is_taken_back_and_leaves_no_doubt() {
    for effect in [KEYED, ONCE] {
        let (rig, calls) = (Rig::new(), Arc::default());
        let mut held = rig.faulty.hold_reply(Call::Checkpoint);
        let slow = tokio::spawn({
            let (rig, calls) = (rig.clone(), Arc::clone(&calls));
            async move { again(&rig, effect, &calls).await }
        });
        held.arrived().await;
        rig.clock.advance(LEASE * 2);
        held.release();
        tokio::time::advance(LEASE * 2).await;
        assert_eq!(work_error(&slow.await.expect("no panic")), Some(ErrorKind::ClaimLost));
        rig.clock.advance(LEASE);
        assert!(executed(&again(&rig, effect, &calls).await, "1"), "it was never called");
    }
}

#[tokio::test(start_paused = true)]
async fn s08_a_key_is_not_handed_on_under_a_call_in_a_task_of_its_own() {
    let (rig, calls) = (Rig::new(), Arc::default());
    let (started, start) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        tokio::spawn(async move {
            op.effect("charge", KEYED, async |_| {
                started.send(()).expect("the work waits");
                finished.await.expect("the test lets it go on");
                Ok(1)
            })
            .await
        });
        start.await.expect("the call starts");
        Err::<StoredResponse, BoxError>("timed out".into())
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    let busy = again(&rig, KEYED, &calls).await;
    assert!(matches!(busy, Ok(Answer::InProgress { .. })), "left to its lease: {busy:?}");
    finish.send(()).expect("it still waits");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn s08_no_effect_begins_while_the_run_is_at_its_end() {
    let rig = Rig::new();
    let (go, gone) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    let first = rig.faulty.hold(Call::Checkpoint);
    let (inside, outside) = (rig.clone(), rig.clone());
    let (arrive, arrived) = oneshot::channel();
    let run = tokio::spawn(async move {
        let ran = outside.run(resumable(), async move |mut op: Operation| {
            timeout(SOON, op.effect("charge", KEYED, async |_| Ok(1))).await.expect_err("its mark is held");
            // The end takes that mark back, which is held as well; the operation lives on in a task of its own.
            arrive.send(inside.faulty.hold(Call::Checkpoint)).map_err(|_| "the test waits")?;
            tokio::spawn(async move {
                gone.await.expect("the test lets it go on");
                let late = op.effect("late", ONCE, async |_| Ok(1)).await;
                tell.send(late.map_err(|error| error.kind())).expect("the test waits");
            });
            Err::<StoredResponse, BoxError>("timed out".into())
        });
        ran.await
    });
    let mut end: Held = arrived.await.expect("the work comes there");
    end.arrived().await;
    go.send(()).expect("the task waits");
    assert_eq!(told.await.expect("it tries"), Err(ErrorKind::ClaimLost));
    end.release();
    drop(first);
    assert!(matches!(run.await.expect("no panic"), Err(RunError::Work(_))));
    assert!(matches!(rig.record().await.state, State::Failed { .. }), "taken back, and released");
}
