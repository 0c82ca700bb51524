//! A transaction that carries an operation has no effect in it, ends with an answer, and messages leave in a transaction only.

use std::time::Duration;

use idem::{BoxError, Completed, Effect, Message, Operation, PostgresStore, StoredResponse};

const KEYED: Effect = Effect::keyed(Duration::from_hours(24));

pub(crate) async fn effect_in_an_open_phase(
    mut op: Operation,
    store: PostgresStore,
) -> Result<Completed, BoxError> {
    let _: u32 = op.effect("charge", KEYED, async |_| Ok(1)).await?;
    let phase = store.begin(op).await?;
    #[cfg(misuse)]
    let _: u32 = op.effect("fee", KEYED, async |_| Ok(1)).await?; //~ E0382
    Ok(phase.complete(StoredResponse::new(201, "charged")?).await?)
}

pub(crate) async fn effect_in_a_step(mut op: Operation, store: PostgresStore) -> Result<(), BoxError> {
    #[cfg(not(misuse))]
    store.step(&mut op, "drafted", async |_| Ok(())).await?;
    #[cfg(misuse)]
    let work = async |_: &mut idem::StepTx| Ok(op.effect("charge", KEYED, async |_| Ok(())).await?);
    #[cfg(misuse)]
    store.step(&mut op, "drafted", work).await?; //~ E0499
    Ok(())
}

pub(crate) async fn write_after_the_answer(
    op: Operation,
    store: PostgresStore,
) -> Result<Completed, BoxError> {
    let mut phase = store.begin(op).await?;
    phase.emit(Message::json("order.charged", &1)?).await?;
    let done = phase.complete(StoredResponse::new(201, "charged")?).await?;
    #[cfg(misuse)]
    phase.emit(Message::json("order.charged", &1)?).await?; //~ E0382
    Ok(done)
}

pub(crate) async fn commit_without_an_answer(op: Operation, store: PostgresStore) -> Result<(), BoxError> {
    let phase = store.begin(op).await?;
    #[cfg(misuse)]
    phase.commit().await?; //~ E0599
    phase.rollback().await;
    Ok(())
}

pub(crate) async fn step_that_commits_itself(
    op: &mut Operation,
    store: PostgresStore,
) -> Result<(), BoxError> {
    let work = async |tx: &mut idem::StepTx| {
        #[cfg(misuse)]
        tx.commit().await?; //~ E0599
        tx.emit(Message::json("order.drafted", &1)?).await?;
        Ok(())
    };
    Ok(store.step(op, "drafted", work).await?)
}

pub(crate) async fn message_of_no_operation(store: PostgresStore) -> Result<(), BoxError> {
    let mut tx = store.pool().begin().await?;
    #[cfg(misuse)]
    tx.emit(Message::json("customer.renamed", &1)?).await?; //~ E0599
    store.outbox().add(&mut tx, Message::json("customer.renamed", &1)?).await?;
    Ok(tx.commit().await?)
}

pub(crate) async fn message_outside_a_transaction(store: PostgresStore) -> Result<(), BoxError> {
    #[cfg(not(misuse))]
    let mut tx = store.pool().begin().await?;
    #[cfg(misuse)]
    let mut tx = store.pool().acquire().await?;
    store.outbox().add(&mut tx, Message::json("customer.renamed", &1)?).await?; //~ E0308
    Ok(())
}
