//! Messages that cannot go yet keep none from going that can.

use idem_postgres::MessageId;

use crate::rig::{Broker, Rig, message, ordered, text};

/// `count` messages of the key "k", named by their numbers from 0.
async fn of_one_key(rig: &Rig, count: usize) -> Vec<MessageId> {
    rig.add((0..count).map(|n| ordered("k", &n.to_string())).collect()).await
}

#[tokio::test]
async fn o09_a_message_that_failed_is_found_before_those_behind_it() {
    let rig = Rig::new().await;
    let ids = of_one_key(&rig, 30).await;
    let broker =
        Broker::that(|it| if text(it) == "0" && it.tries() == 0 { Err("once".into()) } else { Ok(()) });
    let relay = rig.relay(&broker).batch(5);
    assert_eq!(relay.pass().await.unwrap().failed, 1);
    let beside = rig.add(vec![message("beside")]).await;
    // Its pause is over, and it has come due after all that is behind it.
    rig.elapse().await;
    assert_eq!(relay.pass().await.unwrap().published, 31);
    let of_key: Vec<_> = broker.ids().into_iter().filter(|id| *id != beside[0]).collect();
    assert_eq!(of_key, ids);
}

#[tokio::test]
async fn o09_messages_of_a_key_that_came_due_in_another_order_go_in_theirs() {
    let rig = Rig::new().await;
    let ids = of_one_key(&rig, 3).await;
    rig.sql("UPDATE idempotency_key_outbox SET due_at = due_at - seq * interval '1 minute'").await;
    let broker = Broker::new();
    assert_eq!(rig.relay(&broker).batch(1).pass().await.unwrap().published, 3);
    assert_eq!(broker.ids(), ids);
}

#[tokio::test]
async fn o11_a_key_that_somebody_holds_keeps_nobody_else_waiting_however_much_is_behind_it() {
    let rig = Rig::new().await;
    let ids = of_one_key(&rig, 30).await;
    let beside = rig.add(vec![message("beside"), ordered("l", "too")]).await;
    let mut holder = rig.begin().await;
    let lock = sqlx::query("SELECT FROM idempotency_key_outbox WHERE id = $1 FOR UPDATE");
    lock.bind(ids[0].uuid()).execute(&mut *holder).await.unwrap();
    let broker = Broker::new();
    let relay = rig.relay(&broker).batch(5);
    assert_eq!(relay.pass().await.unwrap().published, 2);
    assert_eq!(broker.ids(), beside);
    holder.rollback().await.unwrap();
    assert_eq!(relay.pass().await.unwrap().published, 30);
    assert_eq!(broker.ids()[2..], ids);
}
