//! What the library is for: two failures of the usual code, and the same requests through the engine.

#![expect(clippy::expect_used, reason = "a test's helpers fail like the test itself")]

mod gateway;
mod ours;
mod usual;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use idem::{Policy, policy::LEASE};
use idem_test_support::postgres;
use sqlx::PgPool;
use tokio::{
    runtime,
    sync::Barrier,
    time::{interval, timeout},
};

use gateway::Gateway;
use ours::{InPostgres, Memory, Place, Told, charge};

const BOUND: Duration = Duration::from_secs(30);

/// Waits for what a server does in its own time.
async fn until_counted(pool: &PgPool, count: &'static str, expected: i64) {
    let mut look = interval(Duration::from_millis(10));
    let counted = async {
        while sqlx::query_scalar::<_, i64>(count).fetch_one(pool).await.expect("a count") != expected {
            look.tick().await;
        }
    };
    timeout(BOUND, counted).await.unwrap_or_else(|_| panic!("it never came to {expected}: {count}"));
}

#[tokio::test]
async fn n06_select_for_update_first_answers_one_of_two_requests_with_a_500() {
    let database = postgres().database().await;
    let pool = database.pool(2).await;
    usual::migrate(&pool).await;
    let (gateway, both_looked) = (Gateway::silent(), Barrier::new(2));
    gateway.answer();

    let (one, other) = tokio::join!(
        usual::select_first(&pool, &gateway, &both_looked),
        usual::select_first(&pool, &gateway, &both_looked)
    );

    let (created, failed) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(created.expect("one of two"), 201);
    let error = failed.expect_err("the other");
    assert!(
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation),
        "{error}"
    );
    assert_eq!(gateway.charges(), 1, "the money is correct, which is why this bug hides");
}

#[tokio::test]
async fn n07_a_claim_inside_the_request_s_transaction_holds_connections_and_charges_twice() {
    const RETRIES: usize = 3;
    let database = postgres().database().await;
    let (pool, watcher) = (database.pool(4).await, database.pool(1).await);
    usual::migrate(&pool).await;
    let gateway = Gateway::silent();

    let first = usual::claim_inside(&pool, &gateway);
    let crash = async {
        gateway.was_called(1).await;
        let retries = async { join_all((0..RETRIES).map(|_| usual::claim_inside(&pool, &gateway))).await };
        let crash = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            until_counted(&watcher, waiting, 3).await;
            assert!(
                pool.try_acquire().is_none(),
                "each retry holds a connection for the whole provider call"
            );
            let owner = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction'";
            until_counted(&watcher, owner, 1).await;
            gateway.was_called(2).await;
            gateway.answer();
        };
        tokio::join!(retries, crash).0
    };
    let (first, retries) = timeout(BOUND, async { tokio::join!(first, crash) }).await.expect("in time");

    first.expect_err("its connection died between the charge and the commit");
    for retry in retries {
        assert_eq!(retry.expect("a retry"), 201);
    }
    assert_eq!(gateway.charges(), 2, "the crash rolled the claim back with everything else");
}

/// Two requests at once: one works, the other is told so or gets the same answer.
async fn two_at_once(place: impl Place) {
    let gateway = Gateway::silent();
    gateway.answer();
    let (one, other) = (place.open().await, place.open().await);

    let mut told: [Told; 2] = tokio::join!(
        charge(one, Policy::opaque(), gateway.clone(), None),
        charge(other, Policy::opaque(), gateway.clone(), None)
    )
    .into();

    told.sort();
    assert_eq!(told[0], Told::Created);
    assert!(matches!(told[1], Told::InProgress | Told::Replayed), "{told:?}");
    assert_eq!(gateway.charges(), 1);
}

/// A process dies between the charge and the commit, with retries under way; returns what a retry is then told.
async fn crash(place: impl Place, policy: Policy, provider_key: Option<&'static str>) -> (Told, usize) {
    let (place, gateway) = (Arc::new(place), Gateway::silent());
    let run = {
        let gateway = gateway.clone();
        move |engine| charge(engine, policy.clone(), gateway.clone(), provider_key)
    };
    // A runtime that is shut down drops its tasks where they wait and its connections unanswered, as SIGKILL does.
    let process =
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (its_place, its_run) = (Arc::clone(&place), run.clone());
    drop(process.spawn(async move { its_run(its_place.open().await).await }));
    gateway.was_called(1).await;

    let other = place.open().await;
    for told in join_all((0..3).map(|_| run(other.clone()))).await {
        assert_eq!(told, Told::InProgress, "at once, and over one connection");
    }
    // Waited for: a task that is still there when the gateway answers would go on, and there would be no crash.
    tokio::task::spawn_blocking(move || drop(process)).await.expect("the process ends");
    gateway.answer();
    place.elapse(LEASE).await;

    (run(other).await, gateway.charges())
}

async fn crash_is_in_doubt(place: impl Place) {
    assert_eq!(crash(place, Policy::opaque(), None).await, (Told::InDoubt, 1));
}

async fn crash_is_resumed(place: impl Place) {
    assert_eq!(crash(place, Policy::resumable(), Some("7:a3f7b9d1")).await, (Told::Created, 1));
}

mod memory {
    use super::*;

    #[tokio::test]
    async fn n06_two_requests_at_once_get_no_500_from_us() {
        two_at_once(Memory::new()).await;
    }

    #[tokio::test]
    async fn n07_a_crash_between_charge_and_commit_is_in_doubt_and_charged_once() {
        crash_is_in_doubt(Memory::new()).await;
    }

    #[tokio::test]
    async fn n07_a_crash_is_resumed_and_charged_once_where_the_provider_takes_a_key() {
        crash_is_resumed(Memory::new()).await;
    }
}

mod in_postgres {
    use super::*;

    #[tokio::test]
    async fn n06_two_requests_at_once_get_no_500_from_us() {
        two_at_once(InPostgres::new().await).await;
    }

    #[tokio::test]
    async fn n07_a_crash_between_charge_and_commit_is_in_doubt_and_charged_once() {
        crash_is_in_doubt(InPostgres::new().await).await;
    }

    #[tokio::test]
    async fn n07_a_crash_is_resumed_and_charged_once_where_the_provider_takes_a_key() {
        crash_is_resumed(InPostgres::new().await).await;
    }
}
