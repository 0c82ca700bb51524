//! What a call says, and leaves, when the network or the server fails around its statement.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod rig;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use idem_core::{
    Answer, BoxError, ClaimOutcome, Engine, KeyStore, Maintain, Operation, Origin, Policy, RecoveryPoint,
    Rerun, State, StoreErrorKind,
};
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Fault, Proxy, Strike, postgres};
use rig::{
    Rig,
    acts::{Act, Scene},
    calls::{LEASE, RETENTION, answer, claimed, fresh, id, kind, point, request, same},
    until,
};
use sqlx::{AssertSqlSafe, postgres::PgPoolOptions};
use tokio::time::timeout;

/// A store behind a proxy, and the same table seen directly.
struct Wire {
    rig: Rig,
    proxy: Proxy,
    store: PostgresStore,
}

impl Wire {
    async fn new() -> Self {
        Self::with(Settings::new(), 4).await
    }

    async fn with(settings: Settings, connections: u32) -> Self {
        let rig = Rig::new().await;
        let proxy = Proxy::to(postgres().addr()).await;
        let store = PostgresStore::with(proxy.pool(&rig.database, connections).await, settings);
        Self { rig, proxy, store }
    }

    /// Strikes the next statement of this name.
    fn strike(&self, name: &str, fault: Fault) -> Strike {
        let statements = self.store.statements();
        let (_, text) = statements.into_iter().find(|(it, _)| *it == name).expect("a statement's name");
        self.proxy.next(move |sql| sql == text, fault)
    }

    async fn break_commits(&self, code: &str, when: &str) {
        let sql = format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
               AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END $$;
             {when} FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.rig.store.pool()).await.expect("a trigger is set");
    }
}

#[tokio::test]
async fn p06_a_lost_request_is_unknown_and_did_nothing() {
    let wire = Wire::new().await;
    for act in Act::ALL {
        let scene = Scene::of(&wire.rig, act, &format!("{act:?}")).await;
        let before = scene.record(&wire.rig).await;
        let lost = wire.strike(act.statement(), Fault::LoseRequest);
        let answered = scene.call(&wire.store, false).await;
        assert_eq!(kind(&answered), Some(StoreErrorKind::Unknown), "{act:?}: {answered:?}");
        assert_eq!(lost.count(), 1, "{act:?}");
        assert_eq!(scene.record(&wire.rig).await, before, "{act:?}");

        scene.call(&wire.store, false).await.unwrap_or_else(|error| panic!("{act:?}: {error:?}"));
        assert_ne!(scene.record(&wire.rig).await, before, "{act:?}");
    }
}

#[tokio::test]
async fn p08_a_lost_reply_is_unknown_and_the_same_call_settles_it() {
    let wire = Wire::new().await;
    for act in Act::ALL {
        let scene = Scene::of(&wire.rig, act, &format!("{act:?}")).await;
        let before = scene.record(&wire.rig).await;
        let lost = wire.strike(act.statement(), Fault::LoseReply);
        let answered = scene.call(&wire.store, false).await;
        assert_eq!(kind(&answered), Some(StoreErrorKind::Unknown), "{act:?}: {answered:?}");
        assert_eq!(lost.count(), 1, "{act:?}");
        let written = scene.record(&wire.rig).await.expect("a record");
        assert_ne!(Some(&written), before.as_ref(), "{act:?}");

        scene.call(&wire.store, true).await.unwrap_or_else(|error| panic!("{act:?}: {error:?}"));
        let settled = scene.record(&wire.rig).await.expect("a record");
        match act {
            // Renewed once more: the two writes that may be repeated.
            Act::New | Act::TakenOver | Act::Retried | Act::Expired | Act::Reissued | Act::Renew => {
                assert_eq!(settled.version, written.version + 1, "{act:?}");
                assert_eq!((settled.operation, settled.token), (written.operation, written.token), "{act:?}");
            }
            Act::Checkpoint | Act::Complete | Act::Release | Act::Resolve => {
                assert_eq!(settled, written, "{act:?}");
            }
        }
    }
}

