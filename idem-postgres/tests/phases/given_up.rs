//! Transactions that their work gives up: returned from, dropped, left with a savepoint open.

use std::{future::Future as _, pin::pin, task::Poll};

use idem_core::{Answer, ErrorKind, StoredResponse};
use idem_postgres::Settings;
use idem_test_support::Fault;
use sqlx::Connection as _;

use crate::{
    rig::idle,
    shop::{Shop, executed, insert, order, replayed, told},
};

#[tokio::test]
async fn t15_a_phase_that_is_dropped_is_rolled_back_and_the_answer_is_the_works() {
    let shop = Shop::with(1, Settings::new()).await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        insert(&mut phase).await?;
        drop(phase);
        Ok(StoredResponse::new(409, "out of stock")?)
    });
    assert!(executed(&ran.await));
    assert!(replayed(&shop.order().await), "a refusal is an answer");
    assert_eq!(shop.orders().await, 0);
    idle(&shop.store).await;
    assert_eq!(shop.proxy.connections(), 1, "the connection was rolled back and kept");
}

#[tokio::test]
async fn t06_a_phase_that_is_rolled_back_gives_the_operation_back() {
    let shop = Shop::with(1, Settings::new()).await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        insert(&mut phase).await?;
        order(store.begin(phase.rollback().await).await?).await
    });
    assert!(executed(&ran.await));
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn f01_a_phase_that_is_dropped_in_a_statement_holds_nobody_up() {
    let shop = Shop::with(1, Settings::new()).await;
    let store = shop.store.clone();
    let held = shop.strike("INSERT INTO orders", Fault::Hold);
    let waits = held.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        {
            let mut inserting = pin!(insert(&mut phase));
            let mut struck = pin!(waits.struck());
            // Until the statement is on its way; then its future is dropped.
            std::future::poll_fn(|context| {
                assert!(inserting.as_mut().poll(context).is_pending());
                struck.as_mut().poll(context)
            })
            .await;
        }
        drop(phase);
        Ok(StoredResponse::new(409, "too slow")?)
    });
    let (ran, ()) = tokio::join!(ran, held.release());
    assert!(executed(&ran), "{ran:?}");
    assert_eq!(shop.orders().await, 0);
}

#[tokio::test]
async fn t08_savepoints_are_the_works_own() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        let mut savepoint = phase.begin().await?;
        insert(&mut savepoint).await?;
        assert!(sqlx::query("SELECT 1 / 0").execute(&mut *savepoint).await.is_err());
        savepoint.rollback().await?;
        let mut savepoint = phase.begin().await?;
        insert(&mut savepoint).await?;
        savepoint.commit().await?;
        Ok(phase.complete(StoredResponse::new(201, "ordered")?).await?)
    });
    assert!(executed(&ran.await));
    assert_eq!(shop.orders().await, 1);

    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        let savepoint = phase.begin().await?;
        // Nothing undoes it: the commit would only end this.
        std::mem::forget(savepoint);
        order(phase).await
    });
    let ran = ran.await;
    assert_eq!(told(&ran), Some(ErrorKind::Invalid), "{ran:?}");
    assert_eq!(shop.orders().await, 0);
    assert!(executed(&shop.order().await));
}

#[tokio::test]
async fn t08_an_error_that_was_passed_over_aborts_it_all() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        insert(&mut phase).await?;
        assert!(sqlx::query("SELECT 1 / 0").execute(&mut *phase).await.is_err());
        let refused = phase.complete(StoredResponse::new(201, "ordered")?).await;
        assert_eq!(refused.as_ref().err().map(idem_core::Error::kind), Some(ErrorKind::RolledBack));
        Ok(StoredResponse::new(503, "later")?)
    });
    assert!(matches!(ran.await, Ok(Answer::Released)));
    assert_eq!(shop.orders().await, 0);
    assert!(executed(&shop.order().await));
}

#[tokio::test]
async fn s15_a_phase_is_dropped_at_every_await_of_its_end_and_the_record_says_what_became_of_it() {
    // The end goes on in a task of its own: after its first poll the answer is the answer.
    for polls in 0..3 {
        let shop = Shop::new().await;
        let store = shop.store.clone();
        let ran = shop.run(async move |op| {
            let mut phase = store.begin(op).await?;
            insert(&mut phase).await?;
            let mut ending = pin!(phase.complete(StoredResponse::new(201, "ordered")?));
            for _ in 0..polls {
                let polled = std::future::poll_fn(|context| Poll::Ready(ending.as_mut().poll(context))).await;
                if let Poll::Ready(done) = polled {
                    return Ok(idem_core::Ending::from(done?));
                }
                tokio::task::yield_now().await;
            }
            Ok(StoredResponse::new(504, "too slow")?.into())
        });
        let ran = ran.await;
        let ended = polls > 0;
        assert_eq!(executed(&ran), ended, "{polls}: {ran:?}");
        assert_eq!(shop.orders().await, i64::from(ended));
        let again = shop.order().await;
        assert!(if ended { replayed(&again) } else { executed(&again) }, "{again:?}");
        assert_eq!(shop.orders().await, 1);
    }
}
