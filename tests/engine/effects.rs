//! Calls to the outside world: marked before, recorded after, repeated only as they may be.

use std::time::Duration;

use idem::{
    Answer, BoxError, Effect, ErrorKind, Operation, RerunUntil, RunError, State, StoreErrorKind,
    StoredResponse, conformance::Call,
};

use crate::{
    gateway::{Does, Gateway, KEYED, ONCE, WINDOW, charge, charged, work_error},
    rig::{LEASE, Result, Rig, answer, engine_error, executed, replayed, resumable},
};

#[tokio::test(start_paused = true)]
async fn s02_the_mark_is_committed_before_the_call_and_the_result_after_it() {
    let expected = [(Effect::natural(), None), (KEYED, Some(false)), (ONCE, Some(true))];
    for (effect, never) in expected {
        let rig = Rig::new();
        let inside = rig.clone();
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let seen = op.effect("charge", effect, async |_| {
                let record = inside.record().await;
                Ok((
                    record.checkpoint,
                    record.rerun_until == RerunUntil::Never,
                    record.rerun_until == RerunUntil::Always,
                ))
            });
            let (number, is_never, is_always) = seen.await?;
            match never {
                None => assert_eq!((number, is_always), (0, true), "a natural effect has no mark"),
                Some(never) => assert_eq!((number, is_never, is_always), (1, never, false)),
            }
            let after = inside.record().await;
            assert_eq!(after.checkpoint, if never.is_some() { 2 } else { 1 });
            assert_eq!(after.rerun_until, RerunUntil::Always, "nothing is open any more");
            Ok(op.complete(answer(201, "paid")).await?)
        });
        assert!(executed(&ran.await, "paid"), "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_resumed_run_gets_the_recorded_result_and_does_not_call_again() {
    for effect in [Effect::natural(), KEYED, ONCE] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        let first = gateway.clone();
        let failed = rig.run(resumable(), async move |mut op: Operation| {
            let _: String = op.effect("charge", effect, async |key| first.call(&key, Does::Charges)).await?;
            Err::<StoredResponse, BoxError>("the database is away".into())
        });
        assert!(matches!(failed.await, Err(RunError::Work(_))));
        assert_eq!(rig.record().await.state, State::InProgress, "handed on, not released");
        let ran = charge(&rig, &gateway, effect, Does::Charges).await;
        assert!(charged(&ran, "charge 1"), "{ran:?}");
        assert_eq!(gateway.calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_result_may_be_anything_that_serialises() {
    let rig = Rig::new();
    for last in [false, true] {
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let call = |number: usize| async move {
                assert!(!last, "effect {number} is called again");
            };
            op.effect("nothing", KEYED, async |_| {
                call(1).await;
                Ok(())
            })
            .await?;
            let none: Option<u8> = op
                .effect("none", ONCE, async |_| {
                    call(2).await;
                    Ok(None)
                })
                .await?;
            let text: String = op
                .effect("text", ONCE, async |_| {
                    call(3).await;
                    Ok("\0 \u{1f980} \"".into())
                })
                .await?;
            assert_eq!((none, text.as_str()), (None, "\0 \u{1f980} \""));
            if last { Ok(answer(201, "done")) } else { Err("the database is away".into()) }
        });
        assert_eq!(executed(&ran.await, "done"), last);
    }
}

#[tokio::test(start_paused = true)]
async fn s03_a_keyed_effect_is_repeated_with_its_key_while_the_window_has_room() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let ran = charge(&rig, &gateway, KEYED, Does::Hides).await;
    assert_eq!(work_error(&ran), Some(ErrorKind::EffectUnknown), "{ran:?}");
    // Handed on: the retry needs not wait for the lease.
    assert!(charged(&charge(&rig, &gateway, KEYED, Does::Charges).await, "charge 2"));
    let calls = gateway.calls();
    assert!(calls.len() == 2 && calls[0] == calls[1], "one key: to a provider that knows it, one charge");
}

