//! Deliveries of one event at once.

use std::sync::Arc;

use idem_core::ErrorKind;
use idem_postgres::Settings;
use tokio::sync::Barrier;

use crate::rig::{LEDGER, Rig, act, deliver, kind};

const CONSUMERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i02_of_many_deliveries_at_once_one_has_its_effect_and_none_an_error() {
    let rig = Rig::new().await;
    for round in 0..20 {
        let event = format!("paid-{round}");
        let barrier = Arc::new(Barrier::new(CONSUMERS));
        let deliveries: Vec<_> = (0..CONSUMERS)
            .map(|_| {
                let (store, event, barrier) = (rig.store.clone(), event.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    deliver(&store, LEDGER, &event).await
                })
            })
            .collect();
        let mut first = 0;
        for delivery in deliveries {
            first += usize::from(delivery.await.unwrap().expect("no error"));
        }
        assert_eq!((first, rig.effects(&event).await), (1, 1));
    }
}

#[tokio::test]
async fn i02_a_duplicate_waits_for_the_first_one_and_is_told_how_it_ended() {
    let rig = Rig::new().await;
    for (event, commits) in [("paid-1", true), ("paid-2", false)] {
        let mut first = rig.begin().await;
        assert_eq!(rig.once(&mut first, event).await.ok(), Some(true));
        act(&mut first, LEDGER, event).await;
        let store = rig.store.clone();
        let duplicate = tokio::spawn(async move { deliver(&store, LEDGER, event).await });
        rig.blocked(1).await;
        if commits {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        assert_eq!(duplicate.await.unwrap().ok(), Some(!commits), "{event}");
        assert_eq!(rig.effects(event).await, 1, "{event}");
    }
}

#[tokio::test]
async fn i02_a_wait_has_an_end_and_leaves_the_callers_settings_alone() {
    let rig = Rig::with(Settings::new().lock_timeout(std::time::Duration::from_millis(50)).unwrap()).await;
    let mut slow = rig.begin().await;
    assert_eq!(rig.once(&mut slow, "paid-1").await.ok(), Some(true));
    let waited = rig.deliver("paid-1").await;
    assert_eq!(kind(&waited), Some(ErrorKind::Unavailable), "{waited:?}");
    act(&mut slow, LEDGER, "paid-1").await;
    slow.commit().await.unwrap();
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(false), "delivered again");
    assert_eq!(rig.effects("paid-1").await, 1);

    for own in ["0", "7s"] {
        let mut tx = rig.begin().await;
        let set = "SELECT set_config('lock_timeout', $1, true)";
        sqlx::query(set).bind(own).execute(&mut *tx).await.unwrap();
        for (event, first) in [("paid-1", false), ("paid-2", true)] {
            assert_eq!(rig.once(&mut tx, event).await.ok(), Some(first));
            let after: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
            assert_eq!(after, own, "{event}");
        }
    }
}

#[tokio::test]
async fn i02_above_read_committed_a_duplicate_that_came_later_is_delivered_again() {
    let rig = Rig::new().await;
    for (level, event) in [("REPEATABLE READ", "paid-1"), ("SERIALIZABLE", "paid-2")] {
        assert_eq!(rig.deliver(&format!("{event}-before")).await.ok(), Some(true));
        let mut tx = rig.begin().await;
        let set = sqlx::AssertSqlSafe(format!("SET TRANSACTION ISOLATION LEVEL {level}"));
        sqlx::query(set).execute(&mut *tx).await.unwrap();
        // Its snapshot is from here.
        let before = rig.once(&mut tx, &format!("{event}-before")).await;
        assert_eq!(before.ok(), Some(false), "{level}: it sees what was committed before it");
        assert_eq!(rig.deliver(event).await.ok(), Some(true));
        let after = rig.once(&mut tx, event).await;
        assert_eq!(kind(&after), Some(ErrorKind::Unavailable), "{level}: {after:?}");
        drop(tx);
        assert_eq!(rig.deliver(event).await.ok(), Some(false), "{level}");
        assert_eq!(rig.effects(event).await, 1, "{level}");
    }
}