#[tokio::test]
async fn s05_a_statement_that_lands_after_the_record_moved_on_changes_nothing() {
    let wire = Wire::new().await;
    for act in Act::ALL {
        let scene = Scene::of(&wire.rig, act, &format!("{act:?}")).await;
        let late = wire.strike(act.statement(), Fault::Late);
        let answered = scene.call(&wire.store, false).await;
        assert_eq!(kind(&answered), Some(StoreErrorKind::Unknown), "{act:?}: {answered:?}");
        scene.overtake(&wire.rig).await;
        let moved_on = scene.record(&wire.rig).await;
        late.release().await;
        assert_eq!(scene.record(&wire.rig).await, moved_on, "{act:?}");
    }
}

#[tokio::test]
async fn s05_a_late_checkpoint_of_the_same_owner_undoes_no_later_one() {
    let wire = Wire::new().await;
    let claim = fresh(&wire.rig.store, "a").await;
    let late = wire.strike("checkpoint", Fault::Late);
    let marked = wire.store.checkpoint(&claim, &point(1), Rerun::Never).await;
    assert_eq!(kind(&marked), Some(StoreErrorKind::Unknown), "{marked:?}");
    let withdrawn = RecoveryPoint::new(2, "withdrawn", "{}").expect("a point");
    wire.store.checkpoint(&claim, &withdrawn, Rerun::Always).await.expect("a higher number");
    let before = wire.rig.store.find(&id("a")).await.expect("it is found");
    late.release().await;
    assert_eq!(wire.rig.store.find(&id("a")).await.expect("it is found"), before);
}

#[tokio::test]
async fn b034_a_lost_claim_is_no_conflict_with_itself() {
    let wire = Wire::new().await;
    let request = request("a");
    for round in 0..5 {
        let name = if round == 0 { "claim" } else { "reissue" };
        wire.strike(name, Fault::LoseReply);
        assert_eq!(kind(&wire.store.claim(&request).await), Some(StoreErrorKind::Unknown));
    }
    let claim = claimed(wire.store.claim(&request).await);
    assert_eq!((claim.origin(), claim.fence().token), (Origin::Reissued, 1));
}

#[tokio::test]
async fn b036_a_silent_network_costs_one_call_timeout_and_no_connection_for_good() {
    let wire = Wire::new().await;
    let settings = Settings::new().call_timeout(Duration::from_millis(200)).expect("in range");
    let told = [(true, StoreErrorKind::Unavailable), (false, StoreErrorKind::Unknown)];
    for (tested, expected) in told {
        let options = PgPoolOptions::new().max_connections(1).test_before_acquire(tested);
        let pool = options.connect_lazy_with(wire.proxy.options(&wire.rig.database));
        let store = PostgresStore::with(pool, settings.clone());
        for act in Act::ALL {
            let scene = Scene::of(&wire.rig, act, &format!("{act:?}-{tested}")).await;
            // There is a connection, and it is the one that goes silent.
            store.find(&id("nobody")).await.expect("an answer");
            yield_until(|| store.pool().num_idle() == 1).await;
            wire.proxy.black_hole(true);
            let called = timeout(Duration::from_secs(10), scene.call(&store, false)).await;
            let answered = called.unwrap_or_else(|_| panic!("{act:?} waits for ever"));
            assert_eq!(kind(&answered), Some(expected), "{act:?}: {answered:?}");
            wire.proxy.black_hole(false);

            let found = timeout(Duration::from_secs(10), store.find(&id(&scene.key))).await;
            assert!(matches!(found, Ok(Ok(_))), "{act:?}: {found:?}");
            assert_eq!(store.pool().size(), 1, "{act:?}");
        }
    }
}

