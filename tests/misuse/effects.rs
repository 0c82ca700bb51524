//! One effect at a time, before the end, in a task that may move.

use std::time::Duration;

use idem::{BoxError, Completed, Effect, Operation, StoredResponse};

const KEYED: Effect = Effect::keyed(Duration::from_hours(24));

pub(crate) async fn effect_after_the_end(mut op: Operation) -> Result<Completed, BoxError> {
    let _: u32 = op.effect("charge", KEYED, async |_| Ok(1)).await?;
    let done = op.complete(StoredResponse::new(201, "charged")?).await?;
    #[cfg(misuse)]
    let _: u32 = op.effect("refund", KEYED, async |_| Ok(1)).await?; //~ E0382
    Ok(done)
}

pub(crate) async fn effect_within_an_effect(mut op: Operation) -> Result<(), BoxError> {
    #[cfg(not(misuse))]
    let _: u32 = op.effect("charge", KEYED, async |_| Ok(1)).await?;
    #[cfg(misuse)]
    let inner = async |_| Ok(op.effect("fee", KEYED, async |_| Ok(1)).await?);
    #[cfg(misuse)]
    let _: u32 = op.effect("charge", KEYED, inner).await?; //~ E0499
    Ok(())
}

pub(crate) async fn two_effects_at_once(mut op: Operation) -> Result<(), BoxError> {
    let charge = op.effect("charge", KEYED, async |_| Ok(1));
    #[cfg(misuse)]
    let fee = op.effect("fee", KEYED, async |_| Ok(1)); //~ E0499
    let _: u32 = charge.await?;
    #[cfg(misuse)]
    let _: u32 = fee.await?;
    Ok(())
}

pub(crate) async fn call_that_cannot_move_to_another_thread(mut op: Operation) -> Result<(), BoxError> {
    #[cfg(not(misuse))]
    let shared = std::sync::Arc::new(1);
    #[cfg(misuse)]
    let shared = std::rc::Rc::new(1);
    let call = async |_| {
        std::future::ready(()).await;
        Ok(*shared)
    };
    let _: u32 = op.effect("charge", KEYED, call).await?; //~ E0277
    Ok(())
}
