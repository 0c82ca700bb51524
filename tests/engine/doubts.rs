//! What is in doubt, settled effect by effect.

use idem::{
    Answer, Decision, Doubt, Effect, Maintain, Operation, RunError, StoredResponse, policy::RETENTION,
};

use crate::rig::{LEASE, Ran, Rig, answer, executed, opaque, pay, resumable};

const ONCE: Effect = Effect::at_most_once();

/// Two messages, of which the second one's call breaks off if it is made.
async fn notify(rig: &Rig, breaks: bool) -> Ran {
    rig.run(resumable(), async move |mut op: Operation| {
        let first: u32 = op.effect("sms", ONCE, async |_| Ok(1)).await?;
        let second: u32 = op
            .effect("mail", ONCE, async |_| {
                if breaks { Err(std::io::Error::other("the connection broke").into()) } else { Ok(2) }
            })
            .await?;
        Ok(op.complete(StoredResponse::json(201, &[first, second])?).await?)
    })
    .await
}

async fn in_doubt() -> Rig {
    let rig = Rig::new();
    assert!(matches!(notify(&rig, true).await, Err(RunError::Work(_))));
    rig.clock.advance(LEASE);
    assert!(matches!(notify(&rig, false).await, Ok(Answer::InDoubt { .. })));
    rig
}

#[tokio::test(start_paused = true)]
async fn s16_what_happened_is_the_result_that_the_next_run_gets() {
    let rig = in_doubt().await;
    let seen = rig.record().await;
    let doubt = Doubt::of(&seen).expect("in doubt");
    assert_eq!(doubt.open(), ["mail"], "the other one is recorded");
    let decision = doubt.happened("mail", &7).and_then(Doubt::resume).expect("settled");
    rig.store.resolve(&seen, &decision, RETENTION).await.expect("as it was seen");
    assert!(executed(&notify(&rig, true).await, "[1,7]"), "neither is called again");
}

#[tokio::test(start_paused = true)]
async fn s16_what_did_not_happen_is_called_by_the_next_run() {
    let rig = in_doubt().await;
    let seen = rig.record().await;
    let decision = Doubt::of(&seen).and_then(|doubt| doubt.did_not_happen("mail")).and_then(Doubt::resume);
    rig.store.resolve(&seen, &decision.expect("settled"), RETENTION).await.expect("as it was seen");
    assert!(executed(&notify(&rig, false).await, "[1,2]"));
}

#[tokio::test(start_paused = true)]
async fn s16_nothing_resumes_while_an_effect_is_not_settled() {
    let rig = in_doubt().await;
    let seen = rig.record().await;
    let refused = |doubt: Result<Decision, idem::Invalid>| doubt.map_err(|invalid| invalid.field()).err();
    let doubt = || Doubt::of(&seen).expect("in doubt");
    assert_eq!(refused(doubt().resume()), Some("effects in doubt"));
    assert_eq!(
        refused(doubt().happened("sms", &1).and_then(Doubt::resume)),
        Some("effect"),
        "it is not open"
    );
    assert_eq!(
        refused(doubt().happened("mail", &"x".repeat(20_000)).and_then(Doubt::resume)),
        Some("result")
    );
    assert_eq!(refused(Decision::did_not_happen(&seen)), Some("record"), "it is no opaque handler");
    let key = doubt().provider_key("mail");
    assert_ne!(key, doubt().provider_key("sms"));
}

#[tokio::test(start_paused = true)]
async fn s16_the_look_up_asks_with_the_key_that_the_provider_was_shown() {
    let rig = Rig::new();
    let (tell, told) = tokio::sync::oneshot::channel();
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        op.effect("mail", ONCE, async |key| {
            tell.send(key).expect("the test waits");
            Err::<(), _>(std::io::Error::other("the connection broke").into())
        })
        .await?;
        Ok(answer(201, ""))
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    rig.clock.advance(LEASE);
    let seen = rig.record().await;
    assert_eq!(Doubt::of(&seen).expect("in doubt").provider_key("mail"), told.await.expect("called"));
}

#[tokio::test(start_paused = true)]
async fn s16_a_handler_as_a_whole_is_completed_or_did_not_happen() {
    let rig = Rig::new();
    let ran = rig.run(opaque(), async |_| Err::<StoredResponse, _>("it broke".into())).await;
    assert!(matches!(ran, Err(RunError::Work(_))));
    rig.clock.advance(LEASE);
    let seen = rig.record().await;
    let doubt = Doubt::of(&seen).expect("in doubt");
    assert_eq!(doubt.open(), ["handler"]);
    assert_eq!(doubt.happened("handler", &1).map_err(|invalid| invalid.field()).err(), Some("effect"));
    let decision = Decision::did_not_happen(&seen).expect("it is an opaque handler");
    rig.store.resolve(&seen, &decision, RETENTION).await.expect("as it was seen");
    assert!(executed(&rig.run(opaque(), pay).await, "paid"));
}
