//! Consumers whose connection breaks around the commit: the broker hears of nothing and delivers again.

use idem_core::ErrorKind;
use idem_postgres::PostgresStore;
use idem_test_support::{Fault, Proxy, contains, postgres};

use crate::rig::{LEDGER, RETENTION, Rig, act, deliver, kind};

struct Wire {
    rig: Rig,
    proxy: Proxy,
    /// A consumer behind the proxy.
    far: PostgresStore,
}

impl Wire {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let proxy = Proxy::to(postgres().addr()).await;
        let settings = idem_postgres::Settings::new().inbox_retention(RETENTION).unwrap();
        let far = PostgresStore::with(proxy.pool(&rig.database, 2).await, settings);
        Self { rig, proxy, far }
    }

    /// A delivery whose commit meets a fault; the consumer cannot tell what became of it.
    async fn cut_at_commit(&self, event: &str, fault: Fault) -> idem_test_support::Strike {
        let mut tx = self.far.pool().begin().await.unwrap();
        assert_eq!(self.far.inbox().once(&mut tx, LEDGER, event).await.ok(), Some(true));
        act(&mut tx, LEDGER, event).await;
        let strike = self.proxy.next(|sql| sql == "COMMIT", fault);
        tx.commit().await.expect_err("nobody answers");
        strike.struck().await;
        strike
    }
}

#[tokio::test]
async fn i03_a_cut_between_commit_and_acknowledgement_has_one_effect_whichever_way_it_went() {
    let wire = Wire::new().await;
    for (event, fault, was_committed) in
        [("paid-1", Fault::LoseReply, true), ("paid-2", Fault::LoseRequest, false)]
    {
        wire.cut_at_commit(event, fault).await;
        assert_eq!(deliver(&wire.far, LEDGER, event).await.ok(), Some(!was_committed), "{fault:?}");
        assert_eq!(wire.rig.effects(event).await, 1, "{fault:?}");
    }
}

#[tokio::test]
async fn i03_a_redelivery_waits_for_a_commit_that_is_still_under_way() {
    let wire = Wire::new().await;
    let late = wire.cut_at_commit("paid-1", Fault::Late).await;
    let store = wire.rig.store.clone();
    let again = tokio::spawn(async move { deliver(&store, LEDGER, "paid-1").await });
    wire.rig.blocked(1).await;
    late.release().await;
    assert_eq!(again.await.unwrap().ok(), Some(false));
    assert_eq!(wire.rig.effects("paid-1").await, 1);
}

#[tokio::test]
async fn i04_a_question_whose_answer_is_lost_was_not_done() {
    let wire = Wire::new().await;
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        let event = format!("paid-{fault:?}");
        let mut tx = wire.far.pool().begin().await.unwrap();
        let strike = wire.proxy.next(contains("idempotency_key_inbox"), fault);
        let lost = wire.far.inbox().once(&mut tx, LEDGER, &event).await;
        strike.struck().await;
        assert_eq!(kind(&lost), Some(ErrorKind::Unavailable), "no commit was sent: {lost:?}");
        drop(tx);
        assert_eq!(deliver(&wire.far, LEDGER, &event).await.ok(), Some(true), "{fault:?}");
    }
}
