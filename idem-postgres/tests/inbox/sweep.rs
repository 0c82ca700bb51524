//! One sweep for all tables: what goes, what stays, and who may be at work on it.

use std::{sync::Arc, time::Duration};

use idem_core::{Maintain, Sweeper};
use idem_postgres::{Message, PostgresStore, Settings};
use tokio::sync::Barrier;

use crate::rig::{LEDGER, RETENTION, Rig, deliver, pool};

const MARKERS: &str = "SELECT count(*) FROM idempotency_key_inbox";
const YEAR: Duration = Duration::from_hours(366 * 24);

/// Markers that expired an hour ago.
async fn expired_markers(rig: &Rig, count: u32) {
    rig.sql(format!(
        "INSERT INTO idempotency_key_inbox SELECT 'ledger', 'old-' || n, now() - interval '2 hours',
         now() - interval '1 hour' FROM generate_series(1, {count}) n"
    ))
    .await;
}

/// Keys that are a year old, and expired if an end would have made them so.
async fn old_keys(rig: &Rig, status: &str, rerun_until: &str, count: u32) {
    let ended = if status == "in_progress" { "NULL" } else { "past" };
    rig.sql(format!(
        "INSERT INTO idempotency_key SELECT 'tenant', '{status}-{rerun_until}-' || n, gen_random_uuid(),
         gen_random_uuid(), 1, decode(repeat('01', 33), 'hex'), '{status}', 1, 0, past, past, '{rerun_until}', NULL,
         NULL, NULL, NULL, NULL, past, {ended}, past + interval '1 day'
         FROM generate_series(1, {count}) n, (SELECT now() - interval '1 year') AS t (past)"
    ))
    .await;
}

#[tokio::test]
async fn g03_a_sweep_takes_what_has_ended_and_nothing_that_is_open_however_old() {
    let rig = Rig::new().await;
    old_keys(&rig, "in_progress", "infinity", 2).await;
    old_keys(&rig, "in_progress", "-infinity", 3).await;
    old_keys(&rig, "failed", "infinity", 4).await;
    expired_markers(&rig, 5).await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    let mut tx = rig.begin().await;
    let messages = ["waiting", "parked"].map(|topic| Message::json(topic, &1).unwrap());
    rig.store.outbox().add_all(&mut tx, messages).await.expect("they are added");
    tx.commit().await.unwrap();
    rig.sql(
        "UPDATE idempotency_key_outbox SET created_at = created_at - interval '1 year', due_at = due_at - interval '1 year',
         parked_at = CASE topic WHEN 'parked' THEN now() - interval '1 year' END",
    )
    .await;
    assert_eq!(Sweeper::new(rig.store.clone()).pass().await.ok(), Some(9));
    let unpublished = "SELECT count(*) FROM idempotency_key_outbox WHERE published_at IS NULL";
    assert_eq!(rig.count(unpublished).await, 2, "nobody has them but this table");
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key WHERE status = 'in_progress'").await, 5);
    let stuck = rig.store.stuck(10).await.unwrap();
    assert_eq!((stuck.len(), stuck.iter().filter(|it| it.in_doubt).count()), (5, 3));
    assert_eq!(rig.count(MARKERS).await, 1);
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(false), "the one that is left is the live one");
    assert_eq!(rig.effects("paid-1").await, 1, "business rows are nobody's to sweep");
}

#[tokio::test]
async fn i05_an_inbox_is_swept_by_its_own_retention() {
    let rig = Rig::with(Settings::new()).await;
    let brief = Settings::new().inbox_retention(Duration::from_mins(1)).unwrap();
    let brief = PostgresStore::with(pool(&rig.database, 1), brief);
    assert_eq!(deliver(&brief, "mailer", "paid-1").await.ok(), Some(true));
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    for (aged, swept, mailer, ledger) in [
        (Duration::from_secs(50), 0, false, false),
        (Duration::from_secs(10), 1, true, false),
        (Duration::from_hours(14 * 24) - Duration::from_secs(70), 1, true, false),
        (Duration::from_secs(10), 1, false, true),
    ] {
        rig.age(aged).await;
        assert_eq!(rig.store.sweep(100).await.ok(), Some(swept), "after {aged:?} more");
        assert_eq!(deliver(&brief, "mailer", "paid-1").await.ok(), Some(mailer), "after {aged:?} more");
        assert_eq!(rig.deliver("paid-1").await.ok(), Some(ledger), "after {aged:?} more");
    }
}

#[tokio::test]
async fn g07_a_batch_is_bounded_over_all_tables() {
    let rig = Rig::new().await;
    old_keys(&rig, "failed", "infinity", 10).await;
    expired_markers(&rig, 10).await;
    assert_eq!(rig.store.sweep(0).await.ok(), Some(0));
    let mut batches = Vec::new();
    for _ in 0..4 {
        batches.push(rig.store.sweep(7).await.expect("a sweep"));
    }
    assert_eq!(batches, [7, 7, 6, 0], "one that is not full is the last");
}

