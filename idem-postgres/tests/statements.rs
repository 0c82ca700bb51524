//! What is sent for each call, and what it costs the table.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod rig;

use std::time::Duration;

use idem_core::{ClaimOutcome, ClaimRequest, Decision, KeyStore, Maintain, Rerun, StoredResponse};
use idem_postgres::PostgresStore;
use idem_test_support::Postgres;
use rig::{
    Rig,
    calls::{LEASE, LONG, RETENTION, answer, claimed, fresh, id, point, request, same},
    until,
};
use sqlx::{AssertSqlSafe, Row as _};
use tokio::time::timeout;

/// A store on a server of its own that logs every statement, and on which nothing happens but the test.
struct Watched {
    rig: Rig,
    server: Postgres,
}

impl Watched {
    async fn new() -> Self {
        let quiet = [
            ("log_statement", "all"),
            ("autovacuum", "off"),
            ("wal_level", "minimal"),
            ("max_wal_senders", "0"),
        ];
        let builder =
            quiet.into_iter().fold(Postgres::builder(), |it, (name, value)| it.setting(name, value));
        let server = builder.start().await;
        Self { rig: Rig::on(server.database().await).await, server }
    }

    /// The names of the statements that `call` sends to the table, in order.
    async fn sent<T>(&self, call: impl Future<Output = T>) -> (T, Vec<&'static str>) {
        let before = self.log().await.len();
        let answered = call.await;
        let names = self.rig.store.statements();
        let log = self.log().await;
        let sent = log
            .iter()
            .skip(before)
            .filter(|entry| entry.contains("\"idempotency_key\""))
            .map(|entry| {
                let (_, sql) = entry.split_once(": ").expect("a statement after its name");
                let owner = names.iter().find(|(_, text)| plain(text) == sql);
                owner.map_or_else(|| panic!("a statement of nobody's: {sql}"), |(name, _)| *name)
            })
            .collect();
        (answered, sent)
    }

    /// The statements that the server has run so far, one a line, this look included.
    async fn log(&self) -> Vec<String> {
        let mark = format!("mark {}", uuid::Uuid::new_v4());
        let sql = AssertSqlSafe(format!("SELECT '{mark}'"));
        sqlx::query(sql).execute(self.rig.store.pool()).await.expect("a mark is set");
        let read = async {
            loop {
                let log = self.server.log();
                if log.contains(&mark) {
                    return log;
                }
                tokio::task::yield_now().await;
            }
        };
        let log = timeout(Duration::from_secs(30), read).await.expect("the log shows the mark");
        let joined = log.replace("\n\t", " ");
        joined.lines().filter_map(|line| line.split_once("execute ")).map(|(_, it)| plain(it)).collect()
    }

    async fn writes(&self) -> Writes {
        let sql = "SELECT pg_current_wal_insert_lsn()::text, pg_snapshot_xmax(pg_current_snapshot())::text,
            (SELECT string_agg(concat_ws(' ', ctid, xmin, xmax, k), E'\\n' ORDER BY key) FROM idempotency_key k)";
        let row = sqlx::query(sql).fetch_one(self.rig.store.pool()).await.expect("the server tells");
        Writes { wal: row.get(0), transaction: row.get(1), rows: row.get(2) }
    }
}

/// What any write would move.
#[derive(Debug, PartialEq, Eq)]
struct Writes {
    wal: String,
    transaction: String,
    rows: String,
}

