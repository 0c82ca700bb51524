//! Late commits, several relays, and a relay that wakes up too late.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use idem_postgres::{PostgresStore, Relay};
use tokio::{sync::Barrier, task::JoinSet};

use crate::rig::{Broker, Rig, message, pool};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn o05_what_is_committed_out_of_order_arrives_all_the_same() {
    const WRITERS: usize = 16;
    const ROUNDS: usize = 10;
    let rig = Rig::new().await;
    let (broker, done) = (Broker::new(), Arc::new(AtomicBool::new(false)));
    let (relay, stop) = (rig.relay(&broker), Arc::clone(&done));
    let relaying = tokio::spawn(async move {
        let mut passes = 0;
        while !stop.load(Ordering::Relaxed) {
            relay.pass().await.unwrap();
            passes += 1;
        }
        relay.pass().await.unwrap();
        passes
    });
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        let mut open = Vec::new();
        for _ in 0..WRITERS {
            let mut tx = rig.begin().await;
            for _ in 0..3 {
                expected.push(rig.store.outbox().add(&mut tx, message("x")).await.unwrap());
            }
            open.push(tx);
        }
        // The last numbers first; then every other one.
        if round % 2 == 0 {
            open.reverse();
        } else {
            open.rotate_left(WRITERS / 3);
        }
        for tx in open {
            tx.commit().await.unwrap();
        }
    }
    done.store(true, Ordering::Relaxed);
    let passes = relaying.await.unwrap();
    let counts = broker.counts();
    let missing = expected.iter().filter(|id| !counts.contains_key(id)).count();
    println!(
        "added {}, arrived {}, missing {missing}, twice {}, passes {passes}",
        expected.len(),
        counts.len(),
        counts.values().filter(|times| **times > 1).count()
    );
    assert_eq!((missing, counts.len()), (0, WRITERS * ROUNDS * 3));
}

#[tokio::test]
async fn o07_a_commit_between_claim_and_mark_is_not_marked() {
    let rig = Rig::new().await;
    let broker = Broker::closed();
    let mut late = rig.begin().await;
    let lower = rig.store.outbox().add(&mut late, message("lower")).await.unwrap();
    let higher = rig.add(vec![message("higher")]).await;
    let relay = rig.relay(&broker);
    let first = tokio::spawn(async move { relay.pass().await.unwrap() });
    broker.arrived().await;
    late.commit().await.unwrap();
    assert_eq!(rig.published().await, 0);
    broker.open();
    assert_eq!(first.await.unwrap().published, 2, "its second batch finds the late one");
    assert_eq!(broker.ids(), [higher[0], lower]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn o08_four_relays_share_the_work() {
    const MESSAGES: usize = 10_000;
    const RELAYS: usize = 4;
    let rig = Rig::new().await;
    for _ in 0..MESSAGES / 1000 {
        rig.add(vec![message("x"); 1000]).await;
    }
    let broker = Broker::new();
    let barrier = Arc::new(Barrier::new(RELAYS));
    let mut relays = JoinSet::new();
    for _ in 0..RELAYS {
        let relay = Relay::new(PostgresStore::new(pool(&rig.database, 2)), broker.clone());
        let barrier = Arc::clone(&barrier);
        relays.spawn(async move {
            barrier.wait().await;
            relay.pass().await.unwrap().published
        });
    }
    let mut shares = relays.join_all().await;
    shares.sort_unstable();
    let counts = broker.counts();
    println!("{MESSAGES} messages, {RELAYS} relays, published by each {shares:?}");
    assert_eq!((counts.len(), broker.ids().len()), (MESSAGES, MESSAGES), "all, and no lease was over");
    assert!(shares[0] > 0, "none starved: {shares:?}");
    assert_eq!(rig.published().await, 10_000);
}

#[tokio::test]
async fn s18_a_relay_whose_lease_was_taken_over_marks_nothing() {
    let rig = Rig::new().await;
    let ids = rig.add(vec![message("x")]).await;
    let slow = Broker::closed();
    let relay = rig.relay(&slow);
    let paused = tokio::spawn(async move { relay.pass().await.unwrap() });
    slow.arrived().await;
    rig.elapse().await;
    // The other one has it claimed, too, when the first one wakes up.
    let broker = Broker::closed();
    let relay = rig.relay(&broker);
    let other = tokio::spawn(async move { relay.pass().await.unwrap() });
    broker.arrived().await;
    slow.open();
    let report = paused.await.unwrap();
    assert_eq!((report.published, report.lost), (0, 1));
    assert_eq!(rig.published().await, 0, "it is the other one's to mark");
    broker.open();
    assert_eq!(other.await.unwrap().published, 1);
    assert_eq!((slow.ids(), broker.ids()), (ids.clone(), ids));
}
