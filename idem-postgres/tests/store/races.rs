//! Many callers at one key, at every isolation level that a database may have by default.

use std::sync::Arc;

use idem_core::{Claim, ClaimOutcome, KeyStore, Maintain, Origin};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::postgres;
use tokio::sync::Barrier;

use crate::rig::{LEASE, RETENTION, Rig, answer, asks, id};

const CALLERS: usize = 50;

/// All claim at once; whoever does not get the key is told that somebody is at work.
async fn one_of_many(store: &PostgresStore) -> Claim {
    let barrier = Arc::new(Barrier::new(CALLERS));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, barrier) = (store.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                let request = asks(&id("k"));
                barrier.wait().await;
                store.claim(&request).await
            })
        })
        .collect();
    let mut winner = None;
    for caller in callers {
        match caller.await.unwrap() {
            Ok(ClaimOutcome::Claimed(claim)) => {
                assert!(winner.replace(claim).is_none(), "two callers were told that the key is theirs");
            }
            Ok(ClaimOutcome::InProgress { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    winner.expect("somebody gets it")
}

async fn at_level(level: &str) {
    let rig = Rig::on(postgres(), 12, Settings::new()).await;
    rig.sql(format!("ALTER DATABASE {} SET default_transaction_isolation TO '{level}'", rig.database.name()))
        .await;
    let store = rig.another(12);
    let seen: String =
        sqlx::query_scalar("SHOW transaction_isolation").fetch_one(store.pool()).await.unwrap();
    assert_eq!(seen, level);

    let new = one_of_many(&store).await;
    assert_eq!((new.origin(), new.fence().token), (Origin::New, 1));
    rig.elapse(LEASE).await;
    let taken = one_of_many(&store).await;
    assert_eq!((taken.origin(), taken.fence().token), (Origin::TakenOver, 2));
    store.release(&taken, RETENTION).await.unwrap();
    let retried = one_of_many(&store).await;
    assert_eq!((retried.origin(), retried.fence().token), (Origin::Retried, 3));
    store.complete(&retried, &answer(), RETENTION).await.unwrap();
    rig.elapse(RETENTION + LEASE).await;
    let wiped = one_of_many(&store).await;
    assert_eq!((wiped.origin(), wiped.fence().token), (Origin::Expired, 1));
    assert_ne!(wiped.fence().operation, new.fence().operation);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_read_committed() {
    at_level("read committed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_repeatable_read() {
    at_level("repeatable read").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p20_serializable() {
    at_level("serializable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_the_writes_of_one_owner_race_at_every_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let rig = Rig::on(postgres(), 8, Settings::new()).await;
        let name = rig.database.name();
        rig.sql(format!("ALTER DATABASE {name} SET default_transaction_isolation TO '{level}'")).await;
        let store = rig.another(8);
        for round in 0..10 {
            let claim = rig.take(&id(&format!("k-{round}"))).await;
            let answer = answer();
            let (renewed, ended, again) = tokio::join!(
                store.renew(&claim, LEASE),
                store.complete(&claim, &answer, RETENTION),
                store.complete(&claim, &answer, RETENTION)
            );
            ended.unwrap_or_else(|error| panic!("{level}: {error} {error:?}"));
            again.unwrap_or_else(|error| panic!("{level}: {error} {error:?}"));
            let record = rig.record(&id(&format!("k-{round}"))).await.unwrap();
            assert_eq!(record.version, 2 + u64::from(renewed.is_ok()), "{level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g06_a_sweep_never_deletes_what_is_being_claimed_again() {
    let rig = Rig::on(postgres(), 8, Settings::new()).await;
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    for _ in 0..40 {
        rig.elapse(RETENTION + LEASE).await;
        let barrier = Arc::new(Barrier::new(3));
        let sweeps: Vec<_> = (0..2)
            .map(|_| {
                let (store, barrier) = (rig.store.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    store.sweep(100).await.unwrap()
                })
            })
            .collect();
        barrier.wait().await;
        let claim = rig.take(&id("k")).await;
        assert!(matches!(claim.origin(), Origin::New | Origin::Expired), "{claim:?}");
        for sweep in sweeps {
            assert!(sweep.await.unwrap() <= 1);
        }
        let record = rig.record(&id("k")).await.expect("swept under its owner");
        assert_eq!(record.fence(), claim.fence());
        rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g07_several_sweepers_share_the_work() {
    let rig = Rig::on(postgres(), 8, Settings::new()).await;
    drop(rig.take(&id("seed")).await);
    rig.sql(
        "INSERT INTO idempotency_key SELECT scope, 'k-' || n, operation, attempt, token, fingerprint,
         CASE n % 3 WHEN 0 THEN 'in_progress' ELSE 'failed' END, version, checkpoint, locked_at, lease_until,
         rerun_until, NULL, NULL, NULL, NULL, NULL, created_at, CASE n % 3 WHEN 0 THEN NULL ELSE locked_at END,
         expires_at FROM idempotency_key, generate_series(1, 3000) n",
    )
    .await;
    rig.elapse(RETENTION + LEASE).await;
    let sweepers: Vec<_> = (0..4)
        .map(|_| {
            let store = rig.store.clone();
            tokio::spawn(async move {
                let mut all = 0;
                for _ in 0..100 {
                    let swept = store.sweep(100).await.unwrap();
                    assert!(swept <= 100, "a batch is bounded: {swept}");
                    all += swept;
                }
                all
            })
        })
        .collect();
    let mut swept = 0;
    for sweeper in sweepers {
        swept += sweeper.await.unwrap();
    }
    assert_eq!(swept, 2000, "each ended row once");
    rig.until("SELECT count(*) FROM idempotency_key WHERE status = 'in_progress'", 1001).await;
}