#[tokio::test(start_paused = true)]
async fn s03_a_keyed_effect_is_in_doubt_once_its_window_has_no_room() {
    // A day less a minute and ten seconds.
    let last = Duration::from_secs(86_400 - 70);
    for (later, in_doubt) in [(Duration::from_secs(86_400 - 71), false), (last, true)] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        let ran = charge(&rig, &gateway, KEYED, Does::Hides).await;
        assert_eq!(work_error(&ran), Some(ErrorKind::EffectUnknown));
        rig.clock.advance(later);
        let ran = charge(&rig, &gateway, KEYED, Does::Charges).await;
        assert_eq!(matches!(ran, Ok(Answer::InDoubt { .. })), in_doubt, "{ran:?}");
        assert_eq!(gateway.calls().len(), if in_doubt { 1 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn s03_a_mark_that_comes_too_late_is_not_followed_by_a_call() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    assert_eq!(work_error(&charge(&rig, &gateway, KEYED, Does::Hides).await), Some(ErrorKind::EffectUnknown));
    // The next owner comes in time, and is slow.
    let (inside, second) = (rig.clone(), gateway.clone());
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        inside.clock.advance(WINDOW);
        let charge: String = op.effect("charge", KEYED, async |key| second.call(&key, Does::Charges)).await?;
        Ok(op.complete(answer(201, "").header("charge", charge)).await?)
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::TooLate));
    assert_eq!(gateway.calls().len(), 1);
    assert!(matches!(charge(&rig, &gateway, KEYED, Does::Charges).await, Ok(Answer::InDoubt { .. })));
}

#[tokio::test(start_paused = true)]
async fn s03_an_effect_without_a_key_is_never_called_after_a_doubt() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let ran = charge(&rig, &gateway, ONCE, Does::Hides).await;
    assert_eq!(work_error(&ran), Some(ErrorKind::EffectUnknown), "{ran:?}");
    rig.clock.advance(LEASE);
    assert!(matches!(charge(&rig, &gateway, ONCE, Does::Charges).await, Ok(Answer::InDoubt { .. })));
    assert_eq!(gateway.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s03_nor_is_it_called_again_by_the_same_run() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let outside = gateway.clone();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        for expected in [ErrorKind::EffectUnknown, ErrorKind::EffectUnknown] {
            let told = op.effect("sms", ONCE, async |key| outside.call(&key, Does::Hides)).await;
            assert_eq!(told.map_err(|error| error.kind()), Err(expected));
        }
        Ok(op.complete(answer(202, "perhaps sent")).await?)
    });
    // An explicit end is believed.
    assert!(executed(&ran.await, "perhaps sent"));
    assert_eq!(gateway.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s16_an_effect_that_was_not_done_leaves_nothing_behind() {
    for effect in [Effect::natural(), KEYED, ONCE] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        let ran = charge(&rig, &gateway, effect, Does::Refuses).await;
        assert_eq!(work_error(&ran), Some(ErrorKind::EffectNotDone), "{effect:?} {ran:?}");
        assert!(
            matches!(rig.record().await.state, State::Failed { .. }),
            "nothing is open, nothing is recorded"
        );
        assert!(charged(&charge(&rig, &gateway, effect, Does::Charges).await, "charge 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn s16_not_done_this_time_says_nothing_of_the_time_before() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    assert_eq!(work_error(&charge(&rig, &gateway, KEYED, Does::Hides).await), Some(ErrorKind::EffectUnknown));
    assert_eq!(
        work_error(&charge(&rig, &gateway, KEYED, Does::Refuses).await),
        Some(ErrorKind::EffectUnknown)
    );
    assert_eq!(rig.record().await.state, State::InProgress, "it is not released: the first may have charged");
    assert!(charged(&charge(&rig, &gateway, KEYED, Does::Charges).await, "charge 2"));
}

#[tokio::test(start_paused = true)]
async fn s14_an_answer_over_an_open_effect_is_no_answer() {
    for (effect, in_doubt) in [(KEYED, false), (ONCE, true)] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        let outside = gateway.clone();
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let _ = op.effect("charge", effect, async |key| outside.call(&key, Does::Hides)).await;
            Ok(answer(200, "all is well"))
        });
        let ran = ran.await;
        assert_eq!(engine_error(&ran), Some(ErrorKind::EffectUnknown), "{ran:?}");
        rig.clock.advance(LEASE);
        let ran = charge(&rig, &gateway, effect, Does::Charges).await;
        assert_eq!(matches!(ran, Ok(Answer::InDoubt { .. })), in_doubt, "{ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s16_a_recorded_effect_is_not_released() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let outside = gateway.clone();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let _: String = op.effect("charge", KEYED, async |key| outside.call(&key, Does::Charges)).await?;
        Ok(op.release().await?)
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Invalid));
    assert_eq!(rig.record().await.state, State::InProgress);
    assert!(charged(&charge(&rig, &gateway, KEYED, Does::Charges).await, "charge 1"));
}

