//! Who may begin a transaction, and what others see of it while it is open.

use idem_core::{Answer, ErrorKind, Policy, RunError};
use idem_postgres::{PostgresStore, Settings};
use tokio::sync::oneshot;

use crate::{
    rig::{idle, pool},
    shop::{LEASE, Shop, executed, insert, order, replayed, told},
};

#[tokio::test]
async fn s08_an_owner_that_was_left_behind_begins_nothing() {
    let shop = Shop::new().await;
    let (store, elsewhere) = (shop.store.clone(), shop.rig.another(4));
    shop.rig.sql("CREATE TABLE seen (n int)").await;
    let (reached, wait) = oneshot::channel();
    let (go, told_to_go) = oneshot::channel::<()>();
    let (ran, ()) = tokio::join!(
        shop.run(async move |op| {
            reached.send(()).expect("somebody waits");
            told_to_go.await?;
            order(store.begin(op).await?).await
        }),
        async {
            wait.await.expect("it runs");
            shop.rig.elapse(LEASE).await;
            let taken = shop.run_elsewhere(async move |op| order(elsewhere.begin(op).await?).await).await;
            assert!(executed(&taken), "{taken:?}");
            go.send(()).expect("it waits");
        }
    );
    assert!(matches!(ran, Ok(Answer::InProgress { .. })), "{ran:?}");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn s08_nobody_takes_a_key_over_whose_owner_is_in_a_transaction() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let (reached, wait) = oneshot::channel();
    let (go, told_to_go) = oneshot::channel::<()>();
    let (ran, ()) = tokio::join!(
        shop.run(async move |op| {
            let phase = store.begin(op).await?;
            reached.send(()).expect("somebody waits");
            told_to_go.await?;
            order(phase).await
        }),
        async {
            wait.await.expect("it runs");
            // While the lease lasts a duplicate is answered at once; it does not wait for the row.
            assert!(matches!(shop.order_elsewhere().await, Ok(Answer::InProgress { .. })));
            // Nothing can move the record's times: it is held. A claim with a lease that is over finds it held as well.
            let seen = shop.rig.record(&crate::shop::key()).await.expect("a record");
            assert_eq!(seen.token, 1);
            go.send(()).expect("it waits");
        }
    );
    assert!(executed(&ran), "{ran:?}");
    assert!(replayed(&shop.order_elsewhere().await));
}

#[tokio::test]
async fn s21_an_owner_that_pauses_in_a_transaction_does_not_wedge_the_key() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let short = Policy::resumable().lease(std::time::Duration::from_millis(300));
    let (go, told_to_go) = oneshot::channel::<()>();
    let work = async move |op| {
        let mut phase = store.begin(op).await?;
        insert(&mut phase).await?;
        // The server ends the transaction after what is left of the lease; then others go on.
        told_to_go.await?;
        order(phase).await
    };
    let (ran, ()) = tokio::join!(
        shop.engine.run(crate::shop::key(), crate::rig::print(1), &short, work),
        async {
            shop.rig.until("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'", 1).await;
            shop.rig.until("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'", 0).await;
            let mut taken = shop.order_elsewhere().await;
            while matches!(taken, Ok(Answer::InProgress { .. })) {
                taken = shop.order_elsewhere().await;
            }
            assert!(executed(&taken), "{taken:?}");
            go.send(()).expect("it waits");
        }
    );
    assert!(matches!(ran, Ok(Answer::InProgress { .. }) | Err(_)), "{ran:?}");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn s21_a_pool_of_one_connection_is_enough() {
    let shop = Shop::with(1, Settings::new()).await;
    let store = shop.store.clone();
    let ran = shop.run(async move |mut op| {
        store.step(&mut op, "drafted", async |tx| insert(tx).await).await?;
        store.step(&mut op, "checked", async |tx| insert(tx).await).await?;
        order(store.begin(op).await?).await
    });
    assert!(executed(&ran.await));
    assert_eq!(shop.orders().await, 3);
    idle(&shop.store).await;
    assert_eq!(shop.proxy.connections(), 1, "the connection was kept all along");
}

#[tokio::test]
async fn p19_a_transaction_of_the_application_may_carry_the_operation() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut own = store.pool().begin().await?;
        insert(&mut own).await?;
        order(store.begin_in(own, op).await?).await
    });
    assert!(executed(&ran.await));
    assert_eq!(shop.orders().await, 2);
}

#[tokio::test]
async fn p19_and_is_refused_above_read_committed_before_it_has_locked_anything() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let shop = Shop::new().await;
        let store = shop.store.clone();
        let begin = if level == "SERIALIZABLE" {
            "BEGIN ISOLATION LEVEL SERIALIZABLE"
        } else {
            "BEGIN ISOLATION LEVEL REPEATABLE READ"
        };
        let ran = shop.run(async move |op| {
            let mut own = store.pool().begin_with(begin).await?;
            insert(&mut own).await?;
            order(store.begin_in(own, op).await?).await
        });
        let ran = ran.await;
        assert_eq!(told(&ran), Some(ErrorKind::Invalid), "{level}: {ran:?}");
        assert_eq!(shop.orders().await, 0, "what was done before is rolled back");
    }
}

#[tokio::test]
async fn s08_a_store_that_does_not_have_the_record_refuses() {
    let shop = Shop::new().await;
    let another =
        PostgresStore::with(pool(&shop.rig.database, 2), Settings::new().table("other_key").expect("a name"));
    another.migrate().await.expect("another table");
    let ran = shop.run(async move |op| order(another.begin(op).await?).await).await;
    assert!(matches!(ran, Ok(Answer::InProgress { .. })), "{ran:?}");
    assert_eq!(shop.orders().await, 0);
}

#[tokio::test]
async fn b012_what_the_fence_set_for_itself_is_undone_and_the_idle_limit_is_the_lease() {
    let shop = Shop::new().await;
    let store = shop.store.clone();
    let ran = shop.run(async move |op| {
        let mut phase = store.begin(op).await?;
        let (wait, idle): (String, String) = sqlx::query_as(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')",
        )
        .fetch_one(&mut *phase)
        .await?;
        assert_eq!(wait, "0", "the application's statements wait as they always do");
        let millis: u64 = idle.trim_end_matches("ms").parse().expect("milliseconds");
        let lease = u64::try_from(LEASE.as_millis())?;
        assert!((lease - 10_000..=lease).contains(&millis), "{idle}");
        order(phase).await
    });
    assert!(executed(&ran.await));
    // Neither outlives the transaction.
    let left: (String, String) = sqlx::query_as(
        "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')",
    )
    .fetch_one(shop.store.pool())
    .await
    .expect("settings");
    assert_eq!(left, ("0".to_owned(), "0".to_owned()));
}

#[tokio::test]
async fn p06_a_fence_that_cannot_be_had_leaves_nothing_and_is_tried_again() {
    for fault in [idem_test_support::Fault::LoseRequest, idem_test_support::Fault::LoseReply] {
        for statement in ["BEGIN", "read_committed", "INSERT INTO orders", "SET status = 'completed'"] {
            let shop = Shop::new().await;
            let strike = shop.strike(statement, fault);
            let ran = shop.order().await;
            strike.struck().await;
            assert!(matches!(ran, Err(RunError::Work(_))), "{statement} {fault:?}: {ran:?}");
            assert_eq!(shop.orders().await, 0, "{statement} {fault:?}");
            let again = shop.order().await;
            assert!(executed(&again), "{statement} {fault:?}: {again:?}");
            assert_eq!(shop.orders().await, 1, "{statement} {fault:?}");
        }
    }
}
