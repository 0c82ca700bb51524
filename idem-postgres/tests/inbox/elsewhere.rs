//! A consumer whose effect is in no database: the event's id is the key of an operation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem_core::{
    Answer, BoxError, Completed, Effect, Engine, Fingerprint, KeyId, Operation, Policy, RunError, Scope,
    StoredResponse,
};

use crate::rig::Rig;

/// A bank that pays whenever it is asked.
#[derive(Clone, Default)]
struct Bank {
    payouts: Arc<AtomicUsize>,
}

async fn pay(mut op: Operation, bank: Bank, crashes: bool) -> Result<Completed, BoxError> {
    let receipt: usize = op
        .effect("payout", Effect::keyed(Duration::from_hours(24)), async |_key| {
            Ok(bank.payouts.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await?;
    if crashes {
        return Err("after the bank was paid and before the delivery was acknowledged".into());
    }
    Ok(op.complete(StoredResponse::json(200, &receipt)?).await?)
}

async fn consume(
    engine: &Engine,
    bank: &Bank,
    event: &str,
    crashes: bool,
) -> Result<Answer, RunError<BoxError>> {
    let id = KeyId::new(Scope::new("consumer payouts").unwrap(), event.parse().unwrap());
    let same = Fingerprint::of("payouts").body(b"1000").finish();
    let bank = bank.clone();
    engine.run(id, same, &Policy::resumable(), move |op| pay(op, bank, crashes)).await
}

#[tokio::test]
async fn i06_an_effect_elsewhere_happens_once_with_the_events_id_as_the_key() {
    let rig = Rig::new().await;
    let (engine, bank) = (Engine::new(rig.store.clone()), Bank::default());
    assert!(matches!(consume(&engine, &bank, "paid-1", true).await, Err(RunError::Work(_))));
    for _ in 0..3 {
        let answered = consume(&engine, &bank, "paid-1", false).await;
        assert!(matches!(answered, Ok(Answer::Executed(_) | Answer::Replayed(_))), "{answered:?}");
    }
    assert_eq!(bank.payouts.load(Ordering::SeqCst), 1);
    let answered = consume(&engine, &bank, "paid-2", false).await;
    assert!(matches!(answered, Ok(Answer::Executed(_))), "{answered:?}");
    assert_eq!(bank.payouts.load(Ordering::SeqCst), 2);
}
