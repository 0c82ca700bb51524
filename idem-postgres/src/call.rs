//! One call of the store: its deadline, and a connection of its own for as long as a statement takes and no longer.

use std::{io, time::Duration};

use idem_core::{StoreError, StoreErrorKind};
use sqlx::{
    Connection as _, Postgres, SqlStr,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnection, PgRow},
    query::Query,
};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    error::{Failure, after_sending},
    store::PostgresStore,
};

/// How often a statement that met a conflict, or a row that changed under it, is sent again before its caller is told.
pub(crate) const ATTEMPTS: usize = 16;

/// A statement with its values.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// One call, however many statements it takes.
pub(crate) struct Call<'s> {
    store: &'s PostgresStore,
    operation: &'static str,
    until: Instant,
}

impl<'s> Call<'s> {
    pub(crate) fn start(store: &'s PostgresStore, operation: &'static str) -> Self {
        Self { store, operation, until: Instant::now() + store.settings.call_timeout }
    }

    /// Sends one statement until it is answered by something else than a conflict of transactions.
    pub(crate) async fn answer<'q>(
        &self,
        sql: &SqlStr,
        bind: impl Fn(Bound<'q>) -> Bound<'q> + Send + Sync,
    ) -> Result<Vec<PgRow>, StoreError> {
        for _ in 1..ATTEMPTS {
            match self.send(sql, &bind).await {
                Err(failure) if failure.is_passing() => tokio::task::yield_now().await,
                answer => return answer.map_err(|failure| failure.into_error(self.operation)),
            }
        }
        self.send(sql, &bind).await.map_err(|failure| failure.into_error(self.operation))
    }

    /// A connection of the pool's, which is closed unless the statement sent on it is answered.
    pub(crate) async fn connection(&self) -> Result<Guard, Failure> {
        match timeout_at(self.until, self.store.pool.acquire()).await {
            Ok(Ok(connection)) if Instant::now() < self.until => {
                Ok(Guard { connection, answered: false, within: self.store.settings.call_timeout })
            }
            // Nothing was sent.
            Ok(Err(error)) => Err(Failure::Is(StoreErrorKind::Unavailable, error)),
            Ok(Ok(_)) | Err(_) => Err(Failure::Is(StoreErrorKind::Unavailable, timed_out())),
        }
    }

    /// What is left of the call's time.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Sends one statement once.
    pub(crate) async fn send<'q>(
        &self,
        sql: &SqlStr,
        bind: impl FnOnce(Bound<'q>) -> Bound<'q> + Send,
    ) -> Result<Vec<PgRow>, Failure> {
        let mut guard = self.connection().await?;
        let persistent = self.store.settings.persistent;
        let query = bind(sqlx::query(sql.clone())).persistent(persistent);
        let answer = async {
            if persistent {
                query.fetch_all(&mut *guard.connection).await
            } else {
                in_transaction(&mut guard.connection, query).await
            }
        };
        match timeout_at(self.until, answer).await {
            Ok(Ok(rows)) => {
                guard.answered = true;
                Ok(rows)
            }
            Ok(Err(error)) => {
                let failure = after_sending(error);
                guard.answered = failure.spares_connection();
                Err(failure)
            }
            Err(_) => Err(Failure::Is(StoreErrorKind::Unknown, timed_out())),
        }
    }
}

/// Prepares an unnamed statement and runs it.
///
/// The driver does it in two round trips. Between them a pooler may hand the server's connection to somebody else, whose
/// unnamed statement would then run with our values; inside a transaction it may not.
async fn in_transaction(connection: &mut PgConnection, query: Bound<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let rows = query.fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(rows)
}

pub(crate) fn timed_out() -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "call_timeout"))
}

/// A connection that is closed, not returned, unless its statement was answered.
///
/// A dropped future does not stop a statement that was sent. Its connection would wait for the old answer in the pool, for as
/// long as a lock is held, and starve everybody else. The pool also asks a connection that comes back whether it is well,
/// for as long as the network is silent; here that has an end too.
pub(crate) struct Guard {
    pub(crate) connection: PoolConnection<Postgres>,
    pub(crate) answered: bool,
    pub(crate) within: Duration,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.answered {
            self.connection.close_on_drop();
        } else if let Ok(runtime) = Handle::try_current() {
            // Dropped at its end, it closes the connection and gives its place in the pool to another.
            runtime.spawn(timeout(self.within, self.connection.return_to_pool()));
        }
    }
}
