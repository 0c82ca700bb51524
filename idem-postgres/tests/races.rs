//! What a call writes after it had to wait for its row.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod rig;

use std::time::Duration;

use idem_postgres::{PostgresStore, Settings};
use rig::{
    Rig,
    acts::{Act, Scene},
    until,
};

#[tokio::test]
async fn f06_what_is_given_counts_from_the_end_of_the_wait() {
    let rig = Rig::new().await;
    let pool = rig.store.pool();
    let patient = Settings::new().lock_timeout(Duration::from_secs(20)).expect("in range");
    let patient = patient.call_timeout(Duration::from_secs(30)).expect("in range");
    let store = PostgresStore::with(rig.database.pool(2).await, patient);
    let blocked = "(SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock') = 1";
    sqlx::raw_sql("CREATE TABLE let_go (key text, at timestamptz)").execute(pool).await.expect("a table");

    for act in Act::ALL.into_iter().filter(|act| *act != Act::New) {
        let key = format!("{act:?}");
        let scene = Scene::of(&rig, act, &key).await;
        let mut holder = pool.begin().await.expect("a transaction");
        // Only held, not changed: then the server does not look at the statement's values again.
        let hold = "SELECT 1 FROM idempotency_key WHERE key = $1 FOR NO KEY UPDATE";
        sqlx::query(hold).bind(&key).execute(&mut *holder).await.expect("the row is held");
        let let_go = async {
            until(pool, blocked).await;
            let note = "INSERT INTO let_go VALUES ($1, clock_timestamp())";
            sqlx::query(note).bind(&key).execute(pool).await.expect("a note");
            holder.rollback().await.expect("the row is let go");
        };
        let (called, ()) = tokio::join!(scene.call(&store, false), let_go);
        called.unwrap_or_else(|error| panic!("{act:?}: {error:?}"));
        let promised = match act {
            Act::New | Act::TakenOver | Act::Retried | Act::Expired | Act::Reissued => {
                "lease_until >= at + interval '90 seconds'"
            }
            Act::Renew => "lease_until >= at + interval '180 seconds'",
            Act::Checkpoint => "rerun_until >= at + interval '24 hours'",
            // An end judges no time: it is counted from its sending, and kept for as long as was asked for after it.
            Act::Complete | Act::Release => "ended_at < at AND expires_at >= ended_at + interval '24 hours'",
            Act::Resolve => "ended_at >= at AND expires_at >= at + interval '1 hour'",
        };
        let kept = format!("SELECT {promised} FROM idempotency_key JOIN let_go USING (key) WHERE key = $1");
        let kept: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(kept))
            .bind(&key)
            .fetch_one(pool)
            .await
            .expect("the server compares");
        assert!(kept, "{act:?}: not {promised}");
    }
}
