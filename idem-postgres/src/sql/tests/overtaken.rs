//! The second statement of a claim, a decision and an end, where the row moved before they came to it.

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Decision, KeyStore, Maintain, Origin, Rerun, StoreErrorKind,
};
use idem_test_support::{Fault, Proxy, postgres};

use sqlx::query;

use super::{
    locks::{FENCE, holds, patient},
    open,
    rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, kind, point, pool_to},
};
use crate::Settings;

/// Claims a row that somebody holds, and who changes it once the claim's second statement waits for the row.
///
/// Held, not changed, to begin with: the claim's first statement would wait for a change.
async fn behind(rig: &Rig, request: &ClaimRequest, change: &'static str) -> ClaimOutcome {
    let mut holder = holds(rig, FENCE).await;
    let change = async {
        rig.blocked(1).await;
        query(change).execute(&mut *holder).await.unwrap();
        holder.commit().await.unwrap();
    };
    tokio::join!(rig.store.claim(request), change).0.unwrap()
}

/// Where the key is another operation's by now.
const ANOTHER: &str = "UPDATE idempotency_key SET operation = gen_random_uuid(), attempt = gen_random_uuid(),
    status = 'in_progress', ended_at = NULL, response_code = NULL, response_headers = NULL, response_body = NULL,
    lease_until = clock_timestamp() + interval '1 minute', expires_at = clock_timestamp() + interval '1 hour'";

#[tokio::test]
pub(super) async fn l12_a_takeover_that_waited_behind_a_mark_does_not_run() {
    let rig = patient().await;
    drop(rig.take(&id("k")).await);
    rig.elapse(LEASE).await;
    let outcome = behind(&rig, &asks(&id("k")), "UPDATE idempotency_key SET rerun_until = '-infinity'").await;
    assert!(matches!(outcome, ClaimOutcome::InDoubt { .. }), "{outcome:?}");
}

#[tokio::test]
pub(super) async fn l07_a_takeover_that_waited_behind_a_renewal_takes_nothing() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.elapse(LEASE).await;
    let renewal = "UPDATE idempotency_key SET lease_until = clock_timestamp() + interval '1 minute'";
    let outcome = behind(&rig, &asks(&id("k")), renewal).await;
    assert!(matches!(outcome, ClaimOutcome::InProgress { .. }), "{outcome:?}");
    assert_eq!(rig.record(&id("k")).await.unwrap().fence(), claim.fence());
}

#[tokio::test]
pub(super) async fn s04_a_re_issue_that_waited_behind_its_release_retries() {
    let rig = patient().await;
    let request = asks(&id("k"));
    drop(claimed(rig.store.claim(&request).await));
    let release = "UPDATE idempotency_key SET status = 'failed', ended_at = clock_timestamp()";
    let claim = claimed(Ok(behind(&rig, &request, release).await));
    assert_eq!((claim.origin(), claim.fence().token), (Origin::Retried, 2), "not the ended one once more");
}

#[tokio::test]
pub(super) async fn s02_a_retry_that_waited_past_the_retention_starts_anew() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.store.release(&claim, RETENTION).await.unwrap();
    let outcome =
        behind(&rig, &asks(&id("k")), "UPDATE idempotency_key SET expires_at = clock_timestamp()").await;
    let anew = claimed(Ok(outcome));
    assert_eq!((anew.origin(), anew.fence().token), (Origin::Expired, 1));
}

#[tokio::test]
pub(super) async fn s02_a_wipe_that_waited_behind_another_leaves_it_alone() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    rig.elapse(LEASE + RETENTION).await;
    let outcome = behind(&rig, &asks(&id("k")), ANOTHER).await;
    assert!(matches!(outcome, ClaimOutcome::InProgress { .. }), "{outcome:?}");
}

/// As it is when the server's clock was set back.
#[tokio::test]
pub(super) async fn s02_a_wipe_judges_the_expiry_again() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
    rig.elapse(LEASE + RETENTION).await;
    let back = "UPDATE idempotency_key SET expires_at = expires_at + interval '2 hours'";
    let outcome = behind(&rig, &asks(&id("k")), back).await;
    assert!(matches!(outcome, ClaimOutcome::Completed(_)), "{outcome:?}");
}

