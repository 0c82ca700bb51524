//! Statements behind a pooler.

use idem_core::{ClaimOutcome, KeyStore, StoreErrorKind};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Proxy, contains, postgres};

use crate::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, kind, pool_to};

#[tokio::test]
async fn b158_unnamed_statements_run_in_a_transaction_of_their_own() {
    let rig = Rig::new().await;
    let proxy = Proxy::to(postgres().addr()).await;
    let settings = Settings::new().unnamed_statements();
    let store = PostgresStore::with(pool_to(proxy.options(&rig.database), 1), settings);
    store.migrate().await.unwrap();
    let before = proxy.statements().len();
    let key = id("k");
    let claim = claimed(store.claim(&asks(&key)).await);
    store.complete(&claim, &answer(), RETENTION).await.unwrap();
    assert!(matches!(store.claim(&asks(&key)).await, Ok(ClaimOutcome::Completed(_))));
    assert_eq!(kind(store.release(&claim, RETENTION).await), StoreErrorKind::ClaimLost);
    let begun = proxy.statements().iter().skip(before).filter(|sql| sql.starts_with("BEGIN")).count();
    let ended = proxy.statements().iter().skip(before).filter(|sql| sql.starts_with("COMMIT")).count();
    assert_eq!((begun, ended, proxy.statements().len() - before), (4, 4, 12));
    // What a session keeps would meet another client behind a pooler.
    for kept in ["DISCARD", "LISTEN", "pg_advisory_lock", "TEMP", "SET SESSION"] {
        assert_eq!(proxy.count(contains(kept)), 0, "{kept}");
    }
    let named: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
        .persistent(false)
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(named, 0);
}

#[tokio::test]
async fn p16_the_lock_timeout_ends_with_its_statement() {
    let rig = Rig::on(postgres(), 1, Settings::new()).await;
    let show = "SELECT current_setting('lock_timeout')";
    let before: String = sqlx::query_scalar(show).fetch_one(rig.store.pool()).await.unwrap();
    let claim = rig.take(&id("k")).await;
    rig.store.renew(&claim, LEASE).await.unwrap();
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    let after: String = sqlx::query_scalar(show).fetch_one(rig.store.pool()).await.unwrap();
    assert_eq!(before, after, "the only connection is as it was");
}
