//! Brokers that refuse, marks that are lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use idem_core::StoreErrorKind;
use idem_postgres::{Message, PostgresStore, Relay};
use idem_test_support::{Fault, Proxy, contains, postgres};

use crate::rig::{Broker, Rig, message, ordered, text};

#[tokio::test]
async fn o03_a_crash_between_acknowledgement_and_mark_publishes_again_with_the_same_id() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        let rig = Rig::new().await;
        let proxy = Proxy::to(postgres().addr()).await;
        let far = PostgresStore::new(proxy.pool(&rig.database, 2).await);
        let ids = rig.add(vec![message("a")]).await;
        let broker = Broker::new();
        let strike = proxy.next(contains("SET published_at = t.now"), fault);
        let error = Relay::new(far, broker.clone()).pass().await.expect_err("the mark is lost");
        strike.struck().await;
        assert_eq!((error.kind(), broker.ids()), (StoreErrorKind::Unknown, ids.clone()));

        let relay = rig.relay(&broker);
        assert_eq!(relay.pass().await.unwrap().claimed, 0, "the lease still runs, or it is marked");
        rig.elapse().await;
        relay.pass().await.unwrap();
        let times = if fault == Fault::LoseRequest { 2 } else { 1 };
        assert_eq!(broker.ids(), vec![ids[0]; times], "{fault:?}");
        assert_eq!(rig.published().await, 1, "{fault:?}");
    }
}

#[tokio::test]
async fn o04_what_is_rolled_back_is_never_seen() {
    let rig = Rig::new().await;
    let broker = Broker::new();
    let mut tx = rig.store.pool().begin().await.unwrap();
    rig.store.outbox().add(&mut tx, message("undone")).await.unwrap();
    rig.relay(&broker).pass().await.unwrap();
    tx.rollback().await.unwrap();
    rig.relay(&broker).pass().await.unwrap();
    assert_eq!((broker.ids(), rig.store.outbox_depth().await.unwrap().waiting), (vec![], 0));
}

#[tokio::test]
async fn o11_poison_is_parked_with_its_error_and_holds_up_nobody() {
    let rig = Rig::new().await;
    let cured = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&cured);
    let broker = Broker::that(move |it| match text(it).as_str() {
        "poison" if !is_well.load(Ordering::Relaxed) => Err(format!("refused at {}", it.tries()).into()),
        "panic" => panic!("as a client may"),
        _ => Ok(()),
    });
    let mut all: Vec<Message> = (0..100).map(|n| message(&n.to_string())).collect();
    all.insert(0, message("poison"));
    all.insert(50, message("panic"));
    let ids = rig.add(all).await;
    let relay = rig.relay(&broker).max_tries(3).batch(10);
    let report = relay.pass().await.unwrap();
    assert_eq!((report.published, report.failed, report.parked), (100, 2, 0));
    // Not at once, and not before its time.
    assert_eq!(relay.pass().await.unwrap().claimed, 0);
    for _ in 0..2 {
        rig.elapse().await;
        relay.pass().await.unwrap();
    }
    rig.elapse().await;
    assert_eq!(relay.pass().await.unwrap().claimed, 0, "parked");

    let mut parked = rig.store.outbox_parked(10).await.unwrap();
    parked.sort_by_key(|it| it.error.clone());
    let errors: Vec<_> = parked.iter().map(|it| (it.id, it.tries, it.error.as_str())).collect();
    assert_eq!(errors, [(ids[0], 3, "refused at 2"), (ids[50], 3, "the publisher panicked")]);
    assert_eq!(parked[0].topic, "test");

    cured.store(true, Ordering::Relaxed);
    assert!(rig.store.emit_again(ids[0]).await.unwrap());
    assert_eq!(relay.pass().await.unwrap().published, 1);
    assert_eq!(broker.ids().last(), Some(&ids[0]));
    assert!(rig.store.emit_again(ids[0]).await.unwrap(), "a published one that is kept, too");
    assert_eq!(relay.pass().await.unwrap().published, 1);
    assert_eq!(broker.counts()[&ids[0]], 2);
    assert!(!rig.store.emit_again(uuid::Uuid::nil().into()).await.unwrap());
}

#[tokio::test]
async fn o11_a_parked_message_stops_its_own_key_unless_it_is_passed_over() {
    let rig = Rig::new().await;
    let broker = Broker::that(|it| if text(it) == "poison" { Err("refused".into()) } else { Ok(()) });
    rig.add(vec![ordered("k", "poison"), ordered("k", "behind"), ordered("l", "beside")]).await;
    let relay = rig.relay(&broker).max_tries(1);
    let report = relay.pass().await.unwrap();
    assert_eq!((report.published, report.parked, report.given_back), (1, 1, 1));
    rig.elapse().await;
    assert_eq!(relay.pass().await.unwrap().claimed, 0);
    assert_eq!(relay.pass_over_parked().pass().await.unwrap().published, 1);
    assert_eq!(broker.log().iter().map(text).collect::<Vec<_>>(), ["beside", "behind"]);
}

#[tokio::test]
async fn o16_what_arrives_is_what_was_added_byte_for_byte() {
    let rig = Rig::new().await;
    let broker = Broker::new();
    let bytes: Vec<u8> = (0..=255).collect();
    let message = Message::new("bytes", "application/x-own; q=1", bytes.clone())
        .and_then(|it| it.header("b", vec![0, 255]))
        .and_then(|it| it.header("a", ""))
        .and_then(|it| it.header("b", "again"))
        .unwrap();
    let empty = Message::new("empty", "text/plain", "").unwrap();
    rig.add(vec![message, empty]).await;
    rig.relay(&broker).concurrency(1).pass().await.unwrap();
    let log = broker.log();
    let headers: Vec<_> = log[0].headers().iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
    assert_eq!(headers, [("b", &[0, 255][..]), ("a", b""), ("b", b"again")]);
    assert_eq!((log[0].topic(), log[0].content_type()), ("bytes", "application/x-own; q=1"));
    assert_eq!((&log[0].payload()[..], log[0].tries()), (&bytes[..], 0));
    assert!(log[1].payload().is_empty() && log[1].headers().is_empty());
}