fn plain(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn p03_a_call_sends_one_statement_and_one_more_where_a_found_row_is_written() {
    let watched = Watched::new().await;
    let store = &watched.rig.store;
    let first = request("a");

    let (claim, sent) = watched.sent(store.claim(&first)).await;
    let claim = claimed(claim);
    assert_eq!(sent, ["claim"], "new");
    let (_, sent) = watched.sent(store.claim(&request("a"))).await;
    assert_eq!(sent, ["claim"], "conflict");
    let (_, sent) = watched.sent(store.claim(&first)).await;
    assert_eq!(sent, ["claim", "reissue"], "re-issue");
    let (renewed, sent) = watched.sent(store.renew(&claim, LEASE)).await;
    assert_eq!((renewed.is_ok(), &*sent), (true, &["renew"][..]));
    let (noted, sent) = watched.sent(store.checkpoint(&claim, &point(1), Rerun::Keep)).await;
    assert_eq!((noted.is_ok(), &*sent), (true, &["checkpoint"][..]));

    watched.rig.elapse(LEASE).await;
    let (claim, sent) = watched.sent(store.claim(&request("a"))).await;
    let claim = claimed(claim);
    assert_eq!(sent, ["claim", "take"], "takeover");
    let (released, sent) = watched.sent(store.release(&claim, RETENTION)).await;
    assert_eq!((released.is_ok(), &*sent), (true, &["release"][..]));
    let (claim, sent) = watched.sent(store.claim(&request("a"))).await;
    let claim = claimed(claim);
    assert_eq!(sent, ["claim", "take"], "retry of a failed operation");
    let (completed, sent) = watched.sent(store.complete(&claim, &answer(), RETENTION)).await;
    assert_eq!((completed.is_ok(), &*sent), (true, &["complete"][..]));
    let (replayed, sent) = watched.sent(store.claim(&request("a"))).await;
    assert!(matches!(replayed, Ok(ClaimOutcome::Completed(_))), "{replayed:?}");
    assert_eq!(sent, ["claim"], "replay");

    watched.rig.elapse(LONG).await;
    let (claim, sent) = watched.sent(store.claim(&request("a"))).await;
    let claim = claimed(claim);
    assert_eq!(sent, ["claim", "wipe"], "an expired record");
    let (_, sent) = watched.sent(store.checkpoint(&claim, &point(1), Rerun::Never)).await;
    assert_eq!(sent, ["checkpoint"]);
    watched.rig.elapse(LEASE).await;
    let (stuck, sent) = watched.sent(store.stuck(10)).await;
    assert_eq!((stuck.map(|it| it.len()).ok(), &*sent), (Some(1), &["stuck"][..]));
    let (found, sent) = watched.sent(store.find(&id("a"))).await;
    assert_eq!(sent, ["find"]);
    let seen = found.expect("it is found").expect("it is there");
    let (resolved, sent) = watched.sent(store.resolve(&seen, &Decision::Fail, Duration::ZERO)).await;
    assert_eq!((resolved.is_ok(), &*sent), (true, &["resolve"][..]));
    watched.rig.elapse(LONG).await;
    let (swept, sent) = watched.sent(store.sweep(10)).await;
    assert_eq!((swept.ok(), &*sent), (Some(1), &["sweep"][..]));
}

#[tokio::test]
async fn s18_a_replay_a_conflict_and_a_mismatch_write_nothing() {
    let watched = Watched::new().await;
    let store = &watched.rig.store;
    let claim = fresh(store, "completed").await;
    store.complete(&claim, &answer(), RETENTION).await.expect("it completes");
    let _running = fresh(store, "running").await;
    let doubtful = fresh(store, "doubtful").await;
    store.checkpoint(&doubtful, &point(1), Rerun::Never).await.expect("a mark");
    store.renew(&doubtful, Duration::ZERO).await.expect("a hand-on");
    let other = |key| ClaimRequest::new(id(key), same("other"), LEASE, RETENTION).expect("a request");

    // What reading alone may tidy up once is tidied up first.
    sqlx::query("VACUUM FREEZE idempotency_key").execute(store.pool()).await.expect("a clean table");
    let before = watched.writes().await;
    for _ in 0..100 {
        assert!(matches!(store.claim(&request("completed")).await, Ok(ClaimOutcome::Completed(_))));
        assert!(matches!(store.claim(&request("running")).await, Ok(ClaimOutcome::InProgress { .. })));
        assert!(matches!(store.claim(&request("doubtful")).await, Ok(ClaimOutcome::InDoubt { .. })));
        assert!(matches!(store.claim(&other("completed")).await, Ok(ClaimOutcome::Mismatch)));
        assert!(matches!(store.claim(&other("running")).await, Ok(ClaimOutcome::Mismatch)));
    }
    assert_eq!(watched.writes().await, before);

    // The measure sees one write.
    store.renew(&claimed(store.claim(&request("fresh")).await), LEASE).await.expect("a renewal");
    let after = watched.writes().await;
    assert!(after.wal != before.wal && after.transaction != before.transaction && after.rows != before.rows);
}

#[tokio::test]
async fn p11_claim_and_complete_stay_on_their_page() {
    const ROUNDS: usize = 60;
    const IN_FLIGHT: usize = 32;
    const KEYS: usize = ROUNDS * IN_FLIGHT;
    let rig = Rig::new().await;
    // One connection puts all that is in flight on the same pages.
    let store = PostgresStore::new(rig.database.pool(1).await);
    let answer = StoredResponse::new(201, "b".repeat(200)).expect("a final status");
    for round in 0..ROUNDS {
        let mut claims = Vec::new();
        for number in 0..IN_FLIGHT {
            claims.push(fresh(&store, &format!("key-{round}-{number}")).await);
        }
        for claim in &claims {
            store.complete(claim, &answer, RETENTION).await.expect("it completes");
        }
    }
    store.pool().close().await;

    // The server counts when its sessions end.
    let pool = rig.database.pool(1).await;
    let table = "pg_stat_user_tables WHERE relname = 'idempotency_key'";
    until(&pool, &format!("(SELECT n_tup_upd >= {KEYS} FROM {table})")).await;
    let counted = AssertSqlSafe(format!("SELECT n_tup_upd, n_tup_hot_upd FROM {table}"));
    let row = sqlx::query(counted).fetch_one(&pool).await.expect("the server tells");
    let (all, hot): (i64, i64) = (row.get(0), row.get(1));
    assert!(hot * 10 >= all * 7, "{hot} of {all} updates were HOT");
}

#[tokio::test]
async fn p12_only_an_end_that_needs_it_moves_what_is_indexed() {
    let rig = Rig::new().await;
    let (store, pool) = (&rig.store, rig.store.pool());
    let expires = async || -> String {
        let row = sqlx::query("SELECT expires_at::text FROM idempotency_key").fetch_one(pool).await;
        row.expect("one row").get(0)
    };
    let claim = fresh(store, "a").await;
    let written = expires().await;
    store.renew(&claim, LEASE).await.expect("a renewal");
    store.checkpoint(&claim, &point(1), Rerun::Keep).await.expect("a checkpoint");
    rig.elapse(Duration::from_secs(1)).await;
    let moved = expires().await;
    assert_ne!(moved, written, "time moves what is stored in this test");
    store.complete(&claim, &answer(), RETENTION).await.expect("it completes");
    assert_eq!(expires().await, moved, "the usual end leaves it");
}

#[tokio::test]
async fn p15_every_statement_says_its_types_to_any_server() {
    let rig = Rig::new().await;
    let statements = rig.store.statements();
    assert_eq!(statements.len(), 14 + 2 + 10, "of keys, inbox and outbox");
    for (name, text) in statements {
        let prepare = AssertSqlSafe(format!("PREPARE {name}_by_hand AS {text}"));
        let prepared = sqlx::raw_sql(prepare).execute(rig.store.pool()).await;
        assert!(prepared.is_ok(), "{name}: {prepared:?}");
    }
}

#[tokio::test]
async fn p16_a_migration_leaves_no_named_statement_to_the_next_user_of_its_connection() {
    let watched = Watched::new().await;
    let before = watched.log().await.len();
    watched.rig.store.migrate().await.expect("a second time");
    let log = watched.log().await;
    let run: Vec<_> = log.iter().skip(before).filter(|entry| !entry.contains("'mark ")).collect();
    assert!(run.iter().any(|entry| entry.contains("pg_advisory_xact_lock")), "{run:?}");
    assert!(run.iter().all(|entry| entry.starts_with("<unnamed>: ")), "{run:?}");
}

#[tokio::test]
async fn b144_the_table_draws_from_no_sequence() {
    let rig = Rig::new().await;
    let sql =
        "SELECT (SELECT count(*) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
            WHERE d.refobjid = 'idempotency_key'::regclass)
        + (SELECT count(*) FROM pg_attribute WHERE attrelid = 'idempotency_key'::regclass
           AND (attidentity <> '' OR atthasdef))";
    let row = sqlx::query(sql).fetch_one(rig.store.pool()).await.expect("the catalog answers");
    assert_eq!(row.get::<i64, _>(0), 0, "no sequence and no default");
}

