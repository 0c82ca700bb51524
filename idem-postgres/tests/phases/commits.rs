//! Commits that are refused, lost, late or not answered.

use std::time::Duration;

use idem_core::{Answer, ErrorKind, RunError, State};
use idem_test_support::{Fault, contains};
use tokio::sync::oneshot;

use crate::{
    rig::print,
    shop::{LEASE, Shop, executed, key, order, policy, replayed, told},
};

#[tokio::test]
async fn o01_the_order_and_its_answer_are_there_together() {
    let shop = Shop::new().await;
    let Ok(Answer::Executed(first)) = shop.order().await else { panic!("it ran") };
    let Ok(Answer::Replayed(again)) = shop.order().await else { panic!("it is replayed") };
    assert_eq!((&first, shop.orders().await), (&again, 1));
    // Begin, fence, order, answer, commit.
    let seen = shop.proxy.statements();
    let from = seen.iter().position(|sql| sql.starts_with("BEGIN")).expect("a transaction");
    let kinds: Vec<_> =
        seen[from..from + 5].iter().map(|sql| sql.trim_start().chars().take(5).collect::<String>()).collect();
    assert_eq!(kinds, ["BEGIN", "WITH ", "INSER", "WITH ", "COMMI"]);
}

#[tokio::test]
async fn p07_a_commit_whose_request_or_reply_was_lost_is_settled_either_way() {
    for (fault, committed) in [(Fault::LoseReply, true), (Fault::LoseRequest, false)] {
        let shop = Shop::new().await;
        let strike = shop.strike_commit(fault);
        let ran = shop.order().await;
        strike.struck().await;
        assert_eq!(executed(&ran), committed, "{fault:?}: {ran:?}");
        assert_eq!(told(&ran), (!committed).then_some(ErrorKind::RolledBack), "{fault:?}: {ran:?}");
        assert_eq!(shop.orders().await, i64::from(committed), "{fault:?}");
        let again = shop.order().await;
        assert!(if committed { replayed(&again) } else { executed(&again) }, "{fault:?}: {again:?}");
        assert_eq!(shop.orders().await, 1, "{fault:?}");
    }
}

#[tokio::test]
async fn p07_a_commit_that_lands_while_it_is_being_settled_is_waited_for() {
    let shop = Shop::new().await;
    // The client is cut off, and the server has not seen the commit yet: a look would find a record in progress.
    let strike = shop.strike_commit(Fault::Late);
    let (ran, ()) = tokio::join!(shop.order(), async {
        strike.struck().await;
        // What settles it waits for the row that the transaction still holds.
        shop.rig.blocked(1).await;
        strike.release().await;
    });
    assert!(executed(&ran), "{ran:?}");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn t08_what_is_refused_at_the_commit_leaves_nothing() {
    let shop = Shop::new().await;
    shop.rig
        .sql(
            "CREATE TABLE item (name text PRIMARY KEY); ALTER TABLE orders ADD FOREIGN KEY (item) REFERENCES item
             DEFERRABLE INITIALLY DEFERRED",
        )
        .await;
    let ran = shop.order().await;
    assert_eq!(told(&ran), Some(ErrorKind::Invalid), "{ran:?}");
    assert_eq!(shop.orders().await, 0);
    assert!(matches!(shop.rig.record(&key()).await.expect("a record").state, State::Failed { .. }));
    shop.rig.sql("INSERT INTO item VALUES ('book')").await;
    assert!(executed(&shop.order().await));
}

#[tokio::test]
async fn t16_a_deadlock_is_handed_back_and_the_retry_does_it() {
    let shop = Shop::new().await;
    shop.rig.sql("CREATE TABLE stock (item text PRIMARY KEY); INSERT INTO stock VALUES ('a'), ('b')").await;
    let store = shop.store.clone();
    let mut other = shop.rig.direct.begin().await.expect("a transaction");
    // The victim is whoever waits longest for the cycle to be seen: ours.
    sqlx::query("SET LOCAL deadlock_timeout = '1h'").execute(&mut *other).await.expect("a setting");
    sqlx::query("UPDATE stock SET item = item WHERE item = 'b'").execute(&mut *other).await.expect("a lock");
    let (ran, ()) = tokio::join!(
        shop.run(async move |op| {
            let mut phase = store.begin(op).await?;
            sqlx::query("SET LOCAL deadlock_timeout = '10ms'").execute(&mut *phase).await?;
            sqlx::query("UPDATE stock SET item = item WHERE item = 'a'").execute(&mut *phase).await?;
            sqlx::query("UPDATE stock SET item = item WHERE item = 'b'").execute(&mut *phase).await?;
            order(phase).await
        }),
        async {
            shop.rig.blocked(1).await;
            sqlx::query("UPDATE stock SET item = item WHERE item = 'a'")
                .execute(&mut *other)
                .await
                .expect("ours gave way");
            other.rollback().await.expect("a rollback");
        }
    );
    assert!(ran.is_err(), "{ran:?}");
    assert_eq!(shop.orders().await, 0);
    assert!(executed(&shop.order().await));
}

#[tokio::test]
async fn s14_a_commit_that_nobody_can_settle_is_unknown_to_its_caller_and_known_to_a_retry() {
    for (fault, committed) in [(Fault::LoseReply, true), (Fault::LoseRequest, false)] {
        let shop = Shop::new().await;
        let (store, proxy) = (shop.store.clone(), &shop.proxy);
        let strike = shop.strike_commit(fault);
        let (begun, wait) = oneshot::channel();
        let (go, told_to_go) = oneshot::channel::<()>();
        let work = async move |op| {
            let phase = store.begin(op).await?;
            begun.send(()).expect("somebody waits");
            told_to_go.await?;
            order(phase).await
        };
        let hasty = policy().settle_within(Duration::from_millis(500));
        let (ran, ()) = tokio::join!(shop.engine.run(key(), print(1), &hasty, work), async {
            wait.await.expect("it begins");
            proxy.every(contains("AS judged"), Fault::LoseRequest);
            go.send(()).expect("it waits");
        });
        strike.struck().await;
        assert!(
            matches!(&ran, Err(RunError::Engine(error)) if error.kind() == ErrorKind::Unknown),
            "{ran:?}"
        );
        shop.rig.elapse(LEASE).await;
        let again = shop.order_elsewhere().await;
        assert!(if committed { replayed(&again) } else { executed(&again) }, "{fault:?}: {again:?}");
        assert_eq!(shop.orders().await, 1, "{fault:?}");
    }
}