#[tokio::test(start_paused = true)]
async fn p08_marks_and_results_whose_reply_or_request_was_lost_are_settled() {
    for (lost, effect) in (0..4).flat_map(|lost| [(lost, KEYED), (lost, ONCE)]) {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        for _ in 0..lost {
            rig.faulty.lose_reply(Call::Checkpoint);
            rig.faulty.lose_request(Call::Checkpoint);
        }
        let ran = charge(&rig, &gateway, effect, Does::Charges).await;
        assert!(charged(&ran, "charge 1"), "{ran:?}");
        assert!(replayed(&charge(&rig, &gateway, effect, Does::Charges).await, ""));
        assert_eq!(gateway.calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn s02_nothing_is_called_behind_a_mark_that_cannot_be_settled() {
    for effect in [KEYED, ONCE] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        for _ in 0..1000 {
            rig.faulty.fail(Call::Checkpoint, StoreErrorKind::Unavailable);
        }
        let ran = charge(&rig, &gateway, effect, Does::Charges).await;
        assert_eq!(work_error(&ran), Some(ErrorKind::EffectNotDone), "{ran:?}");
        assert_eq!(gateway.calls().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_result_that_cannot_be_settled_is_not_said_to_be_recorded() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let (inside, outside) = (rig.clone(), gateway.clone());
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let told = op.effect("charge", KEYED, async |key| {
            for _ in 0..1000 {
                inside.faulty.lose_reply(Call::Checkpoint);
            }
            outside.call(&key, Does::Charges)
        });
        let _: String = told.await?;
        Ok(op.complete(answer(201, "")).await?)
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Unknown));
    // It was committed after all: a retry in another process has it.
    let other = rig.other();
    let outside = gateway.clone();
    let ran = rig.run_on(&other, resumable(), async move |mut op: Operation| {
        let charge: String =
            op.effect("charge", KEYED, async |key| outside.call(&key, Does::Charges)).await?;
        Ok(op.complete(answer(201, "").header("charge", charge)).await?)
    });
    assert!(charged(&ran.await, "charge 1"));
}

#[tokio::test(start_paused = true)]
async fn b158_a_panic_in_a_call_is_a_doubt() {
    for (effect, in_doubt) in [(KEYED, false), (ONCE, true)] {
        let (rig, gateway) = (Rig::new(), Gateway::default());
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let _: String = op.effect("charge", effect, async |_| panic!("in the gateway's library")).await?;
            Ok(answer(201, ""))
        });
        assert_eq!(engine_error(&ran.await), Some(ErrorKind::EffectUnknown));
        rig.clock.advance(LEASE);
        let ran = charge(&rig, &gateway, effect, Does::Charges).await;
        assert_eq!(matches!(ran, Ok(Answer::InDoubt { .. })), in_doubt, "{ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn w08_a_draining_engine_does_not_drop_a_call() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let (enter, entered) = tokio::sync::oneshot::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn({
        let (rig, gateway) = (rig.clone(), gateway.clone());
        async move {
            rig.run(resumable(), async move |mut op: Operation| {
                let told = op.effect("charge", ONCE, async |key| {
                    enter.send(()).expect("the test waits");
                    finished.await.expect("the test lets it go on");
                    gateway.call(&key, Does::Charges)
                });
                let _: String = told.await?;
                std::future::pending::<Result<StoredResponse>>().await
            })
            .await
        }
    });
    entered.await.expect("the call starts");
    let draining = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.drain(Duration::from_secs(1)).await }
    });
    rig.elapse(Duration::from_secs(2)).await;
    finish.send(()).expect("the call waits");
    assert_eq!(draining.await.expect("no panic"), 0, "once the call is recorded, the rest is dropped");
    assert_eq!(
        engine_error(&run.await.expect("no panic")),
        Some(ErrorKind::Unknown),
        "something is recorded"
    );
    let other = rig.other();
    let outside = gateway.clone();
    let ran = rig.run_on(&other, resumable(), async move |mut op: Operation| {
        let charge: String = op.effect("charge", ONCE, async |key| outside.call(&key, Does::Charges)).await?;
        Ok(op.complete(answer(201, "").header("charge", charge)).await?)
    });
    assert!(charged(&ran.await, "charge 1"), "handed on with its result");
}

#[tokio::test(start_paused = true)]
async fn l08_nothing_is_called_once_the_lease_may_be_over() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    // The mark's reply takes longer than the lease, and no renewal gets through.
    for _ in 0..1000 {
        rig.faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    }
    let held = rig.faulty.hold_reply(Call::Checkpoint);
    let run = tokio::spawn({
        let (rig, gateway) = (rig.clone(), gateway.clone());
        async move { charge(&rig, &gateway, KEYED, Does::Charges).await }
    });
    rig.started(1).await;
    rig.elapse(LEASE).await;
    drop(held);
    let ran = run.await.expect("no panic");
    assert!(work_error(&ran).is_some(), "{ran:?}");
    assert_eq!(gateway.calls().len(), 0);
}