#[tokio::test]
async fn g07_a_flood_of_keys_does_not_keep_the_inbox_from_being_swept() {
    let rig = Rig::new().await;
    expired_markers(&rig, 5).await;
    for _ in 0..2 {
        old_keys(&rig, "failed", "infinity", 10).await;
        assert_eq!(rig.store.sweep(5).await.ok(), Some(5));
        rig.sql("DELETE FROM idempotency_key").await;
    }
    assert_eq!(rig.count(MARKERS).await, 0);
    // Nor the other way round.
    old_keys(&rig, "failed", "infinity", 5).await;
    for _ in 0..2 {
        expired_markers(&rig, 10).await;
        assert_eq!(rig.store.sweep(5).await.ok(), Some(5));
        rig.sql("DELETE FROM idempotency_key_inbox").await;
    }
    assert_eq!(rig.count("SELECT count(*) FROM idempotency_key").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g07_two_sweepers_share_twenty_thousand_rows() {
    let rig = Rig::new().await;
    old_keys(&rig, "failed", "infinity", 10_000).await;
    old_keys(&rig, "in_progress", "-infinity", 100).await;
    expired_markers(&rig, 10_000).await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    let barrier = Arc::new(Barrier::new(2));
    let sweepers: Vec<_> = (0..2)
        .map(|_| {
            let store = PostgresStore::new(pool(&rig.database, 1));
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                Sweeper::new(store).batch(500).pass().await
            })
        })
        .collect();
    let mut swept = 0;
    for sweeper in sweepers {
        swept += sweeper.await.unwrap().expect("neither waits for nor trips over the other");
    }
    // A pass ends with a batch that is not full, which may be one whose rows the other one held.
    swept += Sweeper::new(rig.store.clone()).pass().await.unwrap();
    assert_eq!(swept, 20_000, "each row once");
    assert_eq!((rig.count(MARKERS).await, rig.count("SELECT count(*) FROM idempotency_key").await), (1, 100));
}

#[tokio::test]
async fn g06_a_sweep_passes_over_a_marker_that_somebody_holds() {
    let rig = Rig::new().await;
    expired_markers(&rig, 1).await;
    let mut holder = rig.direct.begin().await.unwrap();
    let sql = "UPDATE idempotency_key_inbox SET expires_at = clock_timestamp() + interval '1 hour'";
    sqlx::query(sql).execute(&mut *holder).await.unwrap();
    let impatient = rig.database.options().options([("lock_timeout", "100ms")]);
    let impatient = PostgresStore::new(sqlx::PgPool::connect_lazy_with(impatient));
    assert_eq!(impatient.sweep(100).await.ok(), Some(0));
    holder.commit().await.unwrap();
    assert_eq!(impatient.sweep(100).await.ok(), Some(0));
    assert_eq!(rig.count(MARKERS).await, 1);
}

#[tokio::test]
async fn g06_a_redelivery_waits_for_the_sweep_of_its_marker_and_is_told_how_it_ended() {
    let rig = Rig::new().await;
    for commits in [true, false] {
        expired_markers(&rig, 1).await;
        let mut sweep = rig.direct.begin().await.unwrap();
        sqlx::query("DELETE FROM idempotency_key_inbox").execute(&mut *sweep).await.unwrap();
        let store = rig.store.clone();
        let again = tokio::spawn(async move { deliver(&store, LEDGER, "old-1").await });
        rig.blocked(1).await;
        if commits {
            sweep.commit().await.unwrap();
        } else {
            sweep.rollback().await.unwrap();
        }
        assert_eq!(again.await.unwrap().ok(), Some(commits), "forgotten, or not");
        rig.sql("DELETE FROM idempotency_key_inbox").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g06_a_sweep_never_deletes_the_marker_of_the_delivery_that_it_races() {
    let rig = Rig::new().await;
    for round in 0..40 {
        expired_markers(&rig, 1).await;
        let barrier = Arc::new(Barrier::new(6));
        let sweeps: Vec<_> = (0..2)
            .map(|_| {
                let (store, barrier) = (rig.store.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    store.sweep(100).await.expect("a sweep")
                })
            })
            .collect();
        let deliveries: Vec<_> = (0..4)
            .map(|_| {
                let (store, barrier) = (rig.store.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    deliver(&store, LEDGER, "old-1").await.expect("no error")
                })
            })
            .collect();
        let (mut swept, mut first) = (0, 0);
        for sweep in sweeps {
            swept += sweep.await.unwrap();
        }
        for delivery in deliveries {
            first += u64::from(delivery.await.unwrap());
        }
        assert!(first <= swept && swept <= 1, "round {round}: {first} first deliveries after {swept} sweeps");
        let live = "SELECT count(*) FROM idempotency_key_inbox WHERE expires_at > clock_timestamp()";
        assert_eq!(rig.count(live).await.unsigned_abs(), first, "round {round}: its marker is kept");
        rig.sql("DELETE FROM idempotency_key_inbox").await;
    }
}

#[tokio::test]
async fn i05_a_live_marker_outlives_every_sweep() {
    let rig = Rig::new().await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    rig.age(RETENTION.saturating_sub(Duration::from_secs(30))).await;
    assert_eq!(rig.store.sweep(100).await.ok(), Some(0));
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(false));
    rig.age(YEAR).await;
    assert_eq!(rig.store.sweep(100).await.ok(), Some(1));
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true), "forgotten: it is a new event");
}