#[tokio::test]
pub(super) async fn s16_a_decision_that_waited_behind_its_owner_is_lost() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    rig.store.checkpoint(&claim, &point(1), Rerun::Never).await.unwrap();
    rig.elapse(LEASE).await;
    let seen = rig.record(&id("k")).await.unwrap();
    let renewal = "UPDATE idempotency_key SET lease_until = clock_timestamp() + interval '1 minute',
        version = version + 1";
    let renewal = holds(&rig, renewal).await;
    let commit = async {
        rig.blocked(1).await;
        renewal.commit().await.unwrap();
    };
    let (decided, ()) = tokio::join!(rig.store.resolve(&seen, &Decision::Fail, RETENTION), commit);
    assert_eq!(kind(decided), StoreErrorKind::ClaimLost);
    assert_eq!(rig.record(&id("k")).await.unwrap().version, seen.version + 1, "the renewal's");
}

#[tokio::test]
pub(super) async fn s12_a_release_that_waited_behind_an_answer_is_lost() {
    let rig = patient().await;
    let claim = rig.take(&id("k")).await;
    let mut holder = holds(&rig, FENCE).await;
    let complete = async {
        rig.blocked(1).await;
        let end =
            "UPDATE idempotency_key SET status = 'completed', response_code = 201, response_headers = '',
            response_body = '', ended_at = clock_timestamp(), version = version + 1";
        query(end).execute(&mut *holder).await.unwrap();
        holder.commit().await.unwrap();
    };
    let (released, ()) = tokio::join!(rig.store.release(&claim, RETENTION), complete);
    assert_eq!(kind(released), StoreErrorKind::ClaimLost, "no effect is open");
}

/// A claim whose caller is gone: its second statement arrives when `change` has been made, and lands nowhere.
async fn arrives_late(statement: &'static str, change: &str) {
    let rig = Rig::new().await;
    let proxy = Proxy::to(postgres().addr()).await;
    let store = open(pool_to(proxy.options(&rig.database), 2), Settings::new());
    let (_, text) = store.statements().into_iter().find(|(name, _)| *name == statement).unwrap();
    let request = asks(&id("k"));
    let claim: Claim = claimed(rig.store.claim(&request).await);
    match statement {
        "take" => rig.elapse(LEASE).await,
        "wipe" => {
            rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
            rig.elapse(LEASE + RETENTION).await;
        }
        _ => {}
    }
    let late = proxy.next(move |sql| sql == text, Fault::Late);
    let sent = if statement == "reissue" { request } else { asks(&id("k")) };
    assert_eq!(kind(store.claim(&sent).await), StoreErrorKind::Unknown);
    late.struck().await;
    rig.sql(format!("UPDATE idempotency_key SET {change}")).await;
    let before = rig.record(&id("k")).await;
    late.release().await;
    assert_eq!(rig.record(&id("k")).await, before, "a late {statement} landed after {change}");
}

/// As it is when another owner took it over and was too slow as well.
#[tokio::test]
pub(super) async fn s01_a_takeover_that_arrives_after_another_lands_nowhere() {
    arrives_late("take", "token = token + 1, attempt = gen_random_uuid()").await;
}

#[tokio::test]
pub(super) async fn s01_a_takeover_of_an_earlier_operation_lands_nowhere() {
    arrives_late("take", "operation = gen_random_uuid(), attempt = gen_random_uuid()").await;
}

#[tokio::test]
pub(super) async fn s01_a_wipe_of_an_earlier_operation_lands_nowhere() {
    arrives_late("wipe", "operation = gen_random_uuid()").await;
}

/// As it is when a retry came just in time, ended as well, and was kept for no time.
#[tokio::test]
pub(super) async fn s01_a_wipe_that_arrives_after_a_retry_lands_nowhere() {
    arrives_late("wipe", "token = token + 1, attempt = gen_random_uuid()").await;
}

/// As it is when the claim itself arrived twice, and made a new operation the second time.
#[tokio::test]
pub(super) async fn s01_a_re_issue_of_an_earlier_operation_lands_nowhere() {
    arrives_late("reissue", "operation = gen_random_uuid()").await;
}

/// As it is when somebody else had it between two arrivals of the claim.
#[tokio::test]
pub(super) async fn s01_a_re_issue_of_an_earlier_token_lands_nowhere() {
    arrives_late("reissue", "token = token + 2").await;
}
