//! Commits that nobody can tell about, and servers that are killed.

use std::{sync::Arc, time::Duration};

use idem_core::{Claim, ClaimOutcome, ClaimRequest, KeyStore, Maintain, Origin, Rerun, StoreErrorKind};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::Postgres;
use tokio::sync::Barrier;

use crate::rig::{RETENTION, Rig, answer, asks, claimed, id, kind, point, pool_to};

const AT_COMMIT: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'";

/// Ends the session of whoever waits for a standby to confirm a commit.
async fn end_at_commit(rig: &Rig) {
    rig.until(AT_COMMIT, 1).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'SyncRep'";
    sqlx::query(end).execute(&rig.direct).await.unwrap();
    rig.until(AT_COMMIT, 0).await;
}

/// Recipe: commits wait for a standby that does not exist, and the session is ended there. The row is committed, and
/// the client is told nothing.
#[tokio::test]
async fn p07_an_end_at_the_commit_is_unknown_and_settled_by_sending_it_again() {
    let server = Postgres::builder()
        .setting("synchronous_standby_names", "nobody")
        .setting("synchronous_commit", "local")
        .start()
        .await;
    let rig = Rig::on(&server, 2, Settings::new()).await;
    // Only what goes through this one waits.
    let patient = Settings::new().call_timeout(Duration::from_mins(1)).unwrap();
    let waiting = PostgresStore::with(
        pool_to(rig.database.options().options([("synchronous_commit", "on")]), 1),
        patient,
    );
    let (key, request, mark, answer) = (id("k"), asks(&id("k")), point(1), answer());

    let (outcome, ()) = tokio::join!(waiting.claim(&request), end_at_commit(&rig));
    assert_eq!(kind(outcome), StoreErrorKind::Unknown);
    let claim = claimed(rig.store.claim(&request).await);
    assert_eq!((claim.origin(), claim.fence().token), (Origin::Reissued, 1));

    let outcome = tokio::join!(waiting.checkpoint(&claim, &mark, Rerun::Never), end_at_commit(&rig)).0;
    assert_eq!(kind(outcome), StoreErrorKind::Unknown);
    let before = rig.record(&key).await;
    rig.store.checkpoint(&claim, &mark, Rerun::Never).await.expect("it is there");
    assert_eq!(rig.record(&key).await, before);

    let outcome = tokio::join!(waiting.complete(&claim, &answer, RETENTION), end_at_commit(&rig)).0;
    assert_eq!(kind(outcome), StoreErrorKind::Unknown);
    let before = rig.record(&key).await;
    rig.store.complete(&claim, &answer, RETENTION).await.expect("it is there");
    assert_eq!(rig.record(&key).await, before);
}

/// Claims one key after the other until the server is gone; returns what was acknowledged and the one that was not.
async fn claim_until_gone(
    store: PostgresStore,
    lane: usize,
    barrier: Arc<Barrier>,
) -> (Vec<Claim>, ClaimRequest) {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let request = asks(&id(&format!("lane-{lane}-{number}")));
        match store.claim(&request).await {
            Ok(ClaimOutcome::Claimed(claim)) => acknowledged.push(claim),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert!(
                    matches!(error.kind(), StoreErrorKind::Unknown | StoreErrorKind::Unavailable),
                    "{error}"
                );
                return (acknowledged, request);
            }
        }
        if number == 20 {
            barrier.wait().await;
        }
    }
    unreachable!("the loop has no end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_every_acknowledged_claim_outlives_a_killed_server() {
    const LANES: usize = 4;
    let server = Postgres::builder().setting("fsync", "on").start().await;
    let rig = Rig::on(&server, 8, Settings::new()).await;
    rig.store.check().await.expect("a server that keeps its word");
    let barrier = Arc::new(Barrier::new(LANES + 1));
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| tokio::spawn(claim_until_gone(rig.store.clone(), lane, Arc::clone(&barrier))))
        .collect();
    barrier.wait().await;
    server.kill().await;
    server.start().await;
    let store = rig.another(4);
    let mut kept = 0;
    for lane in lanes {
        let (acknowledged, open) = lane.await.unwrap();
        assert!(acknowledged.len() > 20);
        for claim in acknowledged {
            let record = store.find(claim.id()).await.unwrap().expect("an acknowledged claim is there");
            assert_eq!(record.fence(), claim.fence());
            kept += 1;
        }
        let claim = claimed(store.claim(&open).await);
        assert!(matches!(claim.origin(), Origin::New | Origin::Reissued), "{claim:?}");
        store.complete(&claim, &answer(), RETENTION).await.unwrap();
    }
    println!("{kept} acknowledged claims, none lost");
}
