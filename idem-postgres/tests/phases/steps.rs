//! Steps: done once, with their result, however their transactions end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use idem_core::{BoxError, Effect, ErrorKind, RunError, StoredResponse};
use idem_postgres::PostgresStore;
use idem_test_support::Fault;

use crate::shop::{LEASE, Ran, Shop, executed, insert, order, told};

/// Drafts, charges, settles; fails after so many of the three.
async fn buy(shop: &Shop, store: &PostgresStore, charges: &Arc<AtomicUsize>, fails_after: usize) -> Ran {
    let (store, charges) = (store.clone(), Arc::clone(charges));
    shop.run(async move |mut op| {
        let stops = |done| if done == fails_after { Err(BoxError::from("killed")) } else { Ok(()) };
        let drafted: i64 = store.step(&mut op, "drafted", async |tx| insert(tx).await).await?;
        stops(1)?;
        let charge =
            op.effect("charge", Effect::at_most_once(), async |_| Ok(charges.fetch_add(1, Ordering::SeqCst)));
        assert_eq!(charge.await?, 0);
        stops(2)?;
        let settled: i64 = store.step(&mut op, "settled", async |tx| insert(tx).await).await?;
        stops(3)?;
        assert_ne!(drafted, settled);
        order(store.begin(op).await?).await
    })
    .await
}

#[tokio::test]
async fn t05_a_run_that_fails_after_each_step_in_turn_goes_on_behind_it() {
    let (shop, charges) = (Shop::new().await, Arc::new(AtomicUsize::new(0)));
    for fails_after in [1, 2, 3] {
        let ran = buy(&shop, &shop.store, &charges, fails_after).await;
        assert!(matches!(ran, Err(RunError::Work(_))), "{ran:?}");
        assert_eq!(shop.orders().await, if fails_after < 3 { 1 } else { 2 });
    }
    assert!(executed(&buy(&shop, &shop.store, &charges, 0).await));
    assert_eq!((shop.orders().await, charges.load(Ordering::SeqCst)), (3, 1));
}

#[tokio::test]
async fn p07_the_commit_of_a_step_is_settled_either_way() {
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let (shop, charges) = (Shop::new().await, Arc::new(AtomicUsize::new(0)));
        let strike = shop.strike_commit(fault);
        let ran = buy(&shop, &shop.store, &charges, 0).await;
        strike.struck().await;
        if fault == Fault::LoseReply {
            assert!(executed(&ran), "{ran:?}");
        } else {
            assert_eq!(told(&ran), Some(ErrorKind::RolledBack), "{ran:?}");
            assert_eq!(shop.orders().await, 0);
            assert!(executed(&buy(&shop, &shop.store, &charges, 0).await));
        }
        assert_eq!((shop.orders().await, charges.load(Ordering::SeqCst)), (3, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn i04_a_step_whose_work_fails_leaves_nothing_and_its_error_is_kept() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |mut op| {
        let failed = store.step(&mut op, "drafted", async |tx| {
            insert(tx).await?;
            Err::<i64, BoxError>("out of stock".into())
        });
        let failed = failed.await.expect_err("its work failed");
        assert_eq!(failed.kind(), ErrorKind::RolledBack);
        assert_eq!(
            std::error::Error::source(&failed).map(ToString::to_string).as_deref(),
            Some("out of stock")
        );
        // The operation is still there, and the name too.
        store.step(&mut op, "drafted", async |tx| insert(tx).await).await?;
        Ok(op.complete(StoredResponse::new(201, "ordered")?).await?)
    });
    assert!(executed(&ran.await));
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn s17_a_run_that_was_left_behind_in_its_step_leaves_nothing_there() {
    // Its transaction is open when the server ends it: the lease is over, and another owner has gone on.
    let (shop, charges) = (Shop::new().await, Arc::new(AtomicUsize::new(0)));
    let store = shop.store.clone();
    let (reached, wait) = tokio::sync::oneshot::channel();
    let (go, told_to_go) = tokio::sync::oneshot::channel::<()>();
    let (ran, ()) = tokio::join!(
        shop.run(async move |mut op| {
            let mut told_to_go = Some((reached, told_to_go));
            let drafted = store.step(&mut op, "drafted", async |tx| {
                insert(tx).await?;
                let (reached, told_to_go) = told_to_go.take().expect("once");
                reached.send(()).expect("somebody waits");
                told_to_go.await?;
                Ok(7)
            });
            let _: i64 = drafted.await?;
            order(store.begin(op).await?).await
        }),
        async {
            wait.await.expect("it runs");
            let idle = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction'";
            shop.rig.until(idle, 1).await;
            shop.rig.elapse(LEASE).await;
            assert!(executed(&buy(&shop, &shop.store, &charges, 0).await));
            go.send(()).expect("it waits");
        }
    );
    assert!(matches!(ran, Err(_) | Ok(idem_core::Answer::InProgress { .. })), "{ran:?}");
    assert_eq!((shop.orders().await, charges.load(Ordering::SeqCst)), (3, 1));
}
