//! The table: how it is made, where it is, and what it refuses.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use idem_core::{Key, KeyId, KeyStore, Scope};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::postgres;
use tokio::sync::Barrier;

use crate::rig::{RETENTION, Rig, answer, asks, claimed, id, pool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p17_many_processes_may_migrate_at_once_and_again() {
    let database = postgres().database().await;
    let barrier = Arc::new(Barrier::new(8));
    let pods: Vec<_> = (0..8)
        .map(|_| {
            let (store, barrier) = (PostgresStore::new(pool(&database, 1)), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                store.migrate().await
            })
        })
        .collect();
    for pod in pods {
        pod.await.unwrap().expect("it is migrated");
    }
    let store = PostgresStore::new(pool(&database, 1));
    let claim = claimed(store.claim(&asks(&id("k"))).await);
    store.migrate().await.expect("again");
    store.complete(&claim, &answer(), RETENTION).await.expect("nothing was lost");
    let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency_key_migration")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(applied, 4, "each migration once");
}

#[tokio::test]
async fn p17_schema_and_table_are_settings_and_tables_do_not_mix() {
    let rig = Rig::new().await;
    rig.sql("CREATE SCHEMA shop").await;
    let settings = [
        Settings::new().schema("shop").unwrap(),
        Settings::new().table("select").unwrap(),
        Settings::new().schema("shop").unwrap().table(&"x".repeat(48)).unwrap(),
    ];
    let mut operations = BTreeSet::from([rig.take(&id("k")).await.fence().operation]);
    for settings in settings {
        let store = PostgresStore::with(pool(&rig.database, 1), settings);
        store.migrate().await.expect("a table of its own");
        store.migrate().await.expect("again");
        operations.insert(claimed(store.claim(&asks(&id("k"))).await).fence().operation);
    }
    assert_eq!(operations.len(), 4);
    let missing = PostgresStore::with(pool(&rig.database, 1), Settings::new().schema("nowhere").unwrap());
    let error = missing.migrate().await.expect_err("the schema is not created");
    assert_eq!(error.kind(), idem_core::StoreErrorKind::Invalid);
}

#[tokio::test]
async fn p18_the_table_refuses_impossible_rows() {
    let rig = Rig::new().await;
    drop(rig.take(&id("k")).await);
    let rows = [
        "scope = ''",
        "scope = repeat('s', 1025)",
        "key = ''",
        "key = repeat('k', 256)",
        "token = 0",
        "version = 0",
        "checkpoint = -1",
        "fingerprint = '\\x01'",
        "status = 'paused'",
        "status = 'completed'",
        "status = 'completed', ended_at = now()",
        "status = 'failed'",
        "status = 'failed', ended_at = now(), rerun_until = '-infinity'",
        "ended_at = now()",
        "response_code = 201, response_headers = '', response_body = ''",
        "status = 'completed', ended_at = now(), response_code = 99, response_headers = '', response_body = ''",
        "recovery_point = 'here', checkpoint = 1",
        "recovery_point = 'here', recovery_data = ''",
        "recovery_point = '', recovery_data = '', checkpoint = 1",
        "request_route = 'charges'",
        "request_data = ''",
        "request_route = '', request_data = ''",
        "request_route = repeat('r', 256), request_data = ''",
        "request_route = 'charges', request_data = convert_to(repeat('d', 262145), 'UTF8')",
        "status = 'completed', ended_at = now(), response_code = 200, response_headers = '', response_body = '',
            request_route = 'charges', request_data = ''",
        "lease_until = 'infinity'",
        "expires_at = '-infinity'",
    ];
    for row in rows {
        let sql = sqlx::AssertSqlSafe(format!("UPDATE idempotency_key SET {row}"));
        let error = sqlx::query(sql).execute(&rig.direct).await.expect_err(row);
        let code = error.as_database_error().and_then(|error| error.code().map(Cow::into_owned));
        assert_eq!(code.as_deref(), Some("23514"), "{row}: {error}");
    }
}

#[tokio::test]
async fn p13_the_table_is_set_up_for_updates_on_the_page() {
    let rig = Rig::new().await;
    let options: Vec<String> =
        sqlx::query_scalar("SELECT unnest(reloptions) FROM pg_class WHERE relname = 'idempotency_key'")
            .fetch_all(&rig.direct)
            .await
            .unwrap();
    assert!(options.contains(&"fillfactor=45".to_owned()), "{options:?}");
    assert!(options.iter().any(|option| option.starts_with("autovacuum_")), "{options:?}");
    let indexed: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
         AND a.attnum = ANY (i.indkey) WHERE i.indrelid = 'idempotency_key'::regclass ORDER BY 1",
    )
    .fetch_all(&rig.direct)
    .await
    .unwrap();
    assert_eq!(indexed, ["expires_at", "key", "scope"], "nothing that changes per operation is indexed");
    // No sequence that duplicates could use up: the only one numbers messages, which a duplicate never emits.
    let sequences =
        "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname NOT LIKE 'idempotency_key_outbox_%'";
    rig.until(sequences, 0).await;
}

#[tokio::test]
async fn b064_names_are_compared_byte_by_byte_whatever_the_database_thinks() {
    let rig = Rig::new().await;
    let collations: Vec<String> = sqlx::query_scalar(
        "SELECT c.collname::text FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
         WHERE a.attrelid = 'idempotency_key'::regclass AND a.attnum > 0",
    )
    .fetch_all(&rig.direct)
    .await
    .unwrap();
    assert_eq!(collations, ["C"; 5]);
    let pairs = [("t", "abc"), ("t", "ABC"), ("T", "abc"), ("t ", "abc"), ("é", "abc"), ("e\u{301}", "abc")];
    let mut operations = BTreeSet::new();
    for (scope, key) in pairs {
        let id = KeyId::new(Scope::new(scope).unwrap(), key.parse().unwrap());
        operations.insert(rig.take(&id).await.fence().operation);
    }
    assert_eq!(operations.len(), pairs.len());
}

#[tokio::test]
async fn b062_the_longest_names_fit_the_index_random_ones_too() {
    let rig = Rig::new().await;
    // A fixed stream of letters that do not compress.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = |length: usize| -> String {
        let letters = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + u8::try_from(state % 94).unwrap())
        });
        letters.take(length).collect()
    };
    for (scope, key) in [(noise(Scope::MAX), noise(Key::MAX)), ("s".repeat(Scope::MAX), "k".repeat(Key::MAX))]
    {
        let Ok(key) = key.parse::<Key>() else { panic!("not a key: {key}") };
        let id = KeyId::new(Scope::new(scope).unwrap(), key);
        let claim = rig.take(&id).await;
        rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
        assert_eq!(rig.record(&id).await.unwrap().id, id);
    }
}
