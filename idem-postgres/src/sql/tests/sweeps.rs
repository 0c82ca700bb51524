//! What a sweep takes, and what it leaves to whoever holds it.

use idem_core::{KeyStore, Maintain};

use crate::Settings;

use super::{
    open,
    rig::{LEASE, RETENTION, Rig, answer, id, pool_to},
};

#[tokio::test]
pub(super) async fn g06_a_sweep_passes_over_a_row_that_is_just_being_claimed_again() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    rig.elapse(RETENTION + LEASE).await;
    let mut reclaim = rig.direct.begin().await.unwrap();
    let sql = "UPDATE idempotency_key SET status = 'in_progress', ended_at = NULL, response_code = NULL,
        response_headers = NULL, response_body = NULL, expires_at = clock_timestamp() + interval '1 hour'";
    sqlx::query(sql).execute(&mut *reclaim).await.unwrap();
    // It neither waits for the row nor takes it.
    let options = rig.database.options().options([("lock_timeout", "100ms")]);
    assert_eq!(open(pool_to(options, 1), Settings::new()).sweep(100).await.ok(), Some(0));
    reclaim.commit().await.unwrap();
    assert_eq!(rig.store.sweep(100).await.ok(), Some(0));
    assert!(rig.record(&id("k")).await.is_some());
}

#[tokio::test]
pub(super) async fn g07_a_batch_is_bounded_whatever_the_planner_thinks() {
    let rig = Rig::new().await;
    let plans = [
        vec![],
        vec!["enable_hashjoin", "enable_mergejoin", "enable_material"],
        vec!["enable_nestloop", "enable_mergejoin"],
        vec!["enable_nestloop", "enable_hashjoin"],
        vec!["enable_seqscan", "enable_bitmapscan"],
        vec![
            "enable_indexscan",
            "enable_bitmapscan",
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_material",
        ],
    ];
    for (number, off) in plans.into_iter().enumerate() {
        for key in 0..10 {
            let claim = rig.take(&id(&format!("k-{number}-{key}"))).await;
            rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
        }
        rig.elapse(RETENTION + LEASE).await;
        let options = rig.database.options().options(off.iter().map(|name| (*name, "off")));
        let store = open(pool_to(options, 1), Settings::new());
        assert_eq!(store.sweep(3).await.ok(), Some(3), "without {off:?}");
        rig.until("SELECT count(*) FROM idempotency_key", 7).await;
        assert_eq!(store.sweep(100).await.ok(), Some(7), "without {off:?}");
    }
}
