//! One operation, the processes that die of it, and what must be there in the end.

use std::{env, fmt, process::Stdio};

use idem::{Answer, BoxError, Finding, PostgresStore, Reconciler, RunError};
use idem_test_support::{Database, Fault, Proxy, postgres};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::process::{Child, Command};

use crate::{
    ARGUMENTS,
    provider::{Provider, Stop},
    shop::{self, Kind},
};

/// Where a process dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    Statement(&'static str, Side),
    Call(Stop),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The server has not seen the statement.
    Before,
    /// The server has run it; its answer has not come.
    After,
}

impl Point {
    /// Whether an effect at most once may have happened there, and nobody knows.
    pub(crate) fn is_a_doubt(self, kind: Kind) -> bool {
        kind == Kind::AtMostOnce
            && match self {
                Self::Call(_) => true,
                Self::Statement(name, side) => {
                    (name, side) == ("mark", Side::After) || (name, side) == ("result", Side::Before)
                }
            }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statement(name, Side::Before) => write!(f, "before `{name}`"),
            Self::Statement(name, Side::After) => write!(f, "after `{name}`"),
            Self::Call(stop) => write!(f, "in the call: {stop:?}"),
        }
    }
}

/// The statements of an operation that nothing happens to, in their order.
pub(crate) fn statements(kind: Kind) -> Vec<&'static str> {
    let step = ["begin the step", "fence the step", "draft", "checkpoint the step", "commit the step"];
    let effect: &[&str] = if kind == Kind::Natural { &["result"] } else { &["mark", "result"] };
    let phase = ["begin", "fence", "order", "message", "answer", "commit"];
    [&["claim"], &step[..], effect, &phase[..]].concat()
}

pub(crate) struct Case {
    kind: Kind,
    provider: Provider,
    store: PostgresStore,
    direct: PgPool,
    database: Database,
}

impl Case {
    pub(crate) async fn new(kind: Kind, stop: Option<Stop>) -> Self {
        let database = postgres().database().await;
        let direct = database.pool(4).await;
        let store = PostgresStore::new(direct.clone());
        store.migrate().await.expect("an empty database takes the tables");
        let tables = "CREATE TABLE draft (id bigserial PRIMARY KEY);
            CREATE TABLE orders (draft bigint NOT NULL REFERENCES draft)";
        sqlx::raw_sql(tables).execute(&direct).await.expect("the shop's tables");
        let provider = Provider::start(kind, stop, direct.clone()).await;
        Self { kind, provider, store, direct, database }
    }

    /// A process dies at a statement of its operation, which sends these.
    pub(crate) async fn die_at(&mut self, statements: &[&str], name: &str, side: Side) {
        let proxy = Proxy::to(postgres().addr()).await;
        let nth = 1 + statements.iter().position(|statement| *statement == name).expect("a statement");
        let fault = match side {
            Side::Before => Fault::Hold,
            Side::After => Fault::KeepReply,
        };
        let strike = proxy.nth(nth, |_| true, fault);
        let mut process = self.process(&proxy);
        strike.struck().await;
        assert_eq!(proxy.statements().len(), nth, "{name}: {:#?}", proxy.statements());
        process.kill().await.expect("it is killed");
        // What it held goes with it.
        proxy.cut_all();
    }

    /// A process dies where its provider stops.
    pub(crate) async fn die_in_the_call(&mut self) {
        let proxy = Proxy::to(postgres().addr()).await;
        let mut process = self.process(&proxy);
        self.provider.stopped().await;
        process.kill().await.expect("it is killed");
    }

    fn process(&self, proxy: &Proxy) -> Child {
        let arguments = format!("{}\n{}\n{:?}", proxy.url(&self.database), self.provider.address, self.kind);
        Command::new(env::current_exe().expect("a test program"))
            .args(["process", "--exact", "--ignored"])
            .env(ARGUMENTS, arguments)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts again")
    }

