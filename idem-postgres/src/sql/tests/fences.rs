//! The first statement of a transaction that carries an operation.

use idem_core::{Claim, Fence, KeyId, KeyStore as _, Scope};
use sqlx::{AssertSqlSafe, PgPool, Postgres, Row as _, Transaction, postgres::PgRow};

use super::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id};
use crate::{PostgresStore, store::fenced};

const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

/// Begins at this level and fences.
async fn begin(
    store: &PostgresStore,
    level: &'static str,
    claim: &Claim,
) -> (Transaction<'static, Postgres>, Result<PgRow, sqlx::Error>) {
    let pool: &PgPool = store.pool();
    let mut transaction = pool.begin_with(level).await.unwrap();
    let (_, sql) = store.statements().into_iter().find(|(name, _)| *name == "fence").unwrap();
    let row = fenced(sqlx::query(AssertSqlSafe(sql)), claim, "100ms").fetch_one(&mut *transaction).await;
    (transaction, row)
}

async fn holds(rig: &Rig, claim: &Claim) -> bool {
    let (transaction, row) = begin(&rig.store, READ_COMMITTED, claim).await;
    transaction.rollback().await.unwrap();
    row.is_ok_and(|row| row.get("held"))
}

fn like(claim: &Claim, id: KeyId, fence: Fence) -> Claim {
    Claim::new(id, fence, claim.fingerprint(), claim.origin())
}

#[tokio::test]
pub(super) async fn s08_a_fence_holds_its_own_record_only() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    drop(rig.take(&id("another")).await);
    assert!(holds(&rig, &claim).await);
    let elsewhere = KeyId::new(Scope::new("tenant-2").unwrap(), claim.id().key().clone());
    for other in [id("another"), elsewhere] {
        assert!(!holds(&rig, &like(&claim, other, claim.fence())).await);
    }
}

#[tokio::test]
pub(super) async fn s08_a_fence_of_an_owner_that_was_left_behind_holds_nothing() {
    let rig = Rig::new().await;
    let first = rig.take(&id("k")).await;
    rig.elapse(LEASE).await;
    let second = rig.take(&id("k")).await;
    assert!(!holds(&rig, &first).await && holds(&rig, &second).await);
    rig.store.complete(&second, &answer(), RETENTION).await.unwrap();
    assert!(!holds(&rig, &second).await, "it has ended");
    rig.elapse(LEASE + RETENTION).await;
    let anew = rig.take(&id("k")).await;
    let stale = like(&anew, id("k"), Fence { token: anew.fence().token, ..first.fence() });
    assert!(!holds(&rig, &stale).await && holds(&rig, &anew).await);
}

#[tokio::test]
pub(super) async fn s08_a_fence_keeps_others_from_taking_over() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    let (transaction, row) = begin(&rig.store, READ_COMMITTED, &claim).await;
    assert!(row.unwrap().get::<bool, _>("held"));
    // As the write of a takeover locks it.
    let lock = sqlx::query("SELECT FROM idempotency_key FOR NO KEY UPDATE NOWAIT");
    assert!(lock.execute(&rig.direct).await.is_err());
    transaction.rollback().await.unwrap();
}

#[tokio::test]
pub(super) async fn p19_a_fence_above_read_committed_waits_for_nobody_and_holds_nothing() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    let mut holder = rig.direct.begin().await.unwrap();
    sqlx::query("SELECT FROM idempotency_key FOR UPDATE").execute(&mut *holder).await.unwrap();
    let (transaction, row) = begin(&rig.store, SERIALIZABLE, &claim).await;
    let row = row.expect("it is refused by what it says, not by a wait");
    assert!(!row.get::<bool, _>("read_committed") && !row.get::<bool, _>("held"));
    drop((transaction, holder));
}

#[tokio::test]
pub(super) async fn s21_a_fence_bounds_an_idle_owner_by_its_lease() {
    let rig = Rig::new().await;
    let claim = rig.take(&id("k")).await;
    let millis = async |claim: &Claim| {
        let (transaction, row) = begin(&rig.store, READ_COMMITTED, claim).await;
        let limit: Option<String> = row.expect("an answer").get("idle_timeout");
        drop(transaction);
        limit.map(|it| {
            let digits = it.find(char::is_alphabetic).unwrap();
            let unit = match &it[digits..] {
                "ms" => 1,
                "s" => 1_000,
                "min" => 60_000,
                unit => panic!("{unit}"),
            };
            it[..digits].parse::<u128>().unwrap() * unit
        })
    };
    let left = millis(&claim).await.expect("a limit");
    assert!((LEASE.as_millis() - 30_000..=LEASE.as_millis()).contains(&left), "{left} ms");
    rig.elapse(LEASE).await;
    assert_eq!(millis(&claim).await, Some(1), "no limit would be zero");
    let lost = claimed(rig.store.claim(&asks(&id("k"))).await);
    assert_eq!(millis(&claim).await, None);
    drop(lost);
}
