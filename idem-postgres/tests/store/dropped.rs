//! Calls that are dropped, cancelled, cut off, or never answered.

use std::time::Duration;

use futures_util::poll;
use idem_core::{KeyStore, StoreErrorKind};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Proxy, postgres};
use tokio::pin;

use crate::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, idle, kind, pool_to};

const LOCK: &str = "SELECT 1 FROM idempotency_key WHERE key = $1 FOR UPDATE";
const PATIENT: Duration = Duration::from_mins(1);

fn patient() -> Settings {
    Settings::new().lock_timeout(PATIENT).and_then(|it| it.call_timeout(PATIENT)).unwrap()
}

#[tokio::test]
async fn f01_dropped_calls_hold_up_nobody_while_their_statements_wait() {
    let rig = Rig::on(postgres(), 2, patient()).await;
    let held = rig.take(&id("held")).await;
    let mut lock = rig.direct.begin().await.unwrap();
    sqlx::query(LOCK).bind("held").execute(&mut *lock).await.unwrap();
    let answer = answer();
    for number in 1..=2 {
        let complete = rig.store.complete(&held, &answer, RETENTION);
        pin!(complete);
        tokio::select! {
            done = &mut complete => panic!("the row is locked: {done:?}"),
            () = rig.blocked(number) => {}
        }
        // Dropped here.
    }
    // Both connections of the pool wait in the server; their places in the pool are free.
    for number in 0..6 {
        let claim = rig.take(&id(&format!("free-{number}"))).await;
        rig.store.complete(&claim, &answer, RETENTION).await.unwrap();
    }
    lock.rollback().await.unwrap();
    // What was dropped happens all the same, once: a dropped call is a lost reply.
    rig.blocked(0).await;
    rig.store.complete(&held, &answer, RETENTION).await.unwrap();
    assert_eq!(rig.record(&id("held")).await.unwrap().version, 2);
}

#[tokio::test]
async fn b032_a_call_dropped_at_any_moment_leaves_the_pool_usable() {
    let rig = Rig::on(postgres(), 2, Settings::new()).await;
    let unnamed = PostgresStore::with(rig.store.pool().clone(), Settings::new().unnamed_statements());
    for (name, store) in [("named", &rig.store), ("unnamed", &unnamed)] {
        for polls in 0..12 {
            let request = asks(&id(&format!("{name}-{polls}")));
            {
                let claim = store.claim(&request);
                pin!(claim);
                for _ in 0..polls {
                    if poll!(&mut claim).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            drop(claimed(store.claim(&request).await));
        }
    }
    let open = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    rig.until(open, 0).await;
}

#[tokio::test]
async fn b036_a_black_hole_is_left_within_the_calls_own_time() {
    let rig = Rig::new().await;
    let proxy = Proxy::to(postgres().addr()).await;
    let settings = Settings::new().call_timeout(Duration::from_millis(300)).unwrap();
    let store = PostgresStore::with(pool_to(proxy.options(&rig.database), 1), settings);
    let claim = claimed(store.claim(&asks(&id("k"))).await);
    idle(&store).await;
    proxy.black_hole(true);
    assert_eq!(kind(store.renew(&claim, LEASE).await), StoreErrorKind::Unknown, "it was sent");
    assert_eq!(
        kind(store.renew(&claim, LEASE).await),
        StoreErrorKind::Unavailable,
        "there was no connection"
    );
    proxy.black_hole(false);
    // The pool's only place may still belong to a connection that is being made.
    for _ in 0..20 {
        match store.complete(&claim, &answer(), RETENTION).await {
            Ok(()) => return,
            Err(error) => assert_ne!(error.kind(), StoreErrorKind::ClaimLost, "{error}"),
        }
    }
    panic!("the pool did not recover");
}

/// The backend that waits for a lock in this database.
async fn waiting_backend(rig: &Rig) -> i32 {
    rig.blocked(1).await;
    let sql =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(sql).fetch_one(&rig.direct).await.unwrap()
}

#[tokio::test]
async fn p06_a_statement_cancelled_by_an_operator_was_not_done_and_a_killed_session_is_unknown() {
    let rig = Rig::on(postgres(), 2, patient()).await;
    let key = id("k");
    let claim = rig.take(&key).await;
    let rows = [
        ("SELECT pg_cancel_backend($1)", StoreErrorKind::Unavailable),
        ("SELECT pg_terminate_backend($1)", StoreErrorKind::Unknown),
    ];
    let answer = answer();
    for (sql, expected) in rows {
        let mut lock = rig.direct.begin().await.unwrap();
        sqlx::query(LOCK).bind("k").execute(&mut *lock).await.unwrap();
        let end = async {
            let pid = waiting_backend(&rig).await;
            sqlx::query(sql).bind(pid).execute(&rig.direct).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(rig.store.complete(&claim, &answer, RETENTION), end);
        assert_eq!(kind(outcome), expected, "{sql}");
        lock.rollback().await.unwrap();
        assert_eq!(rig.record(&key).await.unwrap().version, 1, "{sql}");
    }
    rig.store.complete(&claim, &answer, RETENTION).await.expect("sent again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s21_a_pool_of_one_connection_serves_everybody() {
    let rig = Rig::on(postgres(), 1, Settings::new()).await;
    let runs: Vec<_> = (0..20)
        .map(|number| {
            let store = rig.store.clone();
            tokio::spawn(async move {
                let key = id(&format!("k-{}", number % 10));
                let request = asks(&key);
                if let Ok(idem_core::ClaimOutcome::Claimed(claim)) = store.claim(&request).await {
                    store.renew(&claim, LEASE).await.unwrap();
                    store.complete(&claim, &answer(), RETENTION).await.unwrap();
                }
            })
        })
        .collect();
    for run in runs {
        run.await.unwrap();
    }
    for number in 0..10 {
        let record = rig.record(&id(&format!("k-{number}"))).await.unwrap();
        assert_eq!(record.state.name(), "completed");
    }
}
