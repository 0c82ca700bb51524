//! What waits for a locked row, for how long, and what is judged after the wait.

use std::time::Duration;

use crate::Settings;
use idem_core::{ClaimOutcome, KeyId, KeyStore, Maintain, Origin, Rerun, Scope, StoreErrorKind};
use idem_test_support::postgres;
use sqlx::{PgTransaction, query, query_scalar};

use super::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, kind, point};

/// What a transaction that owns the operation holds.
pub(super) const FENCE: &str = "SELECT 1 FROM idempotency_key WHERE key = 'k' FOR NO KEY UPDATE";

pub(super) async fn holds(rig: &Rig, sql: &'static str) -> PgTransaction<'static> {
    let mut transaction = rig.direct.begin().await.unwrap();
    query(sql).execute(&mut *transaction).await.unwrap();
    transaction
}

async fn brief() -> Rig {
    Rig::on(postgres(), 4, Settings::new().lock_timeout(Duration::from_millis(20)).unwrap()).await
}

pub(super) async fn patient() -> Rig {
    Rig::on(postgres(), 4, Settings::new().lock_timeout(Duration::from_secs(20)).unwrap()).await
}

#[tokio::test]
pub(super) async fn p05_writes_behind_a_lock_are_not_done_and_reads_do_not_wait() {
    let rig = brief().await;
    let (key, request) = (id("k"), asks(&id("k")));
    let claim = claimed(rig.store.claim(&request).await);
    rig.store.checkpoint(&claim, &point(1), Rerun::Always).await.unwrap();
    let before = rig.record(&key).await;
    let lock = holds(&rig, FENCE).await;
    let store = &rig.store;
    assert_eq!(kind(store.renew(&claim, LEASE).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.renew(&claim, Duration::ZERO).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.checkpoint(&claim, &point(2), Rerun::Never).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.complete(&claim, &answer(), RETENTION).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.release(&claim, RETENTION).await), StoreErrorKind::Unavailable);
    assert_eq!(kind(store.claim(&request).await), StoreErrorKind::Unavailable, "mine: may have ended");
    assert!(matches!(store.claim(&asks(&key)).await, Ok(ClaimOutcome::InProgress { .. })), "a duplicate");
    assert_eq!(rig.record(&key).await, before);
    assert_eq!(store.sweep(9).await.ok(), Some(0));
    lock.rollback().await.unwrap();

    rig.elapse(LEASE).await;
    let lock = holds(&rig, FENCE).await;
    let waited = store.claim(&asks(&key)).await;
    assert!(matches!(waited, Ok(ClaimOutcome::InProgress { .. })), "its owner is at work: {waited:?}");
    lock.rollback().await.unwrap();
    let taken = claimed(store.claim(&asks(&key)).await);
    store.complete(&taken, &answer(), RETENTION).await.unwrap();

    let lock = holds(&rig, FENCE).await;
    assert!(matches!(store.claim(&asks(&key)).await, Ok(ClaimOutcome::Completed(_))), "a replay");
    lock.rollback().await.unwrap();
    rig.elapse(RETENTION + LEASE).await;
    let lock = holds(&rig, FENCE).await;
    assert_eq!(kind(store.claim(&asks(&key)).await), StoreErrorKind::Unavailable, "a reclaim");
    assert_eq!(store.sweep(9).await.ok(), Some(0), "passed over");
    lock.rollback().await.unwrap();
    assert_eq!(claimed(store.claim(&asks(&key)).await).origin(), Origin::Expired);
}

/// The same key in another scope, and another key in the same scope; both sort before the key of the tests.
fn neighbours() -> [KeyId; 2] {
    [KeyId::new(Scope::new("a").unwrap(), "k".parse().unwrap()), id("a")]
}

#[tokio::test]
pub(super) async fn p05_a_claim_waits_for_no_other_key() {
    const OTHERS: &str =
        "SELECT 1 FROM idempotency_key WHERE NOT (scope = 'tenant-1' AND key = 'k') FOR NO KEY UPDATE";
    let rig = brief().await;
    for neighbour in neighbours() {
        drop(rig.take(&neighbour).await);
    }
    let first = rig.take(&id("k")).await;
    rig.store.release(&first, RETENTION).await.unwrap();
    let others = holds(&rig, OTHERS).await;
    let retried = rig.take(&id("k")).await;
    assert_eq!(retried.origin(), Origin::Retried);
    rig.store.complete(&retried, &answer(), RETENTION).await.unwrap();
    others.rollback().await.unwrap();

    rig.elapse(LEASE + RETENTION).await;
    let _others = holds(&rig, OTHERS).await;
    let request = asks(&id("k"));
    assert_eq!(claimed(rig.store.claim(&request).await).origin(), Origin::Expired);
    assert_eq!(claimed(rig.store.claim(&request).await).origin(), Origin::Reissued);
}

#[tokio::test]
pub(super) async fn p05_a_claim_behind_an_uncommitted_insert_is_not_done() {
    let rig = brief().await;
    let insert = "INSERT INTO idempotency_key (scope, key, operation, attempt, token, fingerprint, status, version,
        checkpoint, locked_at, lease_until, rerun_until, created_at, expires_at)
        SELECT 'tenant-1', 'k', gen_random_uuid(), gen_random_uuid(), 1, '\\x01' || decode(repeat('01', 32), 'hex'),
        'in_progress', 1, 0, now(), now() + interval '1 minute', 'infinity', now(), now() + interval '1 hour'";
    let other = holds(&rig, insert).await;
    assert_eq!(kind(rig.store.claim(&asks(&id("k"))).await), StoreErrorKind::Unavailable);
    other.commit().await.unwrap();
    let outcome = rig.store.claim(&asks(&id("k"))).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::InProgress { .. })), "{outcome:?}");

    // One that is rolled back leaves the key to who waited, with its whole lease.
    let rig = patient().await;
    let other = holds(&rig, insert).await;
    let release = async {
        rig.blocked(1).await;
        other.rollback().await.unwrap();
    };
    let request = asks(&id("k"));
    let (outcome, ()) = tokio::join!(rig.store.claim(&request), release);
    assert_eq!(claimed(outcome).origin(), Origin::New);
}

