//! Names and results of effects: what is refused, and what a later release may not change.

use std::time::Duration;

use idem::{Answer, Effect, ErrorKind, Operation, RerunUntil, conformance::Call};

use crate::{
    gateway::{Does, Gateway, KEYED, ONCE, charge, charged, work_error},
    rig::{Rig, answer, engine_error, executed, opaque, resumable},
};

#[tokio::test(start_paused = true)]
async fn t07_a_renamed_or_removed_effect_is_caught_and_nothing_is_repeated() {
    let (rig, gateway) = (Rig::new(), Gateway::default());
    let first = gateway.clone();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let _: String = op.effect("charge", KEYED, async |key| first.call(&key, Does::Charges)).await?;
        Ok(answer(503, "come again"))
    });
    assert!(matches!(ran.await, Ok(Answer::Released)));
    let second = gateway.clone();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let _: String = op.effect("payment", KEYED, async |key| second.call(&key, Does::Charges)).await?;
        Ok(answer(201, "twice"))
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Invalid), "renamed");
    let ran = rig.run(resumable(), async |op: Operation| Ok(op.complete(answer(201, "none")).await?)).await;
    assert_eq!(work_error(&ran), Some(ErrorKind::Invalid), "removed, and ended");
    let ran = rig.run(resumable(), async |_: Operation| Ok(answer(201, "none"))).await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Invalid), "removed, and answered: {ran:?}");
    assert!(
        charged(&charge(&rig, &gateway, KEYED, Does::Charges).await, "charge 1"),
        "the old release goes on"
    );
    assert_eq!(gateway.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn t07_a_name_is_used_once_and_is_one_that_can_be_kept() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let mut tried = Vec::new();
        for name in ["a", "a", "", "handler", "nul\0", &"x".repeat(256)] {
            let done = op.effect(name.to_owned(), Effect::natural(), async |_| Ok(1)).await;
            tried.push(done.map_err(|error| error.kind()));
        }
        let invalid = Err(ErrorKind::Invalid);
        assert_eq!(tried, [Ok(1), invalid, invalid, invalid, invalid, invalid]);
        for number in 1..idem::MAX_EFFECTS {
            op.effect(format!("a {number}"), Effect::natural(), async |_| Ok(1)).await?;
        }
        let over = op.effect("one more", Effect::natural(), async |_| Ok(1)).await;
        assert_eq!(
            over.map_err(|error| error.to_string()),
            Err("effects must be at most 32 an operation; seen=33".into())
        );
        Ok(op.complete(answer(201, "paid")).await?)
    });
    assert!(executed(&ran.await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn t07_wrong_uses_are_refused_before_anything_is_marked() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let short = op.effect("charge", Effect::keyed(Duration::from_secs(139)), async |_| Ok(1)).await;
        assert_eq!(short.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        Ok(op.complete(answer(201, "paid")).await?)
    });
    assert!(executed(&ran.await, "paid"));
    assert_eq!(rig.faulty.seen(Call::Checkpoint), 0);
    let rig = Rig::new();
    let ran = rig.run(opaque(), async move |mut op: Operation| {
        let black = op.effect("charge", KEYED, async |_| Ok(1)).await;
        assert_eq!(black.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        Ok(op.complete(answer(201, "paid")).await?)
    });
    assert!(executed(&ran.await, "paid"));
    assert_eq!(rig.faulty.seen(Call::Checkpoint), 1, "the handler's own mark");
}

#[tokio::test(start_paused = true)]
async fn t07_a_result_too_large_to_record_leaves_its_effect_open() {
    let rig = Rig::new();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let large = "x".repeat(idem::MAX_RESULT);
        let _: String = op.effect("charge", ONCE, async |_| Ok(large)).await?;
        Ok(op.complete(answer(201, "paid")).await?)
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Invalid));
    assert!(rig.record().await.rerun_until == RerunUntil::Never, "it happened, and is not known to have");
}
