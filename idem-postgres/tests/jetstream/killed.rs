//! A broker that is killed in the middle.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use idem_test_support::Nats;
use tokio::sync::Notify;

use crate::rig::{Ledger, Rig, id_of, message};

/// Too short for some that are under way when the server dies, so that these are published again.
const ACK_WITHIN: Duration = Duration::from_millis(200);
const MESSAGES: usize = 120;
/// The server is killed when so many were acknowledged, and again.
const KILLED_AFTER: [usize; 2] = [30, 80];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o03_every_message_arrives_though_the_server_is_killed_and_each_has_one_effect() {
    let server = Nats::own().await;
    let rig = Arc::new(Rig::new(&server).await.impatient(ACK_WITHIN));
    let ledger = Ledger::new().await;
    let sent: Vec<_> = (0..MESSAGES).map(|_| message("order.charged")).collect();

    let reached = Arc::new(Notify::new());
    let publishing = {
        let (rig, sent, reached) = (Arc::clone(&rig), sent.clone(), Arc::clone(&reached));
        tokio::spawn(async move {
            let mut tries = 0;
            for (number, message) in sent.iter().enumerate() {
                tries += rig.publish(message).await;
                if KILLED_AFTER.contains(&number) {
                    reached.notify_one();
                }
            }
            tries
        })
    };
    for _ in KILLED_AFTER {
        reached.notified().await;
        server.kill().await;
        server.start().await;
    }
    let tries = publishing.await.unwrap();
    assert!(tries >= MESSAGES, "each is tried until it is acknowledged");

    let kept = usize::try_from(rig.kept().await).unwrap();
    assert!(kept >= MESSAGES, "what was acknowledged is kept: {kept}");
    let mut deliveries = BTreeMap::new();
    for delivery in rig.take(kept).await {
        ledger.consume(&delivery).await;
        *deliveries.entry(id_of(&delivery)).or_insert(0) += 1;
    }
    let ids: Vec<_> = deliveries.keys().cloned().collect();
    let mut expected: Vec<_> = sent.iter().map(|message| message.id().to_string()).collect();
    expected.sort();
    assert_eq!(ids, expected, "every message, and none under another id");
    assert_eq!(usize::try_from(ledger.effects().await).unwrap(), MESSAGES);
}
