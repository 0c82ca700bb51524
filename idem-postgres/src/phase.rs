//! The transaction that ends an operation.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use idem_core::{Completed, Error, Operation, StoredResponse, transaction::InTransaction};
use sqlx::{Postgres, Transaction, postgres::PgConnection};

use crate::{
    message::{Message, MessageId, Numbered},
    store::{PostgresStore, completed, fenced},
    transaction::Open,
};

/// A Postgres transaction that ends the operation: fence first, answer and commit last.
///
/// Its first statement locks the operation's record under the fence, so a run that was left behind gets no further, and nobody
/// takes the key over before the transaction has ended. What is written through it is there if and only if the answer is.
/// It is a connection: pass `&mut phase` where your code takes `&mut PgConnection`. What must happen once goes through it;
/// what is written beside it, through the pool, may be written twice.
///
/// Its isolation level is READ COMMITTED. Savepoints are yours to use; a `COMMIT` of your own is not: what follows it stands alone.
/// Dropped, it is rolled back, and the run is judged as if it had never begun.
///
/// ```no_run
/// use idem_core::{BoxError, Completed, Operation, StoredResponse};
/// use idem_postgres::PostgresStore;
///
/// async fn settle(op: Operation, store: PostgresStore, order: i64) -> Result<Completed, BoxError> {
///     let mut phase = store.begin(op).await?;
///     sqlx::query("UPDATE orders SET settled = true WHERE id = $1").bind(order).execute(&mut *phase).await?;
///     Ok(phase.complete(StoredResponse::json(201, &order)?).await?)
/// }
/// ```
///
/// An effect of the outside world has no place in it, and an operation that is in it none outside:
///
/// ```compile_fail,E0382
/// # use idem_core::{BoxError, Effect, Operation};
/// # async fn settle(mut op: Operation, store: idem_postgres::PostgresStore) -> Result<(), BoxError> {
/// let phase = store.begin(op).await?;
/// op.effect("charge", Effect::natural(), async |_| Ok(())).await?;
/// # Ok(()) }
/// ```
#[must_use = "dropped, it rolls back"]
pub struct Phase {
    store: PostgresStore,
    // Before the operation: its rollback is on its way when the run goes on.
    open: Open,
    operation: InTransaction,
    messages: Numbered,
}

impl Phase {
    fn of(store: &PostgresStore, open: Open, operation: InTransaction) -> Self {
        let messages = Numbered::of(operation.claim().fence().operation, "");
        Self { store: store.clone(), open, operation, messages }
    }
}

impl PostgresStore {
    /// Begins the transaction that ends the operation, on a connection of the store's pool.
    ///
    /// In order: the renewal that is under way is waited for, and none follows; `BEGIN ISOLATION LEVEL READ COMMITTED`; the
    /// fence. The server ends the transaction if it lies idle for what is left of the lease.
    ///
    /// # Errors
    /// `ClaimLost` if another owner has the key, the run has ended, or the record is not in this store; `RolledBack` if the
    /// server did not answer or the row was held for longer than the lock timeout: nothing happened; `Invalid` if a
    /// recorded effect or step was not passed.
    ///
    /// # Cancel safety
    /// Dropped, nothing has happened, and the operation is as if the transaction had not begun.
    pub async fn begin(&self, operation: Operation) -> Result<Phase, Error> {
        let operation = operation.join_transaction().await?;
        match Open::begin(self, operation.claim()).await {
            Ok(open) => Ok(Phase::of(self, open, operation)),
            Err(error) => Err(operation.failed(error)),
        }
    }

    /// As [`begin`](Self::begin), in a transaction that you have begun; the fence is the first statement of ours.
    ///
    /// What you locked before it comes before the operation's record in the order of locks: another owner that takes them the
    /// other way round is a deadlock, and one of the two is rolled back. Best begun empty.
    ///
    /// # Errors
    /// As [`begin`](Self::begin); `Invalid` if its isolation level is not READ COMMITTED. The transaction is then rolled back.
    ///
    /// # Cancel safety
    /// As [`begin`](Self::begin).
    pub async fn begin_in(
        &self,
        transaction: Transaction<'static, Postgres>,
        operation: Operation,
    ) -> Result<Phase, Error> {
        let operation = operation.join_transaction().await?;
        match Open::join(self, operation.claim(), transaction).await {
            Ok(open) => Ok(Phase::of(self, open, operation)),
            Err(error) => Err(operation.failed(error)),
        }
    }
}

impl Phase {
    /// Adds a message to the outbox, there if and only if the answer is; returns its id.
    ///
    /// The id is derived from the operation, the topic and the message's number among those of its topic: emitted in the same order,
    /// a transaction that is done over gives the ids that it gave before.
    ///
    /// # Errors
    /// `Unavailable` if the statement failed; the transaction can then only be rolled back.
    ///
    /// # Cancel safety
    /// A dropped call may have added it: roll back.
    pub async fn emit(&mut self, message: Message) -> Result<MessageId, Error> {
        self.messages.emit(&self.store.outbox, self.open.connection_mut(), message).await
    }

    /// Adds messages in the order given, in one statement.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    ///
    /// # Cancel safety
    /// As [`emit`](Self::emit).
    pub async fn emit_all(
        &mut self,
        messages: impl IntoIterator<Item = Message> + Send,
    ) -> Result<Vec<MessageId>, Error> {
        self.messages.emit_all(&self.store.outbox, self.open.connection_mut(), messages).await
    }

    /// Writes the answer and commits; then it is what is sent, whatever comes after.
    ///
    /// A commit that was not answered is settled by claiming the key again with the same attempt, which waits for the
    /// transaction's end.
    ///
    /// # Errors
    /// `RolledBack` if nothing of the transaction is there: a retry with the same key goes on after the last step;
    /// `ClaimLost`; `Unknown` if the commit could not be settled in time; `Corrupt`; `Invalid` for a header line that no HTTP
    /// message can carry, and for a savepoint that is still open.
    ///
    /// # Cancel safety
    /// Dropped after its first poll, the commit still goes on, and the engine waits for it.
    pub async fn complete(self, response: StoredResponse) -> Result<Completed, Error> {
        let Self { store, open, operation, messages: _ } = self;
        let (claim, retention) = (Arc::clone(operation.claim()), operation.retention());
        let commit = |kept: StoredResponse| async move {
            let wait = store.settings.lock_timeout_for(None);
            let bind = |query| completed(fenced(query, &claim, &wait), &kept, retention);
            open.commit(&store, &store.sql.complete, bind).await
        };
        operation.complete(response, commit).await
    }

    /// Undoes everything that was done in it, and gives the operation back.
    ///
    /// # Cancel safety
    /// Dropped, it is rolled back all the same.
    pub async fn rollback(self) -> Operation {
        let Self { open, operation, .. } = self;
        open.roll_back().await;
        operation.rolled_back()
    }
}

impl Deref for Phase {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.open.connection()
    }
}

impl DerefMut for Phase {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.open.connection_mut()
    }
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phase").field("claim", self.operation.claim()).finish_non_exhaustive()
    }
}
