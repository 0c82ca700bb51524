//! Messages leave with what they tell of, or not at all.

use idem_core::{ErrorKind, StoredResponse};
use idem_postgres::{Message, MessageId};
use idem_test_support::{Fault, contains};
use uuid::Uuid;

use crate::shop::{Ran, Shop, executed, insert, told};

/// A step and a phase that both tell of the order, and of something else.
async fn tell(shop: &Shop) -> Ran {
    let store = shop.store.clone();
    shop.run(async move |mut op| {
        let drafted = store.step(&mut op, "drafted", async |tx| {
            let number = insert(tx).await?;
            tx.emit(Message::json("order", &number)?).await?;
            Ok(number)
        });
        let number: i64 = drafted.await?;
        let mut phase = store.begin(op).await?;
        let again = Message::json("order", &number)?;
        phase.emit_all([again.clone(), Message::json("mail", "thanks")?, again]).await?;
        Ok(phase.complete(StoredResponse::json(201, &number)?).await?)
    })
    .await
}

async fn messages(shop: &Shop) -> Vec<(Uuid, String)> {
    let sql = "SELECT id, topic FROM idempotency_key_outbox ORDER BY seq";
    sqlx::query_as(sql).fetch_all(&shop.rig.direct).await.expect("messages")
}

#[tokio::test]
async fn o01_messages_are_there_with_the_step_and_the_answer_that_they_tell_of() {
    let shop = Shop::new().await;
    assert!(executed(&tell(&shop).await));
    let there = messages(&shop).await;
    let topics: Vec<_> = there.iter().map(|(_, topic)| topic.as_str()).collect();
    assert_eq!(topics, ["order", "order", "mail", "order"]);
    let operation: Vec<Option<Uuid>> = sqlx::query_scalar("SELECT operation FROM idempotency_key_outbox")
        .fetch_all(&shop.rig.direct)
        .await
        .expect("messages");
    let record = shop.rig.record(&crate::shop::key()).await.expect("a record");
    assert!(operation.iter().all(|it| it.map(Uuid::into_bytes) == Some(record.operation.to_bytes())));
    assert_eq!(shop.proxy.count(contains("_outbox")), 2, "one statement for a batch");
}

#[tokio::test]
async fn o02_a_transaction_that_is_done_over_gives_its_messages_the_ids_that_they_had() {
    // The commit of the phase is lost once it has happened, and once before it has.
    for (fault, runs) in [(Fault::LoseReply, 1), (Fault::LoseRequest, 2)] {
        let shop = Shop::new().await;
        let ids = shop.proxy.nth(2, |sql| sql.trim() == "COMMIT", fault);
        let first = tell(&shop).await;
        ids.struck().await;
        if runs == 2 {
            assert_eq!(told(&first), Some(ErrorKind::RolledBack));
            assert_eq!(messages(&shop).await.len(), 1, "those of the step");
            assert!(executed(&tell(&shop).await));
        }
        let there = messages(&shop).await;
        assert_eq!(there.len(), 4, "{fault:?}");
        assert_eq!(
            there.iter().map(|(id, _)| MessageId::from(*id)).collect::<std::collections::BTreeSet<_>>().len(),
            4
        );
    }
}

#[tokio::test]
async fn o01_a_message_that_cannot_be_added_takes_the_transaction_with_it() {
    let shop = Shop::new().await;
    let strike = shop.strike("_outbox", Fault::LoseReply);
    let ran = tell(&shop).await;
    strike.struck().await;
    assert_eq!(told(&ran), Some(ErrorKind::RolledBack), "{ran:?}");
    assert_eq!((shop.orders().await, messages(&shop).await.len()), (0, 0));
    assert!(executed(&tell(&shop).await));
    assert_eq!((shop.orders().await, messages(&shop).await.len()), (1, 4));
}

#[tokio::test]
async fn o18_messages_without_a_key_ride_on_a_transaction_of_the_applications() {
    let shop = Shop::new().await;
    let outbox = shop.store.outbox();
    let message = || Message::new("raw", "application/octet-stream", vec![0, 255, 10]).expect("valid");
    let mut tx = shop.store.pool().begin().await.expect("a transaction");
    let lost = outbox.add(&mut tx, message()).await.expect("added");
    tx.rollback().await.expect("a rollback");
    let mut tx = shop.store.pool().begin().await.expect("a transaction");
    let kept = outbox.add_all(&mut tx, [message(), message()]).await.expect("added");
    assert!(outbox.add_all(&mut tx, []).await.expect("nothing").is_empty());
    tx.commit().await.expect("a commit");
    let there: Vec<_> = messages(&shop).await.into_iter().map(|(id, _)| MessageId::from(id)).collect();
    assert_eq!(there, kept);
    assert!(!there.contains(&lost));
    let bytes: Vec<u8> = sqlx::query_scalar("SELECT payload FROM idempotency_key_outbox LIMIT 1")
        .fetch_one(&shop.rig.direct)
        .await
        .expect("a payload");
    assert_eq!(bytes, [0, 255, 10]);
}