#[tokio::test]
async fn b036_a_connection_that_goes_silent_on_its_way_back_gives_its_place_up() {
    let wire = Wire::new().await;
    let settings = Settings::new().call_timeout(Duration::from_millis(200)).expect("in range");
    let pool =
        PgPoolOptions::new().max_connections(1).connect_lazy_with(wire.proxy.options(&wire.rig.database));
    let store = PostgresStore::with(pool, settings);
    for _ in 0..3 {
        store.find(&id("nobody")).await.expect("an answer");
        // Before anything else runs here: the pool has yet to ask the connection how it is.
        wire.proxy.black_hole(true);
        yield_until(|| store.pool().size() == 0).await;
        wire.proxy.black_hole(false);
    }
}

/// Lets other tasks run until `condition` is true.
async fn yield_until(condition: impl Fn() -> bool + Send + Sync) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), waiting).await.expect("it comes true within 30 s");
}

#[tokio::test]
async fn b006_a_commit_that_fails_after_its_row_was_returned_is_no_claim() {
    let wire = Wire::new().await;
    let deferred = "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE ON idempotency_key
        DEFERRABLE INITIALLY DEFERRED";
    let mut scenes = Vec::new();
    for act in Act::ALL {
        scenes.push(Scene::of(&wire.rig, act, &format!("{act:?}")).await);
    }
    wire.break_commits("P0001", deferred).await;
    for scene in scenes {
        let before = scene.record(&wire.rig).await;
        let answered = scene.call(&wire.store, false).await;
        assert_eq!(kind(&answered), Some(StoreErrorKind::Unavailable), "{:?}: {answered:?}", scene.act);
        assert_eq!(scene.record(&wire.rig).await, before, "{:?}", scene.act);
    }
}

#[tokio::test]
async fn b162_a_conflict_that_never_ends_is_told_after_some_attempts() {
    for code in ["40001", "40P01"] {
        let wire = Wire::new().await;
        let mut scenes = Vec::new();
        for act in Act::ALL {
            scenes.push(Scene::of(&wire.rig, act, &format!("{act:?}")).await);
        }
        wire.break_commits(code, "CREATE TRIGGER always BEFORE INSERT OR UPDATE ON idempotency_key").await;
        for scene in scenes {
            let before = (scene.record(&wire.rig).await, wire.proxy.statements().len());
            let answered = scene.call(&wire.store, false).await;
            assert_eq!(kind(&answered), Some(StoreErrorKind::Unavailable), "{:?}: {answered:?}", scene.act);
            assert_eq!(scene.record(&wire.rig).await, before.0, "{:?}", scene.act);
            let sent = wire.proxy.statements().len() - before.1;
            assert!((2..=40).contains(&sent), "{:?}: {sent} statements", scene.act);
        }
    }
}

#[tokio::test]
async fn p06_a_cancelled_statement_did_nothing_and_may_be_sent_again() {
    let wire = Wire::new().await;
    let pool = wire.rig.store.pool();
    for act in Act::ALL.into_iter().filter(|act| *act != Act::New) {
        let scene = Scene::of(&wire.rig, act, &format!("{act:?}")).await;
        let before = scene.record(&wire.rig).await;
        let mut holder = pool.begin().await.expect("a transaction");
        let hold = "SELECT 1 FROM idempotency_key WHERE key = $1 FOR UPDATE";
        sqlx::query(hold).bind(&scene.key).execute(&mut *holder).await.expect("the row is held");
        let waiting = "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND wait_event_type = 'Lock') = 1";
        let cancel = async {
            until(pool, waiting).await;
            let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            sqlx::query(cancel).execute(pool).await.expect("it is cancelled");
        };
        let (answered, ()) = tokio::join!(scene.call(&wire.store, false), cancel);
        holder.rollback().await.expect("the row is let go");
        assert_eq!(kind(&answered), Some(StoreErrorKind::Unavailable), "{act:?}: {answered:?}");
        assert_eq!(scene.record(&wire.rig).await, before, "{act:?}");
        scene.call(&wire.store, false).await.unwrap_or_else(|error| panic!("{act:?}: {error:?}"));
    }
}

