//! A shop whose orders are to be there exactly as often as their operations were answered.

use std::time::Duration;

use idem_core::{
    Answer, BoxError, Ending, Engine, Error, ErrorKind, KeyId, Operation, Policy, RunError, StoredResponse,
};
use idem_postgres::{Phase, PostgresStore, Settings};
use idem_test_support::{Fault, Proxy, Strike, contains, postgres};
use sqlx::PgConnection;

use crate::rig::{Rig, id, pool_to, print};

pub(crate) type Result<T = ()> = std::result::Result<T, BoxError>;
pub(crate) type Ran = std::result::Result<Answer, RunError<BoxError>>;

pub(crate) const LEASE: Duration = Duration::from_mins(1);

pub(crate) struct Shop {
    pub(crate) rig: Rig,
    pub(crate) proxy: Proxy,
    /// Reaches the records through the proxy.
    pub(crate) store: PostgresStore,
    pub(crate) engine: Engine,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        Self::with(8, Settings::new()).await
    }

    pub(crate) async fn with(connections: u32, settings: Settings) -> Self {
        let rig = Rig::new().await;
        rig.sql("CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL)").await;
        let proxy = Proxy::to(postgres().addr()).await;
        let store = PostgresStore::with(pool_to(proxy.options(&rig.database), connections), settings);
        let engine = Engine::new(store.clone());
        Self { rig, proxy, store, engine }
    }

    /// A run of the one key through the proxy.
    pub(crate) async fn run<F, Fut, R>(&self, work: F) -> Ran
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        self.engine.run(key(), print(1), &policy(), work).await
    }

    /// A run by another process, past the proxy.
    pub(crate) async fn run_elsewhere<F, Fut, R>(&self, work: F) -> Ran
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        Engine::new(self.rig.store.clone()).run(key(), print(1), &policy(), work).await
    }

    /// An order in a phase.
    pub(crate) async fn order(&self) -> Ran {
        let store = self.store.clone();
        self.run(async move |op| order(store.begin(op).await?).await).await
    }

    /// The same by another process.
    pub(crate) async fn order_elsewhere(&self) -> Ran {
        let store = self.rig.store.clone();
        self.run_elsewhere(async move |op| order(store.begin(op).await?).await).await
    }

    pub(crate) async fn orders(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&self.rig.direct).await.expect("a number")
    }

    /// Strikes the next statement whose text contains this.
    pub(crate) fn strike(&self, text: &str, fault: Fault) -> Strike {
        self.proxy.next(contains(text), fault)
    }

    /// Strikes the next commit.
    pub(crate) fn strike_commit(&self, fault: Fault) -> Strike {
        self.proxy.next(|sql| sql.trim() == "COMMIT", fault)
    }
}

pub(crate) fn key() -> KeyId {
    id("order-1")
}

pub(crate) fn policy() -> Policy {
    Policy::resumable().lease(LEASE)
}

/// Writes the order and ends with its number.
pub(crate) async fn order(mut phase: Phase) -> Result<idem_core::Completed> {
    let number = insert(&mut phase).await?;
    Ok(phase.complete(StoredResponse::json(201, &number)?).await?)
}

/// Application code: it takes a connection.
pub(crate) async fn insert(connection: &mut PgConnection) -> Result<i64> {
    let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ('book') RETURNING id");
    Ok(insert.fetch_one(connection).await?)
}

pub(crate) fn executed(ran: &Ran) -> bool {
    matches!(ran, Ok(Answer::Executed(_)))
}

pub(crate) fn replayed(ran: &Ran) -> bool {
    matches!(ran, Ok(Answer::Replayed(_)))
}

/// What the work was told, if it returned that.
pub(crate) fn told(ran: &Ran) -> Option<ErrorKind> {
    match ran {
        Err(RunError::Work(error)) => error.downcast_ref::<Error>().map(Error::kind),
        Ok(_) | Err(RunError::Engine(_) | RunError::Panicked) => None,
    }
}
