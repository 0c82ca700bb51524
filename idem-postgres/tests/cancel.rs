//! Calls whose caller goes away: they may still happen, and they hold up nobody.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod rig;

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use futures_util::future::join_all;
use idem_core::{Answer, BoxError, Engine, Maintain, Operation, Policy};
use idem_postgres::{PostgresStore, Settings};
use rig::{
    Rig,
    acts::{Act, Scene},
    calls::{answer, id, same},
    until,
};
use tokio::time::timeout;

const PATIENT: Duration = Duration::from_mins(1);
/// A store of its own pool, which waits for locks longer than any test.
async fn patient(rig: &Rig, connections: u32) -> PostgresStore {
    let settings = Settings::new().lock_timeout(PATIENT).and_then(|it| it.call_timeout(PATIENT));
    PostgresStore::with(rig.database.pool(connections).await, settings.expect("in range"))
}

fn waiting(count: usize) -> String {
    format!(
        "(SELECT count(*) FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock') = {count}"
    )
}

#[tokio::test]
async fn f01_dropped_calls_give_their_connections_up_while_their_statements_wait() {
    let rig = Rig::new().await;
    let store = patient(&rig, 2).await;
    for act in Act::ALL.into_iter().filter(|act| *act != Act::New) {
        let key = format!("{act:?}");
        let scene = Scene::of(&rig, act, &key).await;
        let mut holder = rig.store.pool().begin().await.expect("a transaction");
        let hold = "SELECT 1 FROM idempotency_key WHERE key = $1 FOR UPDATE";
        sqlx::query(hold).bind(&key).execute(&mut *holder).await.expect("the row is held");
        for number in 1..=2 {
            let blocked = waiting(number);
            tokio::select! {
                biased;
                called = scene.call(&store, false) => panic!("{act:?}: the row is held: {called:?}"),
                () = until(rig.store.pool(), &blocked) => {}
            }
        }
        let third = timeout(Duration::from_secs(10), store.find(&id(&key))).await;
        assert!(matches!(third, Ok(Ok(Some(_)))), "{act:?}: {third:?}");

        holder.rollback().await.expect("the row is let go");
        // What was dropped happens now, and its sessions end.
        until(rig.store.pool(), &waiting(0)).await;
        let sessions = "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND query LIKE 'WITH%FOR NO KEY UPDATE%' AND state = 'active' AND pid <> pg_backend_pid()) = 0";
        until(rig.store.pool(), sessions).await;
        let record = scene.record(&rig).await.expect("a record");
        assert!(record.version > 1, "{act:?}: a dropped call is a lost reply");
    }
}

/// Polls `call` at most `polls` times, each time that it is woken, then drops it.
async fn dropped_after<T: Send>(polls: usize, call: impl Future<Output = T> + Send) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(move |context| {
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn b032_every_call_may_be_dropped_at_any_moment_and_sent_again() {
    let rig = Rig::new().await;
    let named = PostgresStore::new(rig.database.pool(2).await);
    let unnamed = PostgresStore::with(rig.database.pool(2).await, Settings::new().unnamed_statements());
    let mut dropped = 0;
    for (name, store) in [("named", named), ("unnamed", unnamed)] {
        for act in Act::ALL {
            for polls in 1.. {
                assert!(polls < 1000, "{act:?} never ends");
                let scene = Scene::of(&rig, act, &format!("{name}-{act:?}-{polls}")).await;
                let ended = dropped_after(polls, scene.call(&store, false)).await;
                if let Some(ended) = ended {
                    ended.unwrap_or_else(|error| panic!("{act:?} in {polls}: {error:?}"));
                    break;
                }
                dropped += 1;
                let settled = timeout(Duration::from_secs(10), scene.settle(&store)).await;
                assert!(matches!(settled, Ok(Ok(()))), "{act:?} after {polls}: {settled:?}");
            }
        }
    }
    assert!(dropped > 40, "only {dropped} calls were dropped on their way");
    let open = "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state LIKE 'idle in transaction%') = 0";
    until(rig.store.pool(), open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l10_one_connection_is_enough_for_everybody() {
    const KEYS: usize = 20;
    let rig = Rig::new().await;
    let pool = rig.database.pool(1).await;
    let engine = Engine::new(PostgresStore::new(pool.clone()));
    let callers = (0..KEYS * 3).map(|caller| {
        let (engine, pool) = (engine.clone(), pool.clone());
        let policy = if caller % 2 == 0 { Policy::resumable() } else { Policy::opaque() };
        async move {
            let key = id(&format!("key-{}", caller % KEYS));
            loop {
                let pool = pool.clone();
                // The work needs the only connection too.
                let work = async move |op: Operation| {
                    sqlx::query("SELECT 1").execute(&pool).await?;
                    Ok::<_, BoxError>(op.complete(answer()).await?)
                };
                match engine.run(key.clone(), same("{}"), &policy, work).await {
                    Ok(Answer::Executed(sent) | Answer::Replayed(sent)) => return assert_eq!(sent, answer()),
                    Ok(Answer::InProgress { .. }) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    timeout(Duration::from_mins(1), join_all(callers)).await.expect("every caller is answered");
}
