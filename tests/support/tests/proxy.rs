//! Each fault of the proxy, proven against a real Postgres.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail like the test itself")]

use std::time::Duration;

use idem_test_support::{Database, Fault, Proxy, contains, postgres};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

const INSERT: &str = "INSERT INTO charge VALUES ($1)";

struct Bench {
    proxy: Proxy,
    /// Through the proxy.
    pool: PgPool,
    /// Past it.
    direct: PgPool,
    _database: Database,
}

impl Bench {
    async fn new() -> Self {
        let database = postgres().database().await;
        let direct = database.pool(2).await;
        sqlx::query("CREATE TABLE charge (id int PRIMARY KEY)").execute(&direct).await.unwrap();
        let proxy = Proxy::to(postgres().addr()).await;
        let pool = proxy.pool(&database, 1).await;
        Self { proxy, pool, direct, _database: database }
    }

    async fn insert(&self, id: i32) -> Result<(), sqlx::Error> {
        sqlx::query(INSERT).bind(id).execute(&self.pool).await.map(drop)
    }

    async fn rows(&self) -> Vec<i32> {
        sqlx::query_scalar("SELECT id FROM charge ORDER BY id").fetch_all(&self.direct).await.unwrap()
    }
}

fn is_broken_connection(result: &Result<(), sqlx::Error>) -> bool {
    matches!(result, Err(sqlx::Error::Io(_)))
}

/// A poll for what the kernel does in its own time; bounded by count, each look is a round trip.
async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if done().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came true that {what}");
}

#[tokio::test]
async fn without_a_plan_everything_passes() {
    let bench = Bench::new().await;
    bench.insert(1).await.unwrap();
    bench.insert(2).await.unwrap();
    let large = "x".repeat(3_000_000);
    let echoed: String = sqlx::query_scalar("SELECT $1").bind(&large).fetch_one(&bench.pool).await.unwrap();
    assert_eq!(echoed.len(), large.len(), "more than any socket buffer, both ways");
    assert_eq!(bench.rows().await, [1, 2]);
    assert_eq!(bench.proxy.count(contains("INSERT INTO charge")), 2, "each run counts, preparing does not");
    assert_eq!(bench.proxy.connections(), 1);
    bench.pool.close().await;
    eventually("the connection is closed", async || bench.proxy.connections() == 0).await;
}

#[tokio::test]
async fn a_lost_request_never_reaches_the_server() {
    let bench = Bench::new().await;
    let lost = bench.proxy.next(contains("INSERT INTO"), Fault::LoseRequest);
    assert!(is_broken_connection(&bench.insert(1).await));
    lost.struck().await;
    assert_eq!(bench.rows().await, [0; 0]);
    bench.insert(2).await.unwrap();
    assert_eq!((bench.rows().await, lost.count()), (vec![2], 1), "only the next one was struck");
}

#[tokio::test]
async fn a_lost_reply_leaves_the_row_and_tells_nobody() {
    let bench = Bench::new().await;
    let lost = bench.proxy.next(contains("INSERT INTO"), Fault::LoseReply);
    assert!(is_broken_connection(&bench.insert(1).await));
    assert_eq!((bench.rows().await, lost.count()), (vec![1], 1));
}

#[tokio::test]
async fn a_kept_reply_leaves_the_row_and_its_client_waiting_until_it_is_cut() {
    let bench = Bench::new().await;
    let kept = bench.proxy.next(contains("INSERT INTO"), Fault::KeepReply);
    let mut insert = Box::pin(bench.insert(1));
    tokio::select! {
        _ = &mut insert => panic!("its answer is kept"),
        () = kept.struck() => {}
    }
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = &mut insert => panic!("its answer is kept"),
            rows = bench.rows() => assert_eq!(rows, [1]),
        }
    }
    bench.proxy.cut_all();
    assert!(is_broken_connection(&insert.await));
    bench.insert(2).await.unwrap();
    assert_eq!((bench.rows().await, kept.count()), (vec![1, 2], 1));
}

#[tokio::test]
async fn a_commit_can_be_lost_on_either_side_of_the_server() {
    let bench = Bench::new().await;
    for (fault, rows) in [(Fault::LoseRequest, vec![]), (Fault::LoseReply, vec![1])] {
        let mut transaction = bench.pool.begin().await.unwrap();
        sqlx::query(INSERT).bind(1).execute(&mut *transaction).await.unwrap();
        let lost = bench.proxy.next(contains("COMMIT"), fault);
        assert!(is_broken_connection(&transaction.commit().await), "{fault:?}");
        lost.struck().await;
        // A second insert of the row waits for the first transaction's end, whichever it is.
        let again =
            sqlx::query("INSERT INTO charge VALUES (1) ON CONFLICT DO NOTHING").execute(&bench.direct).await;
        assert_eq!(again.unwrap().rows_affected(), 1 - rows.len() as u64, "{fault:?}");
        sqlx::query("DELETE FROM charge").execute(&bench.direct).await.unwrap();
    }
}

