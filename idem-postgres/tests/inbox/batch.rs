//! Many deliveries in one statement.

use std::sync::Arc;

use idem_core::{Error, ErrorKind};
use idem_postgres::PostgresStore;
use tokio::sync::Barrier;

use crate::rig::{LEDGER, Rig};

/// Takes a batch in a transaction of its own.
async fn take(store: &PostgresStore, events: &[&str]) -> Result<Vec<bool>, Error> {
    let mut tx = store.pool().begin().await.expect("a transaction");
    let first = store.inbox().once_each(&mut tx, LEDGER, events).await?;
    tx.commit().await.expect("it commits");
    Ok(first)
}

#[tokio::test]
async fn i01_a_batch_is_answered_event_by_event_in_the_order_that_was_asked() {
    let rig = Rig::new().await;
    assert_eq!(rig.deliver("c").await.ok(), Some(true));
    assert_eq!(rig.deliver("a").await.ok(), Some(true));
    let asked = ["d", "c", "b", "d", "a", "b"];
    assert_eq!(take(&rig.store, &asked).await.unwrap(), [true, false, true, false, false, false]);
    assert_eq!(take(&rig.store, &asked).await.unwrap(), [false; 6]);
    assert!(take(&rig.store, &[]).await.unwrap().is_empty());
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key_inbox").await, 4);
}

#[tokio::test]
async fn i01_a_batch_with_one_bad_id_marks_nothing() {
    let rig = Rig::new().await;
    let refused = take(&rig.store, &["a", "", "b"]).await.expect_err("an empty id");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key_inbox").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i02_batches_in_opposite_orders_do_not_deadlock() {
    let rig = Rig::new().await;
    for round in 0..20 {
        let names: Vec<_> = (0..200).map(|number| format!("{round}-{number}")).collect();
        let barrier = Arc::new(Barrier::new(4));
        let batches: Vec<_> = (0..4)
            .map(|batch| {
                let (store, barrier, mut names) = (rig.store.clone(), Arc::clone(&barrier), names.clone());
                if batch % 2 == 1 {
                    names.reverse();
                }
                tokio::spawn(async move {
                    let events: Vec<_> = names.iter().map(String::as_str).collect();
                    barrier.wait().await;
                    take(&store, &events).await
                })
            })
            .collect();
        let mut first = 0;
        for batch in batches {
            first += batch.await.unwrap().expect("no deadlock").into_iter().filter(|first| *first).count();
        }
        assert_eq!(first, names.len(), "each event is a first one once");
    }
}

#[tokio::test]
async fn i02_a_batch_is_inserted_in_the_order_of_its_ids() {
    let rig = Rig::new().await;
    let names: Vec<_> = (0..500).map(|number| format!("{:03}", (number * 7) % 500)).collect();
    let events: Vec<_> = names.iter().map(String::as_str).collect();
    take(&rig.store, &events).await.unwrap();
    // Rows lie in the table as they came.
    let found: Vec<String> = sqlx::query_scalar("SELECT event FROM idempotency_key_inbox ORDER BY ctid")
        .fetch_all(&rig.direct)
        .await
        .unwrap();
    assert_eq!(found.len(), 500);
    assert!(found.is_sorted());
}