#[tokio::test]
async fn b166_a_column_added_under_prepared_statements_disturbs_nobody() {
    let rig = Rig::new().await;
    let store = PostgresStore::new(rig.database.pool(1).await);
    for round in 0..3 {
        let column = format!("ALTER TABLE idempotency_key ADD COLUMN extra_{round} text DEFAULT 'x'");
        let key = format!("key-{round}");
        let claim = fresh(&store, &key).await;
        store.checkpoint(&claim, &point(1), Rerun::Keep).await.expect("a checkpoint");
        sqlx::raw_sql(AssertSqlSafe(column)).execute(rig.store.pool()).await.expect("a column more");

        store.renew(&claim, LEASE).await.expect("a renewal");
        rig.elapse(LEASE).await;
        let claim = claimed(store.claim(&request(&key)).await);
        assert_eq!(claim.checkpoint(), 1);
        store.release(&claim, RETENTION).await.expect("a release");
        let claim = claimed(store.claim(&request(&key)).await);
        store.complete(&claim, &answer(), RETENTION).await.expect("it completes");
        assert!(matches!(store.claim(&request(&key)).await, Ok(ClaimOutcome::Completed(_))));
        assert!(store.find(&id(&key)).await.expect("it is found").is_some());
        assert_eq!(store.stuck(10).await.expect("a look").len(), 0);
        assert_eq!(store.sweep(10).await.expect("a sweep"), 0);
    }
}
