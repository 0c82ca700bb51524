//! Claims whose messages are lost or late, whichever of their statements it was.

use idem_core::{KeyId, KeyStore, Origin, StoreErrorKind};
use idem_postgres::PostgresStore;
use idem_test_support::{Fault, Proxy, Strike, postgres};

use crate::rig::{LEASE, RETENTION, Rig, answer, asks, claimed, id, idle, kind, pool_to};

/// A store behind a proxy; `rig.store` reaches the same records past it.
struct Wire {
    rig: Rig,
    proxy: Proxy,
    store: PostgresStore,
}

impl Wire {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let proxy = Proxy::to(postgres().addr()).await;
        let store = PostgresStore::new(pool_to(proxy.options(&rig.database), 4));
        Self { rig, proxy, store }
    }

    fn strike(&self, statement: &str, fault: Fault) -> Strike {
        let all = self.store.statements();
        let (_, text) = all.into_iter().find(|(name, _)| *name == statement).expect("a statement");
        self.proxy.next(move |sql| sql == text, fault)
    }
}

/// Records in which a claim takes its second statement.
async fn before(rig: &Rig, statement: &str, id: &KeyId) {
    let claim = rig.take(id).await;
    match statement {
        "wipe" => {
            rig.store.complete(&claim, &answer(), RETENTION).await.unwrap();
            rig.elapse(LEASE + RETENTION).await;
        }
        _ => rig.elapse(LEASE).await,
    }
}

#[tokio::test]
async fn b034_a_takeover_and_a_reclaim_whose_reply_was_lost_are_recognised() {
    let wire = Wire::new().await;
    for statement in ["take", "wipe"] {
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            let key = id(&format!("{statement}-{fault:?}"));
            before(&wire.rig, statement, &key).await;
            let request = asks(&key);
            let strike = wire.strike(statement, fault);
            assert_eq!(kind(wire.store.claim(&request).await), StoreErrorKind::Unknown);
            strike.struck().await;
            let claim = claimed(wire.store.claim(&request).await);
            let record = wire.rig.record(&key).await.expect("a record");
            assert_eq!((claim.fence(), record.attempt), (record.fence(), request.attempt));
            let reissued = claim.origin() == Origin::Reissued;
            assert_eq!(reissued, fault == Fault::LoseReply, "{statement}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn s01_a_claim_that_arrives_late_takes_nothing_from_anybody() {
    let wire = Wire::new().await;
    // Statement, and whether the key has ended when it arrives.
    for (statement, ended) in
        [("claim", false), ("claim", true), ("take", false), ("take", true), ("wipe", false)]
    {
        let key = id(&format!("{statement}-{ended}"));
        if statement != "claim" {
            before(&wire.rig, statement, &key).await;
        }
        let late = wire.strike(statement, Fault::Late);
        assert_eq!(kind(wire.store.claim(&asks(&key)).await), StoreErrorKind::Unknown);
        let owner = wire.rig.take(&key).await;
        if ended {
            wire.rig.store.complete(&owner, &answer(), RETENTION).await.unwrap();
        }
        let before = wire.rig.record(&key).await;
        late.release().await;
        assert_eq!(wire.rig.record(&key).await, before, "a late {statement} landed; ended={ended}");
    }
}

#[tokio::test]
async fn s01_a_late_claim_and_its_re_issue_are_one() {
    let wire = Wire::new().await;
    let request = asks(&id("k"));
    let late = wire.strike("claim", Fault::Late);
    assert_eq!(kind(wire.store.claim(&request).await), StoreErrorKind::Unknown);
    let claim = claimed(wire.store.claim(&request).await);
    assert_eq!(claim.origin(), Origin::New, "the first has not arrived");
    let before = wire.rig.record(&request.id).await;
    late.release().await;
    assert_eq!(wire.rig.record(&request.id).await, before);
}

#[tokio::test]
async fn f04_a_broken_idle_connection_costs_one_unknown_outcome() {
    let wire = Wire::new().await;
    let key = id("k");
    let claim = claimed(wire.store.claim(&asks(&key)).await);
    idle(&wire.store).await;
    wire.proxy.cut_all();
    assert_eq!(kind(wire.store.renew(&claim, LEASE).await), StoreErrorKind::Unknown);
    wire.store.renew(&claim, LEASE).await.expect("a connection of its own");
    idle(&wire.store).await;
    wire.proxy.refuse(true);
    wire.proxy.cut_all();
    assert_eq!(kind(wire.store.renew(&claim, LEASE).await), StoreErrorKind::Unknown);
    let away = wire.store.claim(&asks(&id("other"))).await;
    assert_eq!(kind(away), StoreErrorKind::Unavailable, "nobody to send it to");
    wire.proxy.refuse(false);
    wire.store.complete(&claim, &answer(), RETENTION).await.expect("it is back");
}
