//! Connections that broke while nobody looked cost nobody a call.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod rig;

use std::time::Duration;

use idem_core::{
    Answer, ClaimOutcome, ClaimRequest, Engine, Fingerprint, Fingerprints, KeyId, KeyStore as _, Operation,
    Policy, Scope, StoreErrorKind, StoredResponse,
};
use idem_postgres::PostgresStore;
use rig::Rig;

fn id() -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("valid"), "key-1".parse().expect("valid"))
}

fn same() -> Fingerprints {
    Fingerprint::of("test").body(b"{}").finish()
}

/// What a pooler does with a session between two of its users, and what some users' own code does.
#[tokio::test]
async fn b166_a_connection_whose_prepared_statements_are_gone_is_not_wedged() {
    let rig = Rig::new().await;
    let store = PostgresStore::new(rig.database.pool(1).await);
    let ask = || {
        ClaimRequest::new(id(), same(), Duration::from_secs(90), Duration::from_hours(24))
            .expect("valid spans")
    };
    let first = store.claim(&ask()).await;
    assert!(matches!(first, Ok(ClaimOutcome::Claimed(_))), "{first:?}");
    sqlx::query("DEALLOCATE ALL").execute(store.pool()).await.expect("allowed");
    for _ in 0..2 {
        let again = store.claim(&ask()).await;
        assert!(matches!(again, Ok(ClaimOutcome::InProgress { .. })), "{again:?}");
    }
}

/// After a restart or a failover every connection of a quiet pool is dead; one request must not have to try them all.
#[tokio::test]
async fn p06_a_pool_of_dead_connections_costs_no_request() {
    let rig = Rig::new().await;
    let store = PostgresStore::connect(&rig.database.url()).await.expect("the server is up");
    let mut connections = Vec::new();
    for _ in 0..32 {
        connections.push(store.pool().acquire().await.expect("a connection"));
    }
    drop(connections);
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .execute(rig.store.pool())
    .await
    .expect("the tests' user may");
    #[expect(clippy::disallowed_methods, reason = "connections have to lie idle, by the driver's own clock")]
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let work = async |op: Operation| {
        let answer = StoredResponse::new(201, "paid").expect("a final status");
        op.complete(answer).await
    };
    let ran = Engine::new(store).run(id(), same(), &Policy::resumable(), work).await;
    assert!(matches!(ran, Ok(Answer::Executed(_))), "{ran:?}");
}

#[tokio::test]
async fn e07_an_error_says_why_there_is_no_connection() {
    let rig = Rig::new().await;
    let missing = rig.database.url().replace(rig.database.name(), "no_such_database");
    let error = PostgresStore::connect(&missing).await.expect_err("there is no such database");
    assert_eq!(
        (error.kind(), error.to_string().contains("sqlstate 3D000")),
        (StoreErrorKind::Invalid, true),
        "{error}"
    );
    let error = PostgresStore::connect("postgres://127.0.0.1:1/x").await.expect_err("nobody listens");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("there was no connection"), "{error}");
    let error = PostgresStore::connect("no url").await.expect_err("no url");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("not a url of postgres"), "{error}");
}
