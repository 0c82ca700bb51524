//! Rows that no store could have written.

use idem_core::{KeyStore, Maintain, StoreErrorKind};
use idem_test_support::postgres;

use crate::Settings;

use super::rig::{RETENTION, Rig, answer, asks, id, kind};

/// A completed record whose impossible states nothing refuses.
async fn unguarded() -> Rig {
    let rig = Rig::on(postgres(), 2, Settings::new()).await;
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    rig.sql(
        "DO $$ DECLARE name text; BEGIN
           FOR name IN SELECT conname FROM pg_constraint WHERE conrelid = 'idempotency_key'::regclass AND contype = 'c'
           LOOP EXECUTE format('ALTER TABLE idempotency_key DROP CONSTRAINT %I', name); END LOOP;
           FOR name IN SELECT unnest(ARRAY['lease_until', 'rerun_until', 'expires_at', 'fingerprint'])
           LOOP EXECUTE format('ALTER TABLE idempotency_key ALTER %I DROP NOT NULL', name); END LOOP;
         END $$",
    )
    .await;
    rig
}

#[tokio::test]
pub(super) async fn b014_b170_impossible_rows_are_corrupt_and_nobody_runs() {
    let rig = unguarded().await;
    let rows = [
        ("an answer without a status", "response_code = NULL"),
        ("an answer without headers", "response_headers = NULL"),
        ("an answer without a body", "response_body = NULL"),
        ("a status that is none", "response_code = -7"),
        ("headers that are none", "response_headers = '\\xff00ff'"),
        ("a state of the future", "status = 'paused', ended_at = NULL"),
        ("a state of the future that has expired", "status = 'paused', expires_at = '2001-01-01'"),
        ("a state of the future that is stale", "status = 'paused', lease_until = '2001-01-01'"),
        (
            "a state of the future in doubt",
            "status = 'paused', lease_until = '2001-01-01', rerun_until = '-infinity'",
        ),
        ("no state", "status = ''"),
        ("a lease without an end", "status = 'in_progress', lease_until = NULL"),
        (
            "a lease without an end, past the time to run again",
            "status = 'in_progress', lease_until = NULL, rerun_until = '2001-01-01'",
        ),
        ("a lease for ever", "status = 'in_progress', lease_until = 'infinity'"),
        (
            "a stale lease, to be run until nobody knows",
            "status = 'in_progress', lease_until = '2001-01-01', rerun_until = NULL",
        ),
    ];
    rig.sql("CREATE TABLE sound AS SELECT * FROM idempotency_key").await;
    for (what, change) in rows {
        rig.sql("DELETE FROM idempotency_key; INSERT INTO idempotency_key SELECT * FROM sound").await;
        rig.sql(format!("UPDATE idempotency_key SET {change}")).await;
        assert_eq!(kind(rig.store.claim(&asks(&id("k"))).await), StoreErrorKind::Corrupt, "claim: {what}");
        assert_eq!(kind(rig.store.find(&id("k")).await), StoreErrorKind::Corrupt, "find: {what}");
        assert_eq!(rig.store.sweep(9).await.ok(), Some(0), "sweep: {what}");
        rig.until("SELECT count(*) FROM idempotency_key", 1).await;
    }
}

/// A claim does not look at it, and whoever carries it out must not guess.
#[tokio::test]
async fn t19_impossible_requests_are_corrupt() {
    let rig = unguarded().await;
    let find = async |state: &str, request: &str| {
        let set = format!("{state}, (request_route, request_data) = ({request})");
        rig.sql(format!("UPDATE idempotency_key SET {set}")).await;
        rig.store.find(&id("k")).await.map(|record| record.and_then(|record| record.request))
    };
    let (at_work, ended) =
        ("status = 'in_progress', ended_at = NULL", "status = 'completed', ended_at = now()");
    assert!(find(at_work, "'charges', ''").await.is_ok_and(|request| request.is_some()));
    assert_eq!(find(at_work, "NULL, NULL").await.ok(), Some(None));
    for (what, state, request) in [
        ("no bytes", at_work, "'charges', NULL"),
        ("no route", at_work, "NULL, ''"),
        ("a route without a name", at_work, "'', ''"),
        ("too large", at_work, "'charges', convert_to(repeat('d', 262145), 'UTF8')"),
        ("beside an answer", ended, "'charges', ''"),
    ] {
        assert_eq!(kind(find(state, request).await), StoreErrorKind::Corrupt, "{what}");
    }
}
