//! A transaction in the middle of an operation, which is done once.

use std::{
    borrow::Cow,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use idem_core::{
    BoxError, Error, Operation, RecoveryPoint, Rerun,
    transaction::{InStep, Step},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::postgres::PgConnection;

use crate::{
    message::{Message, MessageId, Numbered},
    outbox::Outbox,
    store::{PostgresStore, checkpointed, fenced},
    transaction::Open,
};

/// The transaction of a step, while its work runs: a connection, with neither a commit nor an answer.
///
/// Pass it where your code takes `&mut PgConnection`. What is written through it is there if and only if the step is
/// recorded. Its isolation level is READ COMMITTED.
pub struct StepTx {
    open: Open,
    outbox: Outbox,
    messages: Numbered,
}

impl StepTx {
    /// Adds a message to the outbox, there if and only if the step is recorded; returns its id. As
    /// [`Phase::emit`](crate::Phase::emit), with the step's name in the id.
    ///
    /// # Errors
    /// As [`Phase::emit`](crate::Phase::emit).
    ///
    /// # Cancel safety
    /// As [`Phase::emit`](crate::Phase::emit).
    pub async fn emit(&mut self, message: Message) -> Result<MessageId, Error> {
        self.messages.emit(&self.outbox, self.open.connection_mut(), message).await
    }

    /// Adds messages in the order given, in one statement.
    ///
    /// # Errors
    /// As [`Phase::emit`](crate::Phase::emit).
    ///
    /// # Cancel safety
    /// As [`Phase::emit`](crate::Phase::emit).
    pub async fn emit_all(
        &mut self,
        messages: impl IntoIterator<Item = Message> + Send,
    ) -> Result<Vec<MessageId>, Error> {
        self.messages.emit_all(&self.outbox, self.open.connection_mut(), messages).await
    }
}

impl PostgresStore {
    /// Commits a piece of database work once, with its result; a later run gets the result, and `work` does not run.
    ///
    /// In order: the fence, which holds the operation's record to the end; `work`; the recovery point with its value; the
    /// commit; this returns, with the value as it reads back. Meanwhile the lease is not renewed: the lock holds better.
    ///
    /// Steps and effects share one set of names, each used once an operation, and a resumed run comes past the recorded
    /// ones before it begins a new one or ends.
    ///
    /// ```no_run
    /// use idem_core::{BoxError, Operation};
    /// use idem_postgres::PostgresStore;
    ///
    /// async fn draft(op: &mut Operation, store: &PostgresStore, item: &str) -> Result<i64, BoxError> {
    ///     let drafted = store.step(op, "drafted", async |tx| {
    ///         let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id");
    ///         Ok(insert.bind(item).fetch_one(&mut **tx).await?)
    ///     });
    ///     Ok(drafted.await?)
    /// }
    /// ```
    ///
    /// An effect of the outside world has no place in it:
    ///
    /// ```compile_fail,E0499
    /// # use idem_core::{BoxError, Effect, Operation};
    /// # async fn draft(mut op: Operation, store: idem_postgres::PostgresStore) -> Result<(), BoxError> {
    /// store.step(&mut op, "drafted", async |_| {
    ///     Ok(op.effect("charge", Effect::natural(), async |_| Ok(())).await?)
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// There is no retry inside: what is lost to a deadlock is handed on, and the client's retry resumes here.
    ///
    /// # Errors
    /// `RolledBack` with the error of `work`, or where the server did not answer before the commit, or undid it: nothing of it
    /// is there; `ClaimLost` if another owner has the key, the run has ended, or the record is not in this store; `Unknown`
    /// if the commit could not be settled in time: the run ends; `Corrupt` if a recorded value does not decode; `Invalid` as
    /// for [`Operation::effect`], and for a savepoint that is still open.
    ///
    /// # Cancel safety
    /// Dropped before its commit is sent, nothing of it is there. Dropped later, the commit goes on, and the engine waits
    /// for it.
    ///
    /// **Source:** B. Leach, "Implementing Stripe-like Idempotency Keys in Postgres" (atomic phases, recovery points).
    pub async fn step<T, F>(
        &self,
        operation: &mut Operation,
        name: impl Into<Cow<'static, str>> + Send,
        work: F,
    ) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send,
        F: AsyncFnOnce(&mut StepTx) -> Result<T, BoxError>,
    {
        let name = name.into();
        let step = match operation.join_step(&name).await? {
            Step::Recorded(value) => return Ok(value),
            Step::Begun(step) => step,
        };
        let mut tx = match Open::begin(self, step.claim()).await {
            Ok(open) => {
                let messages = Numbered::of(step.claim().fence().operation, &name);
                StepTx { open, outbox: self.outbox(), messages }
            }
            Err(error) => return Err(step.failed(error)),
        };
        match work(&mut tx).await {
            Ok(value) => self.commit(step, tx, value).await,
            Err(error) => {
                tx.open.roll_back().await;
                Err(step.not_done(error))
            }
        }
    }

    async fn commit<T>(&self, step: InStep, tx: StepTx, value: T) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send,
    {
        let (store, claim) = (self.clone(), Arc::clone(step.claim()));
        let commit = |point: RecoveryPoint, rerun: Rerun| async move {
            let wait = store.settings.lock_timeout_for(None);
            let bind = |query| checkpointed(fenced(query, &claim, &wait), &point, rerun);
            tx.open.commit(&store, &store.sql.checkpoint, bind).await
        };
        step.checkpoint(value, commit).await
    }
}

impl Deref for StepTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.open.connection()
    }
}

impl DerefMut for StepTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.open.connection_mut()
    }
}

impl fmt::Debug for StepTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepTx").finish_non_exhaustive()
    }
}
