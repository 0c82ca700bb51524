//! One call: a connection of its own for as long as a statement takes, and no longer.

use std::time::Duration;

use idem_core::{StoreError, StoreErrorKind};
use sqlx::{
    Postgres, SqlStr,
    pool::PoolConnection,
    postgres::{PgArguments, PgPool, PgRow},
    query::Query,
};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    error::{Failure, after_sending, before_sending},
    settings::Settings,
};

/// A connection that is closed, not returned, unless its statement was answered.
///
/// A dropped future does not stop a statement that was sent. Its connection would wait for the old answer in the pool, for as
/// long as a lock is held, and starve everybody else. The pool also asks a connection that comes back whether it is well,
/// for as long as the network is silent; here that has an end too.
struct Guard {
    connection: PoolConnection<Postgres>,
    answered: bool,
    within: Duration,
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

/// Sends one statement and returns its rows.
///
/// # Errors
/// `Ok(Err(_))` where the caller may go on (see [`Failure`]); `Err` where it cannot have been sent.
pub(crate) async fn rows<'q>(
    pool: &PgPool,
    settings: &Settings,
    operation: &'static str,
    sql: &SqlStr,
    bind: impl FnOnce(Bound<'q>) -> Bound<'q> + Send,
) -> Result<Result<Vec<PgRow>, Failure>, StoreError> {
    // A pool that tests its connections asks a silent network too.
    let acquired = timeout(settings.call_timeout, pool.acquire()).await;
    let connection = acquired
        .unwrap_or(Err(sqlx::Error::PoolTimedOut))
        .map_err(|error| before_sending(operation, error))?;
    let mut guard = Guard { connection, answered: false, within: settings.call_timeout };
    let query = bind(sqlx::query(sql.clone())).persistent(settings.persistent);
    let answer = timeout(settings.call_timeout, query.fetch_all(&mut *guard.connection)).await;
    Ok(match answer {
        Ok(Ok(rows)) => {
            guard.answered = true;
            Ok(rows)
        }
        Ok(Err(error)) => {
            let failure = after_sending(error);
            guard.answered = !matches!(failure, Failure::Is(StoreErrorKind::Unknown, _));
            Err(failure)
        }
        Err(_) => Err(Failure::Is(
            StoreErrorKind::Unknown,
            sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "call_timeout")),
        )),
    })
}

/// A statement with its values.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;
