//! What a relay holds while it publishes, what wakes it, what it leaves behind.

use std::time::Duration;

use idem_core::Maintain as _;
use idem_postgres::{MemoryPublisher, Relay};
use tokio::time::timeout;

use crate::rig::{Broker, Rig, message};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn o10_no_transaction_is_open_while_it_publishes() {
    let rig = Rig::new().await;
    rig.add(vec![message("x")]).await;
    let broker = Broker::closed();
    let relay = rig.relay(&broker);
    let pass = tokio::spawn(async move { relay.pass().await.unwrap() });
    broker.arrived().await;
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)";
    assert_eq!(rig.count(open).await, 0);
    let locks = "SELECT count(*) FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid <> pg_backend_pid()";
    assert_eq!(rig.count(locks).await, 0);
    broker.open();
    assert_eq!(pass.await.unwrap().published, 1);
}

#[tokio::test]
async fn o12_a_lost_listener_delays_and_loses_nothing() {
    let rig = Rig::new().await;
    let (publisher, mut received) = MemoryPublisher::bounded(10);
    let relay = Relay::new(rig.store.clone(), publisher).listening().every(Duration::from_millis(20));
    let running = tokio::spawn(relay.run());
    let listeners =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    timeout(SOON, async { while rig.count(listeners).await == 0 {} }).await.expect("somebody listens");
    rig.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'LISTEN%'",
    )
    .await;
    let ids = rig.add(vec![message("x")]).await;
    let message = timeout(SOON, received.recv()).await.expect("it polls").expect("a message");
    assert_eq!(message.id(), ids[0]);
    running.abort();
}

#[tokio::test]
async fn o12_a_notification_ends_the_pause() {
    let rig = Rig::new().await;
    let (publisher, mut received) = MemoryPublisher::bounded(10);
    let relay = Relay::new(rig.store.clone(), publisher).listening().every(Duration::from_hours(1));
    let running = tokio::spawn(relay.run());
    let listeners =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'
         AND state = 'idle'";
    timeout(SOON, async { while rig.count(listeners).await == 0 {} }).await.expect("somebody listens");
    rig.add(vec![message("x")]).await;
    rig.sql("NOTIFY idempotency_key_outbox").await;
    timeout(SOON, received.recv()).await.expect("it was woken").expect("a message");
    running.abort();
}

#[tokio::test]
async fn o15_only_what_is_published_and_old_enough_is_swept() {
    let rig = Rig::new().await;
    let broker = Broker::that(|it| match &it.payload()[..] {
        b"poison" => Err("refused".into()),
        _ => Ok(()),
    });
    rig.add(vec![message("a"), message("b"), message("poison")]).await;
    let relay = rig.relay(&broker).max_tries(1).keep(Duration::from_mins(90));
    relay.pass().await.unwrap();
    rig.elapse().await;
    rig.add(vec![message("waits")]).await;
    assert_eq!(rig.store.sweep(100).await.unwrap(), 0, "90 minutes are not over");
    rig.elapse().await;
    assert_eq!(rig.store.sweep(1).await.unwrap(), 1);
    assert_eq!(rig.store.sweep(100).await.unwrap(), 1);
    let depth = rig.store.outbox_depth().await.unwrap();
    assert_eq!((depth.waiting, depth.parked), (1, 1));

    let relay = relay.keep(Duration::ZERO);
    assert_eq!(relay.pass().await.unwrap().published, 1);
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key_outbox").await, 1, "the parked one");
}

#[tokio::test]
async fn o17_the_depth_and_the_age_of_the_oldest_are_told() {
    let rig = Rig::new().await;
    let depth = rig.store.outbox_depth().await.unwrap();
    assert_eq!((depth.waiting, depth.parked, depth.oldest), (0, 0, Duration::ZERO));
    rig.add(vec![message("old")]).await;
    rig.elapse().await;
    rig.add(vec![message("new"), message("new")]).await;
    let depth = rig.store.outbox_depth().await.unwrap();
    assert_eq!(depth.waiting, 3);
    assert!((3600..4000).contains(&depth.oldest.as_secs()), "{depth:?}");
    rig.relay(&Broker::new()).pass().await.unwrap();
    let depth = rig.store.outbox_depth().await.unwrap();
    assert_eq!((depth.waiting, depth.oldest), (0, Duration::ZERO));
}
