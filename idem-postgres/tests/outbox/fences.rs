//! Relays that were overtaken, and operators who ask while one is at work.

use idem_core::StoreError;
use idem_postgres::{Relay, Relayed};
use tokio::task::JoinHandle;

use crate::rig::{Broker, Rig, message, ordered, text};

/// A pass of a relay that is in the middle of publishing.
async fn publishing(relay: Relay, broker: &Broker) -> JoinHandle<Result<Relayed, StoreError>> {
    let pass = tokio::spawn(async move { relay.pass().await });
    broker.arrived().await;
    pass
}

#[tokio::test]
async fn s18_a_relay_that_was_overtaken_notes_neither_a_failure_nor_what_it_gives_back() {
    let rig = Rig::new().await;
    rig.add(vec![ordered("k", "1"), ordered("k", "2")]).await;
    let slow = Broker::that(|_| Err("refused".into())).shut();
    let paused = publishing(rig.relay(&slow), &slow).await;
    rig.elapse().await;
    let broker = Broker::closed();
    let other = publishing(rig.relay(&broker), &broker).await;
    slow.open();
    let report = paused.await.unwrap().unwrap();
    assert_eq!((report.failed, report.given_back, report.lost), (0, 0, 1));
    let untouched = "SELECT count(*) FROM idempotency_key_outbox
        WHERE tries = 2 AND error IS NULL AND token IS NOT NULL AND due_at > clock_timestamp()";
    assert_eq!(rig.count(untouched).await, 2);
    broker.open();
    assert_eq!(other.await.unwrap().unwrap().published, 2);
    assert_eq!(broker.log().iter().map(text).collect::<Vec<_>>(), ["1", "2"]);
}

#[tokio::test]
async fn s18_a_relay_that_was_overtaken_deletes_nothing() {
    let rig = Rig::new().await;
    rig.add(vec![message("x")]).await;
    let slow = Broker::closed();
    let at_once = std::time::Duration::ZERO;
    let paused = publishing(rig.relay(&slow).keep(at_once), &slow).await;
    rig.elapse().await;
    let broker = Broker::closed();
    let other = publishing(rig.relay(&broker).keep(at_once), &broker).await;
    slow.open();
    let report = paused.await.unwrap().unwrap();
    assert_eq!((report.published, report.lost), (0, 1));
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key_outbox").await, 1);
    broker.open();
    assert_eq!(other.await.unwrap().unwrap().published, 1);
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key_outbox").await, 0);
}

#[tokio::test]
async fn o11_what_is_just_being_published_is_not_given_to_another_by_asking_again() {
    let rig = Rig::new().await;
    let ids = rig.add(vec![message("x")]).await;
    let broker = Broker::closed();
    let pass = publishing(rig.relay(&broker), &broker).await;
    assert!(rig.store.emit_again(ids[0]).await.unwrap());
    let other = Broker::new();
    assert_eq!(rig.relay(&other).pass().await.unwrap().claimed, 0);
    broker.open();
    assert_eq!(pass.await.unwrap().unwrap().published, 1);
}

#[tokio::test]
async fn o11_a_parked_message_that_is_asked_for_again_has_all_its_tries() {
    let rig = Rig::new().await;
    let ids = rig.add(vec![message("poison")]).await;
    let relay = rig.relay(&Broker::that(|_| Err("refused".into()))).max_tries(2);
    relay.pass().await.unwrap();
    rig.elapse().await;
    assert_eq!(relay.pass().await.unwrap().parked, 1);
    assert!(rig.store.emit_again(ids[0]).await.unwrap());
    let report = relay.pass().await.unwrap();
    assert_eq!((report.failed, report.parked), (1, 0));
}

#[tokio::test]
async fn o11_the_pauses_double_and_end_at_a_quarter_of_an_hour() {
    let rig = Rig::new().await;
    rig.add(vec![message("poison")]).await;
    let relay = rig.relay(&Broker::that(|_| Err("refused".into()))).max_tries(1000);
    for (tries, seconds) in [(0, 1), (1, 2), (2, 4), (9, 512), (10, 900), (500, 900)] {
        // As often as this it has failed before; it is due, and nothing has passed since.
        let failed = format!(
            "UPDATE idempotency_key_outbox SET tries = {tries}, due_at = clock_timestamp(), created_at = clock_timestamp()"
        );
        rig.sql(failed).await;
        assert_eq!(relay.pass().await.unwrap().failed, 1);
        let within = format!(
            "DO $$ BEGIN ASSERT (SELECT due_at BETWEEN created_at + {seconds} * interval '1 second'
                AND clock_timestamp() + {seconds} * interval '1 second' FROM idempotency_key_outbox); END $$"
        );
        rig.sql(within).await;
    }
}
