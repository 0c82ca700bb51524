//! Counts at their limit, errors that must not tell, and a server that is not to be trusted.

use std::error::Error;

use idem_core::{KeyStore, Maintain, StoreErrorKind};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Postgres, postgres};
use sqlx::{PgPool, postgres::PgConnectOptions};

use crate::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, kind, pool_to};

#[tokio::test]
async fn p24_a_token_that_cannot_be_raised_is_an_error_and_no_wrap() {
    let rig = Rig::new().await;
    drop(rig.take(&id("k")).await);
    rig.sql(format!("UPDATE idempotency_key SET token = {}", i64::MAX)).await;
    rig.elapse(LEASE).await;
    assert_eq!(kind(rig.store.claim(&asks(&id("k"))).await), StoreErrorKind::Corrupt);
    assert_eq!(rig.record(&id("k")).await.unwrap().token, u64::try_from(i64::MAX).unwrap());
}

#[tokio::test]
async fn x01_errors_and_debug_output_show_no_key_and_no_password() {
    let rig = Rig::new().await;
    // Postgres' DETAIL quotes the whole row that violates this.
    rig.sql("ALTER TABLE idempotency_key ADD CHECK (key <> 'secret-key')").await;
    let error = rig.store.claim(&asks(&id("secret-key"))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    let source = error.source().expect("what the server said");
    for text in [format!("{error}"), format!("{error:?}"), format!("{source}"), format!("{source:?}")] {
        assert!(!text.contains("secret-key") && !text.contains("tenant-1"), "{text}");
    }
    assert!(source.to_string().contains("23514"), "the code helps: {source}");

    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(1).password("pass-word");
    let pool = pool_to(options, 1);
    let store = PostgresStore::new(pool);
    let error = store.claim(&asks(&id("secret-key"))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    for text in [format!("{store:?}"), format!("{error:?}")] {
        assert!(!text.contains("pass-word") && !text.contains("secret-key"), "{text}");
    }
}

#[tokio::test]
async fn b166_a_change_of_the_table_does_not_stop_those_who_use_it() {
    let rig = Rig::on(postgres(), 2, Settings::new()).await;
    let claim = rig.take(&id("k")).await;
    rig.record(&id("k")).await.unwrap();
    rig.sql("ALTER TABLE idempotency_key ADD COLUMN note text DEFAULT 'new'").await;
    rig.record(&id("k")).await.unwrap();
    rig.store.renew(&claim, LEASE).await.unwrap();
    // The plans that both connections keep give another type now.
    for _ in 0..2 {
        let (one, two) = (id("k"), id("k"));
        let (one, two) = tokio::join!(rig.store.find(&one), rig.store.find(&two));
        assert!(one.unwrap().is_some() && two.unwrap().is_some());
    }
    rig.sql("ALTER TABLE idempotency_key ALTER COLUMN status TYPE varchar(20)").await;
    for _ in 0..4 {
        assert!(rig.store.find(&id("k")).await.unwrap().is_some());
    }
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
}

async fn refusal(options: PgConnectOptions) -> String {
    let error = PostgresStore::new(pool_to(options, 2)).check().await.expect_err("a refusal");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    error.to_string()
}

#[tokio::test]
async fn p22_a_server_that_does_not_keep_its_word_is_refused() {
    let server = Postgres::builder().setting("fsync", "on").setting("full_page_writes", "off").start().await;
    let rig = Rig::on(&server, 2, Settings::new()).await;
    let checked = rig.store.check().await.expect("it may be used");
    assert_eq!(checked.warnings, [idem_postgres::Warning::FullPageWritesOff]);
    assert_eq!(checked.server_version / 10_000, 15);

    let options = |name: &str, value: &str| rig.database.options().options([(name, value)]);
    assert!(refusal(options("synchronous_commit", "off")).await.contains("synchronous_commit is off"));
    assert!(refusal(options("default_transaction_read_only", "on")).await.contains("read-only"));
    let empty = server.database().await;
    assert!(refusal(empty.options()).await.contains("call migrate"));
    rig.sql("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0").await;
    assert!(refusal(rig.database.options().database("latin")).await.contains("encoding"));
    rig.sql("INSERT INTO idempotency_key_migration (version) VALUES (99)").await;
    assert!(refusal(rig.database.options()).await.contains("newer version"));
    let migrated = rig.store.migrate().await.expect_err("a downgrade");
    assert_eq!(migrated.kind(), StoreErrorKind::Invalid);

    let careless = Rig::on(postgres(), 2, Settings::new()).await;
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&careless.direct).await.unwrap();
    if fsync == "off" {
        assert!(refusal(careless.database.options()).await.contains("fsync is off"));
    }
}

#[tokio::test]
async fn p21_a_read_only_server_is_asked_for_nothing_it_cannot_do() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    let options = rig.database.options().options([("default_transaction_read_only", "on")]);
    let pool: PgPool = pool_to(options, 2);
    let store = PostgresStore::new(pool);
    assert_eq!(kind(store.claim(&asks(&id("new"))).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.complete(&claim, &answer(), RETENTION).await), StoreErrorKind::Unavailable);
    assert!(store.find(&id("k")).await.unwrap().is_some());
    drop(claimed(rig.store.claim(&asks(&id("new"))).await));
}

#[tokio::test]
async fn p21_a_standby_decides_nothing() {
    let server = Postgres::builder().setting("fsync", "on").start().await;
    let rig = Rig::on(&server, 2, Settings::new()).await;
    let claim = rig.take(&id("k")).await;
    // A server that finds this file when it starts waits for a primary to follow, and answers reads meanwhile.
    rig.sql(
        "DO $$ BEGIN
           EXECUTE format('COPY (SELECT 1) TO %L', current_setting('data_directory') || '/standby.signal');
         END $$",
    )
    .await;
    server.restart().await;
    let store = rig.another(2);
    assert!(refusal(rig.database.options()).await.contains("standby"));
    assert_eq!(kind(store.claim(&asks(&id("k"))).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.complete(&claim, &answer(), RETENTION).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.sweep(9).await), StoreErrorKind::Unavailable);
    assert!(store.find(&id("k")).await.unwrap().is_some());
    sqlx::query("SELECT pg_promote()").execute(store.pool()).await.unwrap();
    store.complete(&claim, &answer(), RETENTION).await.expect("now it is the primary");
}
