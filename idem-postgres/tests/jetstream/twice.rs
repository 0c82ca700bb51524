//! Messages that are published again, since nobody heard that they were taken.

use std::collections::BTreeSet;

use idem_postgres::Publisher as _;
use idem_test_support::nats;

use crate::rig::{Ledger, Rig, id_of, message};

#[tokio::test]
async fn o03_a_duplicate_inside_the_window_is_dropped_by_the_broker_and_counts_as_published() {
    let rig = Rig::new(nats()).await;
    let (one, other) = (message("order.charged"), message("order.charged"));
    for message in [&one, &one, &other, &one] {
        rig.publisher.publish(message).await.expect("it is acknowledged");
    }
    assert_eq!(rig.kept().await, 2);
    let ids: Vec<_> = rig.take(2).await.iter().map(id_of).collect();
    assert_eq!(ids, [one.id().to_string(), other.id().to_string()]);
}

#[tokio::test]
async fn i01_a_duplicate_that_no_window_caught_has_one_effect() {
    // A window ends where a stream does, so of two streams each keeps the message.
    let (rig, other) = (Rig::new(nats()).await, Rig::new(nats()).await);
    let ledger = Ledger::new().await;
    let sent: Vec<_> = (0..10).map(|_| message("order.charged")).collect();
    for message in &sent {
        rig.publisher.publish(message).await.expect("it is acknowledged");
        other.publisher.publish(message).await.expect("it is acknowledged");
    }
    let mut taken = rig.take(10).await;
    taken.extend(other.take(10).await);
    let ids: BTreeSet<_> = taken.iter().map(id_of).collect();
    assert_eq!(ids, sent.iter().map(|message| message.id().to_string()).collect(), "the same ids again");
    let mut first = 0;
    for message in &taken {
        first += usize::from(ledger.consume(message).await);
    }
    assert_eq!((taken.len(), first, ledger.effects().await), (20, 10, 10));
}

#[tokio::test]
async fn i03_a_delivery_that_was_not_acknowledged_comes_again_and_has_no_second_effect() {
    let rig = Rig::new(nats()).await;
    let ledger = Ledger::new().await;
    rig.publisher.publish(&message("order.charged")).await.expect("it is acknowledged");
    let taken = rig.take(1).await;
    let delivery = taken.first().unwrap();
    // The consumer commits and dies before the broker hears of it.
    let mut tx = ledger.store.pool().begin().await.unwrap();
    assert_eq!(ledger.store.inbox().once(&mut tx, "ledger", &id_of(delivery)).await.ok(), Some(true));
    tx.commit().await.unwrap();
    delivery.ack_with(async_nats::jetstream::AckKind::Nak(None)).await.unwrap();
    let again = rig.take(1).await;
    assert_eq!(again.first().map(id_of), Some(id_of(delivery)));
    assert_eq!(again.first().unwrap().info().unwrap().delivered, 2);
    assert!(!ledger.consume(again.first().unwrap()).await);
}
