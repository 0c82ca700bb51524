//! How many completions stay on their page and touch no index, by the room that pages keep for them.
//!
//! Work takes time: a page is filled with claims before the first of them is completed, and the answers need more room than
//! the claims left. So every task holds a number of open claims and completes the oldest when it takes another.

use std::{collections::VecDeque, time::Duration};

use idem::{KeyStore as _, PostgresStore};
use idem_test_support::Database;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    contest::{RETENTION, answer, request},
    ours::{self, claim},
};

/// A server counts what a connection did when the connection ends.
const COUNTED_WITHIN: Duration = Duration::from_secs(30);

/// What goes on while updates are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) in_flight: usize,
    /// Of each task.
    pub(crate) open: usize,
    /// Of each task.
    pub(crate) operations: u32,
}

/// The share of heap-only updates, 0 to 1, in an empty database whose table gets this fillfactor.
pub(crate) async fn share(database: &Database, fillfactor: u32, load: Load) -> f64 {
    let pool = ours::pool(database.options(), load.in_flight).await;
    let store = PostgresStore::new(pool.clone());
    store.migrate().await.expect("a table");
    let setting = format!("ALTER TABLE idempotency_key SET (fillfactor = {fillfactor})");
    sqlx::raw_sql(AssertSqlSafe(setting)).execute(&pool).await.expect("a fillfactor");
    let mut tasks = JoinSet::new();
    for _ in 0..load.in_flight {
        tasks.spawn(work(store.clone(), load));
    }
    tasks.join_all().await;
    pool.close().await;

    let pool = database.pool(1).await;
    let expected = i64::from(load.operations) * i64::try_from(load.in_flight).expect("a few tasks");
    let counted = timeout(COUNTED_WITHIN, counts(&pool, expected)).await;
    let (all, hot) = counted.expect("the server counts all updates");
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let share = hot as f64 / all as f64;
    share
}

async fn work(store: PostgresStore, load: Load) {
    let (mut open, answer) = (VecDeque::new(), answer());
    for _ in 0..load.operations {
        open.push_back(claim(&store, &request()).await);
        if open.len() >= load.open {
            let oldest = open.pop_front().expect("an open claim");
            store.complete(&oldest, &answer, RETENTION).await.expect("an end");
        }
    }
    for claim in open {
        store.complete(&claim, &answer, RETENTION).await.expect("an end");
    }
}

async fn counts(pool: &PgPool, expected: i64) -> (i64, i64) {
    const COUNTS: &str = "
        SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables, pg_sleep(0.02)
        WHERE relid = 'idempotency_key'::regclass";
    loop {
        let (all, hot) = sqlx::query_as(COUNTS).fetch_one(pool).await.expect("counts");
        if all >= expected {
            return (all, hot);
        }
    }
}
