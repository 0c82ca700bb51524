//! One delivery after the other.

use std::time::Duration;

use idem_postgres::{PostgresStore, Settings, Warning};
use idem_test_support::Postgres;

use crate::rig::{RETENTION, Rig, act, deliver, pool};

#[tokio::test]
async fn i01_a_delivery_that_comes_again_has_no_second_effect() {
    let rig = Rig::new().await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(false));
    // Through another process of the same consumer.
    let other = PostgresStore::new(pool(&rig.database, 1));
    assert_eq!(deliver(&other, "ledger", "paid-1").await.ok(), Some(false));
    assert_eq!(rig.effects("paid-1").await, 1);
    assert_eq!(rig.deliver("paid-2").await.ok(), Some(true), "another event");
}

#[tokio::test]
async fn i01_one_transaction_asks_for_one_event_twice() {
    let rig = Rig::new().await;
    let mut tx = rig.begin().await;
    assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(true));
    assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(false));
}

#[tokio::test]
async fn i04_a_marker_rolls_back_with_the_effect_that_failed() {
    let rig = Rig::new().await;
    let mut tx = rig.begin().await;
    assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(true));
    act(&mut tx, "ledger", "paid-1").await;
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.expect_err("the handler fails");
    drop(tx);
    assert_eq!(rig.effects("paid-1").await, 0);
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true), "the redelivery runs");
    assert_eq!(rig.effects("paid-1").await, 1);
}

#[tokio::test]
async fn i04_a_marker_rolls_back_with_its_savepoint() {
    let rig = Rig::new().await;
    let mut tx = rig.begin().await;
    let savepoint = |name| sqlx::AssertSqlSafe(format!("{name} SAVEPOINT before_it"));
    sqlx::query(savepoint("")).execute(&mut *tx).await.unwrap();
    assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(true));
    sqlx::query(savepoint("ROLLBACK TO")).execute(&mut *tx).await.unwrap();
    assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(true));
}

#[tokio::test]
async fn i07_two_consumers_of_one_event_do_not_share_markers() {
    let rig = Rig::new().await;
    for consumer in ["ledger", "mailer", "Ledger", "ledger "] {
        assert_eq!(deliver(&rig.store, consumer, "paid-1").await.ok(), Some(true), "{consumer}");
    }
    for consumer in ["ledger", "mailer", "Ledger", "ledger "] {
        assert_eq!(deliver(&rig.store, consumer, "paid-1").await.ok(), Some(false), "{consumer}");
    }
    assert_eq!(rig.effects("paid-1").await, 4);
}

#[tokio::test]
async fn i05_a_marker_is_kept_for_the_retention_and_counts_until_it_is_swept() {
    let rig = Rig::new().await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    let kept = "SELECT (extract(epoch FROM expires_at - received_at))::bigint FROM idempotency_key_inbox";
    assert_eq!(rig.count(kept).await.unsigned_abs(), RETENTION.as_secs());
    rig.age(RETENTION + Duration::from_secs(1)).await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(false), "a longer memory is never wrong");
    // A redelivery asks and writes nothing: the retention runs from the first one.
    let expired = "SELECT count(*) FROM idempotency_key_inbox WHERE expires_at <= clock_timestamp()";
    assert_eq!(rig.count(expired).await, 1);
}

#[tokio::test]
async fn i05_an_inbox_that_forgets_before_the_broker_does_is_warned_of() {
    let hours = Duration::from_hours;
    // Checks are made of servers that keep what they say.
    let server = Postgres::builder().setting("fsync", "on").start().await;
    let database = server.database().await;
    PostgresStore::new(pool(&database, 1)).migrate().await.expect("the tables");
    let warned = async |settings: Settings| {
        let store = PostgresStore::with(pool(&database, 1), settings);
        let checked = store.check().await.expect("it may be used");
        checked.warnings.contains(&Warning::InboxForgetsTooEarly)
    };
    assert!(!warned(Settings::new()).await, "14 days are longer than 7");
    assert!(!warned(Settings::new().inbox_retention(hours(7 * 24)).unwrap()).await, "as long as");
    assert!(warned(Settings::new().inbox_retention(hours(7 * 24 - 1)).unwrap()).await);
    assert!(warned(Settings::new().redelivery_horizon(hours(14 * 24 + 1)).unwrap()).await);
    for bad in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let refused = [
            Settings::new().inbox_retention(bad).map_err(|invalid| invalid.field()).err(),
            Settings::new().redelivery_horizon(bad).map_err(|invalid| invalid.field()).err(),
        ];
        assert_eq!(refused, [Some("inbox_retention"), Some("redelivery_horizon")], "{bad:?}");
    }
}

#[tokio::test]
async fn i01_the_inbox_is_beside_the_keys_wherever_they_are() {
    let rig = Rig::new().await;
    rig.sql("CREATE SCHEMA shop").await;
    let longest = Settings::new().schema("shop").unwrap().table(&"x".repeat(48)).unwrap();
    for settings in [Settings::new().schema("shop").unwrap(), longest, Settings::new().unnamed_statements()] {
        let store = PostgresStore::with(rig.direct.clone(), settings);
        store.migrate().await.expect("tables of its own");
        for (first, round) in [(true, 1), (false, 2)] {
            assert_eq!(deliver(&store, "ledger", "paid-9").await.ok(), Some(first), "{store:?}, {round}");
        }
        rig.sql("DELETE FROM idempotency_key_inbox").await;
    }
    assert_eq!(format!("{:?}", rig.store.inbox()), r#"Inbox { table: "\"idempotency_key_inbox\"", .. }"#);
}
