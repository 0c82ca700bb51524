//! Messages of one order key.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use idem_postgres::{PostgresStore, Relay};
use tokio::{sync::Barrier, task::JoinSet};

use crate::rig::{Broker, Rig, message, ordered, pool, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn o09_the_order_of_a_key_is_kept_by_several_relays_that_fail_at_random() {
    const KEYS: usize = 12;
    const EACH: usize = 15;
    const RELAYS: usize = 4;
    let rig = Rig::new().await;
    let all = (0..KEYS * EACH).map(|n| ordered(&format!("key {}", n % KEYS), &n.to_string()));
    rig.add(all.collect()).await;
    let dice = RandomState::new();
    let broker = Broker::that(move |it| {
        if dice.hash_one((text(it), it.tries())).is_multiple_of(3) { Err("bad luck".into()) } else { Ok(()) }
    });
    let (mut rounds, mut failed) = (0, 0);
    while rig.published().await < i64::try_from(KEYS * EACH).unwrap() {
        rounds += 1;
        assert!(rounds < 500, "it does not end");
        // Only pauses are over, no leases: so each is acknowledged once, and the order is that of the log.
        rig.sql("UPDATE idempotency_key_outbox SET due_at = created_at WHERE token IS NULL AND published_at IS NULL")
            .await;
        let barrier = Arc::new(Barrier::new(RELAYS));
        let mut relays = JoinSet::new();
        for _ in 0..RELAYS {
            let store = PostgresStore::new(pool(&rig.database, 1));
            let relay = Relay::new(store, broker.clone()).batch(7).max_tries(1000);
            let barrier = Arc::clone(&barrier);
            relays.spawn(async move {
                barrier.wait().await;
                relay.pass().await.unwrap().failed
            });
        }
        failed += relays.join_all().await.into_iter().sum::<u64>();
    }
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for message in broker.log() {
        by_key
            .entry(message.order_key().unwrap().to_owned())
            .or_default()
            .push(text(&message).parse().unwrap());
    }
    println!("{KEYS} keys of {EACH}, {RELAYS} relays, {failed} failures in {rounds} rounds");
    assert!(failed > 0);
    assert!(by_key.values().all(|seen| seen.len() == EACH && seen.is_sorted()), "{by_key:?}");
}

#[tokio::test]
async fn o09_one_relay_at_a_time_has_a_key() {
    let rig = Rig::new().await;
    rig.add(vec![ordered("k", "1")]).await;
    let slow = Broker::closed();
    let relay = rig.relay(&slow);
    let first = tokio::spawn(async move { relay.pass().await.unwrap() });
    slow.arrived().await;
    rig.add(vec![ordered("k", "2"), message("beside")]).await;
    let broker = Broker::new();
    assert_eq!(rig.relay(&broker).pass().await.unwrap().published, 1);
    assert_eq!(broker.log().iter().map(text).collect::<Vec<_>>(), ["beside"]);
    slow.open();
    first.await.unwrap();
    assert_eq!(slow.log().iter().map(text).collect::<Vec<_>>(), ["1", "2"]);
}

#[tokio::test]
async fn o09_a_row_that_somebody_holds_stands_in_the_way_of_those_behind_it() {
    let rig = Rig::new().await;
    let ids = rig.add(vec![ordered("k", "1"), ordered("k", "2"), ordered("l", "3")]).await;
    let mut holder = rig.begin().await;
    sqlx::query("SELECT FROM idempotency_key_outbox WHERE id = $1 FOR UPDATE")
        .bind(ids[0].uuid())
        .execute(&mut *holder)
        .await
        .unwrap();
    let broker = Broker::new();
    assert_eq!(rig.relay(&broker).pass().await.unwrap().published, 1);
    holder.rollback().await.unwrap();
    assert_eq!(rig.relay(&broker).pass().await.unwrap().published, 2);
    assert_eq!(broker.ids(), [ids[2], ids[0], ids[1]]);
}

#[tokio::test]
async fn o09_a_failure_stops_its_key_and_gives_the_rest_back_untried() {
    let rig = Rig::new().await;
    let broker =
        Broker::that(|it| if text(it) == "2" && it.tries() == 0 { Err("once".into()) } else { Ok(()) });
    rig.add(vec![ordered("k", "1"), ordered("k", "2"), ordered("k", "3"), message("beside")]).await;
    let relay = rig.relay(&broker);
    let report = relay.pass().await.unwrap();
    assert_eq!((report.published, report.failed, report.given_back), (2, 1, 1));
    rig.elapse().await;
    relay.pass().await.unwrap();
    let of_key: Vec<_> = broker.log().into_iter().filter(|it| it.order_key().is_some()).collect();
    assert_eq!(of_key.iter().map(text).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(of_key[2].tries(), 0, "what was given back was not tried");
}
