//! Stores whose statements lack something.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use idem_conformance::{Harness, async_trait};
use idem_core::Maintain;
use sqlx::{AssertSqlSafe, PgPool, SqlSafeStr as _, SqlStr};

use super::split::{Damage, damages};
use crate::{
    Inbox, Outbox, PostgresStore, Settings,
    sql::{JUDGE, RECORD, Sql},
};

thread_local! {
    /// What the stores lack that this thread opens.
    static DAMAGE: RefCell<Option<Damage>> = const { RefCell::new(None) };
    static POOL: RefCell<Option<PgPool>> = const { RefCell::new(None) };
    static TABLES: Cell<u64> = const { Cell::new(0) };
}

/// Everything that can be left out of the statements, each as it is shipped; what several of them contain is one text.
pub(super) fn every_damage() -> Vec<Damage> {
    let mut texts: Vec<(&'static str, String)> = Sql::of("{table}")
        .each()
        .map(|(name, text)| (name, text.replace(JUDGE, "{judge}").replace(RECORD, "{record}")))
        .into();
    texts.extend([("judge", JUDGE.to_owned()), ("record", RECORD.to_owned())]);
    texts.iter().flat_map(|(name, text)| damages(name, text)).collect()
}

impl Damage {
    /// The statements with this damage done to them.
    pub(super) fn statements(&self, table: &str) -> Sql {
        let mut sql = Sql::of(table);
        for (name, text) in Sql::of("{table}").each() {
            let damaged = match self.statement {
                "judge" => text.replace(JUDGE, &self.text),
                "record" => text.replace(RECORD, &self.text),
                statement if statement == name => {
                    self.text.replace("{judge}", JUDGE).replace("{record}", RECORD)
                }
                _ => continue,
            };
            *sql.slot(name) = AssertSqlSafe(damaged.replace("{table}", table)).into_sql_str();
        }
        sql
    }
}

impl Sql {
    fn slot(&mut self, name: &str) -> &mut SqlStr {
        match name {
            "claim" => &mut self.claim,
            "look" => &mut self.look,
            "take" => &mut self.take,
            "wipe" => &mut self.wipe,
            "reissue" => &mut self.reissue,
            "renew" => &mut self.renew,
            "checkpoint" => &mut self.checkpoint,
            "complete" => &mut self.complete,
            "release" => &mut self.release,
            "resolve" => &mut self.resolve,
            "sweep" => &mut self.sweep,
            "stuck" => &mut self.stuck,
            "find" => &mut self.find,
            "fence" => &mut self.fence,
            _ => panic!("no statement {name}"),
        }
    }
}

/// Runs `work`, during which this thread opens stores with `damage` only.
pub(super) fn with<T>(damage: Option<&Damage>, pool: &PgPool, work: impl FnOnce() -> T) -> T {
    DAMAGE.set(damage.cloned());
    POOL.set(Some(pool.clone()));
    let done = work();
    DAMAGE.set(None);
    POOL.set(None);
    done
}

/// The store of whoever opens one in this module: a sound one, unless [`with`] says otherwise.
pub(super) fn open(pool: PgPool, settings: Settings) -> PostgresStore {
    let mut store = PostgresStore::with(pool, settings);
    if let Some(damage) = DAMAGE.with_borrow(Clone::clone) {
        store.sql = Arc::new(damage.statements(&store.settings.qualified()));
    }
    store
}

/// A store with a table of its own among many in one database.
pub(super) struct Tabled(PostgresStore);

#[async_trait]
impl Harness for Tabled {
    async fn start() -> Self {
        let pool = POOL.with_borrow(Clone::clone).expect("inside `with`");
        let table = format!("key_{}", TABLES.replace(TABLES.get() + 1));
        let create = format!("CREATE TABLE {table} (LIKE idempotency_key INCLUDING ALL)");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&pool).await.expect("a table");
        let mut store = open(pool, Settings::new().table(&table).expect("a name"));
        // A sweep goes through inbox and outbox too: they share one of each, that stays empty.
        store.inbox = Inbox::of(&Settings::new());
        store.outbox = Outbox::of(&Settings::new());
        Self(store)
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.clone())
    }

    async fn elapse(&self, by: Duration) {
        let sql = format!(
            "UPDATE {} SET locked_at = locked_at - d, lease_until = lease_until - d,
             rerun_until = CASE WHEN isfinite(rerun_until) THEN rerun_until - d ELSE rerun_until END,
             created_at = created_at - d, ended_at = ended_at - d, expires_at = expires_at - d
             FROM (SELECT {} * interval '1 microsecond') AS by (d)",
            self.0.settings.qualified(),
            by.as_micros()
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.0.pool()).await.expect("rows move");
    }
}
