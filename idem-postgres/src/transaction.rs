//! A transaction in which an operation comes on or ends: the fence first, the record last, then the commit.

use std::time::Duration;

use idem_core::{Claim, StoreError, StoreErrorKind};
use sqlx::{
    Connection as _, Database, Postgres, SqlSafeStr as _, SqlStr, Transaction, postgres::PgConnection,
};
use sqlx_core::transaction::TransactionManager as _;
use tokio::time::{Instant, error::Elapsed, timeout, timeout_at};

use crate::{
    call::{Bound, Call, Guard, timed_out},
    error::{Failure, after_sending},
    row::Columns,
    store::{PostgresStore, fenced},
};

/// Counts a connection's savepoints.
type Manager = <Postgres as Database>::TransactionManager;

/// Phases write behind their fence: at a higher level a row that was waited for is not seen as it is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What errors are told to come from.
const BEGINNING: &str = "begin";
const COMMITTING: &str = "commit";

/// An open transaction that holds the record under its fence; dropped, it is rolled back.
pub(crate) struct Open {
    held: Held,
    within: Duration,
}

enum Held {
    /// Begun here, on a connection of the store's pool.
    Ours(Ours),
    /// Begun by the application.
    Theirs(Transaction<'static, Postgres>),
}

struct Ours(Guard);

impl Open {
    /// Begins a transaction on a connection of the store's, with the fence as its first statement.
    pub(crate) async fn begin(store: &PostgresStore, claim: &Claim) -> Result<Self, StoreError> {
        let call = Call::start(store, BEGINNING);
        let guard = call.connection().await.map_err(|failure| failure.into_error(BEGINNING))?;
        let mut ours = Ours(guard);
        let begin = Manager::begin(&mut ours.0.connection, Some(BEGIN.into_sql_str()));
        answered(timeout_at(call.until(), begin).await, BEGINNING)?;
        Self::fence(store, claim, Held::Ours(ours), call.until()).await
    }

    /// Goes on in a transaction of the application's, with the fence as the first statement of ours.
    pub(crate) async fn join(
        store: &PostgresStore,
        claim: &Claim,
        transaction: Transaction<'static, Postgres>,
    ) -> Result<Self, StoreError> {
        let call = Call::start(store, BEGINNING);
        Self::fence(store, claim, Held::Theirs(transaction), call.until()).await
    }

    async fn fence(
        store: &PostgresStore,
        claim: &Claim,
        held: Held,
        until: Instant,
    ) -> Result<Self, StoreError> {
        let mut open = Self { held, within: store.settings.call_timeout };
        let wait = store.settings.lock_timeout_for(None);
        let query = fenced(sqlx::query(store.sql.fence.clone()), claim, &wait);
        let query = query.persistent(store.settings.persistent);
        let row = answered(timeout_at(until, query.fetch_one(open.connection_mut())).await, BEGINNING)?;
        let fence = Columns::of(&row, BEGINNING);
        if !fence.value::<bool>("read_committed")? {
            return Err(StoreError::new(StoreErrorKind::Invalid, BEGINNING)
                .because("the transaction's isolation level is not READ COMMITTED"));
        }
        if !fence.value::<bool>("held")? {
            return Err(StoreError::new(StoreErrorKind::ClaimLost, BEGINNING)
                .because("another owner has the key, or another store the record"));
        }
        Ok(open)
    }

    pub(crate) fn connection(&self) -> &PgConnection {
        match &self.held {
            Held::Ours(ours) => &ours.0.connection,
            Held::Theirs(transaction) => transaction,
        }
    }

    pub(crate) fn connection_mut(&mut self) -> &mut PgConnection {
        match &mut self.held {
            Held::Ours(ours) => &mut ours.0.connection,
            Held::Theirs(transaction) => transaction,
        }
    }

    /// Writes the record and commits.
    ///
    /// Whatever goes wrong before the commit is sent leaves nothing behind; from there on the server's answer says, or nobody.
    pub(crate) async fn commit<'q>(
        mut self,
        store: &PostgresStore,
        sql: &SqlStr,
        bind: impl FnOnce(Bound<'q>) -> Bound<'q> + Send,
    ) -> Result<(), StoreError> {
        let until = Instant::now() + self.within;
        let query = bind(sqlx::query(sql.clone())).persistent(store.settings.persistent);
        let written = timeout_at(until, query.fetch_all(self.connection_mut())).await;
        let rows = answered(written, COMMITTING)?;
        let verdict =
            rows.first().map(|row| Columns::of(row, COMMITTING).value::<&str>("verdict")).transpose()?;
        if verdict != Some("written") {
            return Err(StoreError::new(StoreErrorKind::ClaimLost, COMMITTING));
        }
        // One that was left open would be released in place of the commit.
        if Manager::get_transaction_depth(self.connection()) != 1 {
            return Err(
                StoreError::new(StoreErrorKind::Invalid, COMMITTING).because("a savepoint is still open")
            );
        }
        let sent = match self.held {
            Held::Ours(mut ours) => {
                let sent = timeout_at(until, Manager::commit(&mut ours.0.connection)).await;
                ours.0.answered = matches!(sent, Ok(Ok(())));
                sent
            }
            Held::Theirs(transaction) => timeout_at(until, transaction.commit()).await,
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(after_sending(error).into_error(COMMITTING)),
            Err(_) => Err(Failure::Is(StoreErrorKind::Unknown, timed_out()).into_error(COMMITTING)),
        }
    }

    /// Undoes everything. Where that is not answered in time, the connection is closed, and the server does it.
    pub(crate) async fn roll_back(self) {
        match self.held {
            Held::Ours(mut ours) => {
                let connection = &mut ours.0.connection;
                let all = async {
                    while connection.is_in_transaction() {
                        Manager::rollback(connection).await?;
                    }
                    Ok::<_, sqlx::Error>(())
                };
                ours.0.answered = matches!(timeout(self.within, all).await, Ok(Ok(())));
            }
            // What is dropped instead is rolled back by its pool.
            Held::Theirs(transaction) => drop(timeout(self.within, transaction.rollback()).await),
        }
    }
}

impl Drop for Ours {
    /// Rolls back, as its connection goes back to the pool, which is bounded.
    fn drop(&mut self) {
        let connection = &mut self.0.connection;
        while connection.is_in_transaction() {
            Manager::start_rollback(connection);
            self.0.answered = true;
        }
    }
}

/// The answer of a statement before the commit: whatever went wrong, nothing of the transaction is there.
fn answered<T>(
    sent: Result<Result<T, sqlx::Error>, Elapsed>,
    operation: &'static str,
) -> Result<T, StoreError> {
    let failure = match sent {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => after_sending(error),
        Err(_) => Failure::Is(StoreErrorKind::Unavailable, timed_out()),
    };
    Err(match failure {
        Failure::Is(StoreErrorKind::Unknown, error) => Failure::Is(StoreErrorKind::Unavailable, error),
        other @ (Failure::Again(_) | Failure::Outdated(_) | Failure::Locked(_) | Failure::Is(..)) => other,
    }
    .into_error(operation))
}
