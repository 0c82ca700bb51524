//! Messages that leave exactly when what they tell of is committed.

mod operators;
pub(crate) mod sql;

use std::{fmt, sync::Arc};

use idem_core::{Error, OperationId, StoreError, StoreErrorKind};
use sqlx::{Postgres, Transaction, postgres::PgConnection};
use uuid::Uuid;

use crate::{
    error::after_sending,
    maintain,
    message::{Message, MessageId, Numbered},
    settings::Settings,
    store::PostgresStore,
};

const ADD: &str = "add the message";

/// Messages on their way to other systems, in a table beside the keys; made by [`PostgresStore::outbox`].
///
/// A message is a row, written in the transaction of what it tells of: both are committed, or neither. A
/// relay publishes the rows, each at least once and always with the same id, and the consumer's
/// [`Inbox`](crate::Inbox) makes that once. Publishing inside the transaction would do neither: the broker does not roll back.
///
/// In a keyed operation use [`Phase::emit`](crate::Phase::emit) or [`StepTx::emit`](crate::StepTx::emit), whose ids are those of the
/// operation. For transactions without a key there is [`add`](Self::add):
///
/// ```no_run
/// use idem_postgres::{Message, PostgresStore};
///
/// async fn rename(store: &PostgresStore, customer: i64, name: &str) -> Result<(), Box<dyn std::error::Error>> {
///     let mut tx = store.pool().begin().await?;
///     sqlx::query("UPDATE customer SET name = $2 WHERE id = $1").bind(customer).bind(name).execute(&mut *tx).await?;
///     store.outbox().add(&mut tx, Message::json("customer.renamed", name)?.ordered_by(customer.to_string())?).await?;
///     Ok(tx.commit().await?)
/// }
/// ```
///
/// Outside a transaction there is nothing to add to:
///
/// ```compile_fail,E0308
/// # async fn tell(store: &idem_postgres::PostgresStore, message: idem_postgres::Message) {
/// let mut connection = store.pool().acquire().await.unwrap();
/// store.outbox().add(&mut *connection, message).await;
/// # }
/// ```
#[derive(Clone)]
pub struct Outbox {
    table: String,
    pub(crate) sql: Arc<sql::Sql>,
    persistent: bool,
}

pub use operators::{Depth, Parked};

impl Outbox {
    pub(crate) fn of(settings: &Settings) -> Self {
        let table = settings.beside("outbox");
        Self { sql: Arc::new(sql::Sql::of(&table)), table, persistent: settings.persistent }
    }

    /// Adds a message in this transaction, and returns its id.
    ///
    /// # Errors
    /// `Unavailable` if the statement failed: the transaction can no longer be committed, and nothing of it was done.
    ///
    /// # Cancel safety
    /// A dropped call may have added it: roll the transaction back.
    pub async fn add(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        message: Message,
    ) -> Result<MessageId, Error> {
        let id = MessageId::random();
        self.insert(tx, None, vec![(id, message)]).await?;
        Ok(id)
    }

    /// Adds messages in the order given, in one statement, and returns their ids.
    ///
    /// # Errors
    /// As [`add`](Self::add); then none is added.
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn add_all(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        messages: impl IntoIterator<Item = Message> + Send,
    ) -> Result<Vec<MessageId>, Error> {
        let messages: Vec<_> = messages.into_iter().map(|message| (MessageId::random(), message)).collect();
        let ids = messages.iter().map(|(id, _)| *id).collect();
        self.insert(tx, None, messages).await?;
        Ok(ids)
    }

    /// Adds messages of these ids; one that is there already stays as it is.
    pub(crate) async fn insert(
        &self,
        connection: &mut PgConnection,
        operation: Option<OperationId>,
        messages: Vec<(MessageId, Message)>,
    ) -> Result<(), StoreError> {
        if messages.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = messages.iter().map(|(id, _)| id.uuid()).collect();
        let topics: Vec<&str> = messages.iter().map(|(_, it)| it.topic()).collect();
        let order_keys: Vec<Option<&str>> = messages.iter().map(|(_, it)| it.order_key()).collect();
        let content_types: Vec<&str> = messages.iter().map(|(_, it)| it.content_type()).collect();
        let headers: Vec<Vec<u8>> =
            messages.iter().map(|(_, it)| it.content.encode_headers().to_vec()).collect();
        let payloads: Vec<&[u8]> = messages.iter().map(|(_, it)| it.payload().as_ref()).collect();
        let query = sqlx::query(self.sql.add.clone())
            .bind(ids)
            .bind(operation.map(|it| Uuid::from_bytes(it.to_bytes())))
            .bind(topics)
            .bind(order_keys)
            .bind(content_types)
            .bind(headers)
            .bind(payloads)
            .persistent(self.persistent);
        query.execute(connection).await.map_err(not_done).map(drop)
    }

    /// Its statements by name.
    pub(crate) fn statements(&self) -> [(&'static str, &str); 10] {
        self.sql.each()
    }
}

impl PostgresStore {
    /// The outbox beside this store's keys, in a table named with the suffix `_outbox`.
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }
}

/// Deletes at most `limit` published messages that outlived their retention.
pub(crate) async fn sweep(store: &PostgresStore, limit: u64) -> Result<u64, StoreError> {
    maintain::delete(store, &store.outbox.sql.sweep, limit).await
}

impl Numbered {
    /// Adds a message of an operation in its transaction, under the id that is its own.
    pub(crate) async fn emit(
        &mut self,
        outbox: &Outbox,
        connection: &mut PgConnection,
        message: Message,
    ) -> Result<MessageId, Error> {
        let id = self.next(message.topic());
        outbox.insert(connection, Some(self.operation()), vec![(id, message)]).await?;
        Ok(id)
    }

    /// The same for several, in one statement.
    pub(crate) async fn emit_all(
        &mut self,
        outbox: &Outbox,
        connection: &mut PgConnection,
        messages: impl IntoIterator<Item = Message> + Send,
    ) -> Result<Vec<MessageId>, Error> {
        let messages: Vec<_> =
            messages.into_iter().map(|message| (self.next(message.topic()), message)).collect();
        let ids = messages.iter().map(|(id, _)| *id).collect();
        outbox.insert(connection, Some(self.operation()), messages).await?;
        Ok(ids)
    }
}

/// Whatever broke, COMMIT was not sent: a statement of a transaction is never done by itself.
fn not_done(error: sqlx::Error) -> StoreError {
    let error = after_sending(error).into_error(ADD);
    if error.kind() != StoreErrorKind::Unknown {
        return error;
    }
    StoreError::new(StoreErrorKind::Unavailable, ADD).because("the transaction is gone").with_source(error)
}

/// Shows where the table is.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("table", &self.table).finish_non_exhaustive()
    }
}