    /// Lets an hour go by: the lease is over, and so is whatever was under way.
    pub(crate) async fn elapse(&self) {
        let sql = "UPDATE idempotency_key SET locked_at = locked_at - d, lease_until = lease_until - d,
            rerun_until = CASE WHEN isfinite(rerun_until) THEN rerun_until - d ELSE rerun_until END,
            created_at = created_at - d, ended_at = ended_at - d, expires_at = expires_at - d
            FROM (SELECT interval '1 hour') AS by (d)";
        sqlx::query(sql).execute(&self.direct).await.expect("rows move");
    }

    /// Another process goes on; returns what it was told.
    pub(crate) async fn settle(&self, point: &str, may_have_happened: bool) -> &'static str {
        let first = self.run().await;
        let in_doubt = matches!(first, Ok(Answer::InDoubt { .. }));
        assert_eq!(in_doubt, may_have_happened, "{point}: {first:?}");
        if in_doubt {
            let charged = self.provider.charges().len();
            assert!(charged <= 1, "{point}: {charged}");
            self.assert_rows(point, 0).await;
            assert!(matches!(self.run().await, Ok(Answer::InDoubt { .. })), "{point}: until it is looked up");
            let look = move |_| async move {
                Ok::<_, BoxError>(if charged == 1 { Finding::Happened(1_u64) } else { Finding::DidNotHappen })
            };
            let settled = Reconciler::new(self.store.clone()).look_up("charge", look).pass().await;
            assert_eq!(settled.expect("it passes").settled, 1, "{point}");
        }
        let body = answer(point, if in_doubt { self.run().await } else { first });
        let again = self.run().await;
        assert!(matches!(again, Ok(Answer::Replayed(_))), "{point}: {again:?}");
        assert_eq!(answer(point, again), body, "{point}");
        self.assert_rows(point, 1).await;
        self.assert_books(point);
        if in_doubt { "in doubt; then once" } else { self.told() }
    }

    async fn run(&self) -> Result<Answer, RunError<BoxError>> {
        shop::run(&self.store, self.provider.address, self.kind).await
    }

    /// What the database holds goes with the answer: all of it, once, or none.
    async fn assert_rows(&self, point: &str, times: i64) {
        for table in ["orders", "idempotency_key_outbox"] {
            let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
            let rows: i64 = sqlx::query_scalar(sql).fetch_one(&self.direct).await.expect("a number");
            assert_eq!(rows, times, "{point}: rows of {table}");
        }
        let drafts: i64 =
            sqlx::query_scalar("SELECT count(*) FROM draft").fetch_one(&self.direct).await.expect("a number");
        assert_eq!(drafts, 1, "{point}: a step is committed once");
    }

    /// The ledger's rule for each kind, and what the record said as each call arrived.
    fn assert_books(&self, point: &str) {
        let (calls, charges) = (self.provider.calls(), self.provider.charges());
        let key = calls.first().map(|call| &call.key);
        for call in &calls {
            let (status, rerun_until) = &call.record;
            assert_eq!(status, "in_progress", "{point}");
            match self.kind {
                Kind::Natural => assert_eq!(rerun_until, "infinity", "{point}"),
                Kind::AtMostOnce => assert_eq!(rerun_until, "-infinity", "{point}: marked before the call"),
                Kind::Keyed => {
                    assert!(rerun_until.starts_with("20"), "{point}: marked before: {rerun_until}");
                }
            }
            assert_eq!(Some(&call.key), key, "{point}: one key of one effect");
        }
        let most = if self.kind == Kind::Natural { 2 } else { 1 };
        assert!((1..=most).contains(&charges.len()), "{point}: {charges:?}");
        // At most once: a call that did not happen is made again only after somebody has looked.
        let most = if self.kind == Kind::AtMostOnce { charges.len() + 1 } else { 2 };
        assert!(calls.len() <= most, "{point}: {calls:?}");
    }

    fn told(&self) -> &'static str {
        match (self.provider.calls().len(), self.provider.charges().len()) {
            (1, 1) => "called once",
            (_, 1) => "called twice, charged once",
            _ => "charged twice",
        }
    }
}

fn answer(point: &str, ran: Result<Answer, RunError<BoxError>>) -> Vec<u8> {
    match ran {
        Ok(Answer::Executed(response) | Answer::Replayed(response)) => response.body().to_vec(),
        other => panic!("{point}: {other:?}"),
    }
}