#[tokio::test]
pub(super) async fn l07_a_claim_that_waited_behind_a_renewal_takes_nothing_over() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.elapse(LEASE).await;
    let renewal = "UPDATE idempotency_key SET lease_until = clock_timestamp() + interval '1 minute',
        version = version + 1";
    let renewal = holds(&rig, renewal).await;
    let commit = async {
        rig.blocked(1).await;
        renewal.commit().await.unwrap();
    };
    let request = asks(&id("k"));
    let (outcome, ()) = tokio::join!(rig.store.claim(&request), commit);
    assert!(matches!(outcome, Ok(ClaimOutcome::InProgress { .. })), "{outcome:?}");
    assert_eq!(rig.record(&id("k")).await.unwrap().fence(), claim.fence());
}

#[tokio::test]
pub(super) async fn l08_a_claim_that_waited_behind_the_end_replays() {
    let rig = patient().await;
    drop(rig.take(&id("k")).await);
    rig.elapse(LEASE).await;
    let end = "UPDATE idempotency_key SET status = 'completed', response_code = 201, response_headers = $1,
        response_body = 'late', ended_at = clock_timestamp(), version = version + 1";
    let headers = answer().encode_headers().to_vec();
    let mut transaction = rig.direct.begin().await.unwrap();
    query(end).bind(headers).execute(&mut *transaction).await.unwrap();
    let commit = async {
        rig.blocked(1).await;
        transaction.commit().await.unwrap();
    };
    let request = asks(&id("k"));
    let (outcome, ()) = tokio::join!(rig.store.claim(&request), commit);
    match outcome {
        Ok(ClaimOutcome::Completed(response)) => assert_eq!(response.body(), "late"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
pub(super) async fn s14_a_claim_sent_again_that_waited_behind_its_own_end_retries() {
    let rig = patient().await;
    let request = asks(&id("k"));
    drop(claimed(rig.store.claim(&request).await));
    let end =
        "UPDATE idempotency_key SET status = 'failed', ended_at = clock_timestamp(), version = version + 1";
    let end = holds(&rig, end).await;
    let commit = async {
        rig.blocked(1).await;
        end.commit().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(rig.store.claim(&request), commit);
    let claim = claimed(outcome);
    assert_eq!((claim.origin(), claim.fence().token), (Origin::Retried, 2), "not the ended one once more");
}

#[tokio::test]
pub(super) async fn p05_what_stands_behind_an_insert_that_waited_in_vain_is_answered() {
    let rig = brief().await;
    for neighbour in neighbours() {
        drop(rig.take(&neighbour).await);
    }
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    let delete = holds(&rig, "DELETE FROM idempotency_key").await;
    let outcome = rig.store.claim(&asks(&id("k"))).await;
    assert!(matches!(outcome, Ok(ClaimOutcome::Completed(_))), "it may well stay: {outcome:?}");
    delete.rollback().await.unwrap();
    rig.elapse(RETENTION + LEASE).await;
    let delete = holds(&rig, "DELETE FROM idempotency_key").await;
    let outcome = rig.store.claim(&asks(&id("k"))).await;
    assert_eq!(kind(outcome), StoreErrorKind::Unavailable, "it would have to be written");
    delete.commit().await.unwrap();
    assert_eq!(claimed(rig.store.claim(&asks(&id("k"))).await).origin(), Origin::New);
}

#[tokio::test]
pub(super) async fn l06_of_takers_that_wait_for_one_lock_one_wins() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.store.checkpoint(&claim, &point(1), Rerun::Always).await.unwrap();
    rig.elapse(LEASE).await;
    // A checkpoint is committed while they wait: the winner is handed that one.
    let checkpoint =
        "UPDATE idempotency_key SET checkpoint = 2, recovery_point = 'later', version = version + 1";
    let checkpoint = holds(&rig, checkpoint).await;
    let commit = async {
        rig.blocked(2).await;
        checkpoint.commit().await.unwrap();
    };
    let (one, two) = (asks(&id("k")), asks(&id("k")));
    let (one, two, ()) = tokio::join!(rig.store.claim(&one), rig.store.claim(&two), commit);
    let (winner, loser) = if matches!(one, Ok(ClaimOutcome::Claimed(_))) { (one, two) } else { (two, one) };
    let winner = claimed(winner);
    assert_eq!((winner.fence().token, winner.checkpoint()), (2, 2));
    assert_eq!(winner.point().map(|point| point.name().to_owned()).as_deref(), Some("later"));
    assert!(matches!(loser, Ok(ClaimOutcome::InProgress { .. })), "{loser:?}");
}

#[tokio::test]
pub(super) async fn f06_a_mark_that_waited_past_its_time_is_too_late() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    // A connection that is there already: the mark has to be sent again before its time is over.
    let mut lock = rig.direct.begin().await.unwrap();
    rig.store.checkpoint(&claim, &point(1), Rerun::Until(Duration::from_secs(1))).await.unwrap();
    // Only held, never written: nothing makes the server look at a condition again.
    query(FENCE).execute(&mut *lock).await.unwrap();
    let release = async {
        rig.blocked(1).await;
        query("SELECT pg_sleep_until(rerun_until) FROM idempotency_key").execute(&mut *lock).await.unwrap();
        lock.rollback().await.unwrap();
    };
    let again = point(2);
    let (outcome, ()) = tokio::join!(rig.store.checkpoint(&claim, &again, Rerun::Again), release);
    assert_eq!(kind(outcome), StoreErrorKind::TooLate);
    assert_eq!(rig.record(&id("k")).await.unwrap().checkpoint, 1);
}

#[tokio::test]
pub(super) async fn f06_a_renewal_counts_its_lease_from_the_end_of_the_wait() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.sql("CREATE TABLE released (at timestamptz)").await;
    let lock = holds(&rig, FENCE).await;
    let release = async {
        rig.blocked(1).await;
        rig.sql("INSERT INTO released VALUES (clock_timestamp())").await;
        lock.rollback().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(rig.store.renew(&claim, LEASE * 2), release);
    outcome.unwrap();
    let sql = "SELECT lease_until >= at + interval '2 minutes' FROM idempotency_key, released";
    assert!(query_scalar::<_, bool>(sql).fetch_one(&rig.direct).await.unwrap(), "it lost what it waited");
}