#[tokio::test]
async fn a_prepared_statement_is_struck_on_its_later_runs_too() {
    let bench = Bench::new().await;
    let lost = bench.proxy.nth(3, contains("INSERT INTO"), Fault::LoseReply);
    bench.insert(1).await.unwrap();
    bench.insert(2).await.unwrap();
    assert_eq!(lost.count(), 0);
    assert!(is_broken_connection(&bench.insert(3).await));
    assert_eq!((bench.rows().await, lost.count()), (vec![1, 2, 3], 1));
}

#[tokio::test]
async fn every_match_is_struck_until_cleared() {
    let bench = Bench::new().await;
    let lost = bench.proxy.every(contains("INSERT INTO"), Fault::LoseRequest);
    assert!(is_broken_connection(&bench.insert(1).await));
    assert!(is_broken_connection(&bench.insert(2).await));
    bench.proxy.clear();
    bench.insert(3).await.unwrap();
    assert_eq!((bench.rows().await, lost.count()), (vec![3], 2));
}

#[tokio::test]
async fn a_held_statement_goes_on_when_released() {
    let bench = Bench::new().await;
    let held = bench.proxy.next(contains("INSERT INTO"), Fault::Hold);
    let (inserted, ()) = tokio::join!(bench.insert(1), async {
        held.struck().await;
        assert_eq!(bench.rows().await, [0; 0], "the server has not seen it");
        held.release().await;
    });
    inserted.unwrap();
    assert_eq!(bench.rows().await, [1]);
}

#[tokio::test]
async fn a_held_statement_lands_after_its_client_gave_up() {
    let bench = Bench::new().await;
    let held = bench.proxy.next(contains("INSERT INTO"), Fault::Hold);
    let mut connection = bench.pool.acquire().await.unwrap().detach();
    let mut insert = Box::pin(sqlx::query("INSERT INTO charge VALUES (1)").execute(&mut connection));
    tokio::select! {
        _ = &mut insert => panic!("nothing answers a held statement"),
        () = held.struck() => {}
    }
    drop(insert);
    drop(connection);
    assert_eq!(bench.rows().await, [0; 0]);
    held.release().await;
    assert_eq!(bench.rows().await, [1]);
}

#[tokio::test]
async fn a_late_statement_lands_long_after_its_client_was_cut_off() {
    let bench = Bench::new().await;
    let late = bench.proxy.next(contains("INSERT INTO"), Fault::Late);
    assert!(is_broken_connection(&bench.insert(1).await));
    bench.insert(2).await.unwrap();
    assert_eq!(bench.rows().await, [2], "the client went on; the server has not seen the first");
    late.release().await;
    assert_eq!(bench.rows().await, [1, 2]);
    eventually("the late connection is closed", async || bench.proxy.connections() == 1).await;
}

#[tokio::test]
async fn a_cut_breaks_every_connection_and_a_refusal_every_new_one() {
    let bench = Bench::new().await;
    bench.proxy.refuse(true);
    bench.insert(1).await.unwrap();
    bench.proxy.cut_all();
    eventually("all are cut", async || bench.proxy.connections() == 0).await;
    let refused = timeout(Duration::from_secs(1), bench.insert(2)).await;
    assert!(refused.is_err() || refused.is_ok_and(|result| result.is_err()));
    bench.proxy.refuse(false);
    bench.insert(3).await.unwrap();
    assert_eq!(bench.rows().await, [1, 3]);
}

#[tokio::test]
async fn nothing_leaves_a_black_hole_until_it_heals() {
    let bench = Bench::new().await;
    bench.insert(1).await.unwrap();
    bench.proxy.black_hole(true);
    let mut insert = Box::pin(bench.insert(2));
    for _ in 0..100 {
        // Each look is a round trip past the proxy, so the insert would have had its time.
        tokio::select! {
            biased;
            _ = &mut insert => panic!("it came out of a black hole"),
            rows = bench.rows() => assert_eq!(rows, [1]),
        }
    }
    bench.proxy.black_hole(false);
    insert.await.unwrap();
    assert_eq!(bench.rows().await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn it_works_while_the_clock_of_the_test_is_stopped() {
    let database = postgres().database().await;
    let proxy = Proxy::to(postgres().addr()).await;
    let mut connection = PgConnection::connect(&proxy.url(&database)).await.unwrap();
    let lost = proxy.next(contains("CREATE"), Fault::LoseReply);
    let created = sqlx::raw_sql("CREATE TABLE t ()").execute(&mut connection).await;
    assert!(is_broken_connection(&created.map(drop)));
    lost.struck().await;
}