#[tokio::test]
async fn p06_without_a_server_nothing_was_done() {
    let wire = Wire::new().await;
    let scene = Scene::of(&wire.rig, Act::Complete, "a").await;
    wire.store.pool().close().await;
    let closed = scene.call(&wire.store, false).await;
    assert_eq!(kind(&closed), Some(StoreErrorKind::Unavailable), "{closed:?}");

    let impatient = PgPoolOptions::new().acquire_timeout(Duration::from_millis(100));
    let store = PostgresStore::new(impatient.connect_lazy_with(wire.proxy.options(&wire.rig.database)));
    wire.proxy.refuse(true);
    let refused = scene.call(&store, false).await;
    assert_eq!(kind(&refused), Some(StoreErrorKind::Unavailable), "{refused:?}");
}

/// Callers that send every key several times until it is answered, while every few statements a reply or a request is
/// lost: the work runs once per key, and its answer is the one that is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s01_an_engine_runs_each_key_once_while_replies_are_lost() {
    const KEYS: usize = 30;
    let wire = Wire::with(Settings::new(), 8).await;
    for nth in 1..60 {
        let fault = if nth % 3 == 0 { Fault::LoseRequest } else { Fault::LoseReply };
        wire.proxy.nth(nth * 3, |sql| sql.contains("\"idempotency_key\""), fault);
    }
    let engine = Engine::new(wire.store.clone());
    let runs: Arc<[AtomicUsize]> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let callers = (0..KEYS * 3).map(|caller| {
        let (engine, runs) = (engine.clone(), Arc::clone(&runs));
        let policy = if caller % 2 == 0 { Policy::resumable() } else { Policy::opaque() };
        async move {
            let key = caller % KEYS;
            loop {
                let runs = Arc::clone(&runs);
                let work = move |op: Operation| async move {
                    runs.get(key).expect("a key").fetch_add(1, Ordering::SeqCst);
                    Ok::<_, BoxError>(op.complete(answer()).await?)
                };
                match engine.run(id(&format!("key-{key}")), same("{}"), &policy, work).await {
                    Ok(Answer::Executed(sent) | Answer::Replayed(sent)) => return assert_eq!(sent, answer()),
                    Ok(Answer::InProgress { .. }) | Err(_) => tokio::task::yield_now().await,
                    Ok(other) => panic!("{other:?}"),
                }
            }
        }
    });
    timeout(Duration::from_mins(1), join_all(callers)).await.expect("every caller is answered");
    for (key, runs) in runs.iter().enumerate() {
        assert_eq!(runs.load(Ordering::SeqCst), 1, "key-{key}");
        let record = wire.rig.store.find(&id(&format!("key-{key}"))).await.expect("it is found");
        assert!(matches!(record.map(|it| it.state), Some(State::Completed { .. })), "key-{key}");
    }
}

#[tokio::test]
async fn p06_a_completed_answer_survives_every_loss_of_its_owner() {
    let wire = Wire::new().await;
    let claim = fresh(&wire.store, "a").await;
    wire.strike("complete", Fault::LoseReply);
    wire.strike("release", Fault::LoseReply);
    let completed = wire.store.complete(&claim, &answer(), RETENTION).await;
    assert_eq!(kind(&completed), Some(StoreErrorKind::Unknown));
    // Whoever thinks that it failed cannot undo it.
    let _unheard = wire.store.release(&claim, RETENTION).await;
    assert_eq!(kind(&wire.store.release(&claim, RETENTION).await), Some(StoreErrorKind::ClaimLost));
    assert_eq!(kind(&wire.store.renew(&claim, LEASE).await), Some(StoreErrorKind::ClaimLost));
    let replayed = wire.store.claim(&request("a")).await;
    assert!(matches!(replayed, Ok(ClaimOutcome::Completed(sent)) if sent == answer()));
}
