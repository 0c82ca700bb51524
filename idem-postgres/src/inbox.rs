//! Events that were taken already: a delivery that comes again has no second effect.

mod sql;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use idem_core::{Error, Invalid, StoreError, StoreErrorKind};
use sqlx::{Postgres, Transaction};

use crate::{
    error::after_sending,
    maintain,
    row::{Columns, micros},
    settings::Settings,
    store::PostgresStore,
};

/// Remembers, for each consumer, which events it has taken; made by [`PostgresStore::inbox`].
///
/// A broker delivers at least once, so a consumer sees some events twice. It asks [`once`](Self::once) first, in the
/// transaction that its effect is committed in, and acknowledges after the commit. Marker and effect then come into being
/// together or not at all: a crash before the commit leaves neither and the redelivery runs; a crash after it leaves both and
/// the redelivery is told that it is one. *Exactly once* is true of effects inside that one transaction, and of nothing else.
///
/// ```no_run
/// use idem_postgres::{Inbox, PostgresStore};
///
/// /// Credits an account. The delivery is acknowledged if this is `Ok`, else it has to come again.
/// async fn credit(store: &PostgresStore, event: &str, account: i64, amount: i64) -> Result<(), Box<dyn std::error::Error>> {
///     let mut tx = store.pool().begin().await?;
///     if store.inbox().once(&mut tx, "ledger", event).await? {
///         let sql = "UPDATE account SET balance = balance + $2 WHERE id = $1";
///         sqlx::query(sql).bind(account).bind(amount).execute(&mut *tx).await?;
///     }
///     tx.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Which id
///
/// The event's own: the one that its producer gave it, such as the id of an outbox message. What a broker counts (an offset, a
/// sequence number, a receipt) is new when the same event is published again, and then guards against nothing.
///
/// # Effects elsewhere
///
/// A mail, a payment or a row in another database does not roll back with the marker. A consumer with such effects runs its work
/// as an operation, with the event's id as the key: [`Engine::run`](idem_core::Engine::run) and
/// [`Operation::effect`](idem_core::Operation::effect).
///
/// # How long
///
/// A marker is kept for [`Settings::inbox_retention`], 14 days, counted from its delivery, and then until the next sweep: it
/// still counts while it is there, since to remember for longer is never wrong. After that the event is new again. So it
/// has to outlast whatever the broker, or a person who replays a stream, may deliver late
/// ([`Settings::redelivery_horizon`]); [`PostgresStore::check`] warns if it does not. The windows of brokers themselves are
/// minutes, which is why this table is the guard.
///
/// # Late is not twice
///
/// An inbox tells whether an event was taken, not whether a newer one was. Where the order matters, let the row carry
/// the version of the event that wrote it last, and refuse what is older; that one is done with, so its marker stays:
///
/// ```no_run
/// # use sqlx::{Postgres, Transaction};
/// /// Whether the event was the newest; an older one changes nothing.
/// async fn move_in(tx: &mut Transaction<'_, Postgres>, customer: i64, version: i64, address: &str) -> Result<bool, sqlx::Error> {
///     let sql = "UPDATE customer SET address = $3, version = $2 WHERE id = $1 AND version < $2";
///     let done = sqlx::query(sql).bind(customer).bind(version).bind(address).execute(&mut **tx).await?;
///     Ok(done.rows_affected() == 1)
/// }
/// ```
#[derive(Clone)]
pub struct Inbox {
    table: String,
    sql: Arc<sql::Sql>,
    retention: Duration,
    lock_timeout: String,
    persistent: bool,
}

/// The longest name of a consumer, and the longest id of an event, in bytes.
const LONGEST: usize = 255;
const MARK: &str = "mark the event";

impl Inbox {
    pub(crate) fn of(settings: &Settings) -> Self {
        let table = settings.beside("inbox");
        Self {
            sql: Arc::new(sql::Sql::of(&table)),
            table,
            retention: settings.inbox_retention,
            lock_timeout: settings.lock_timeout_for(None),
            persistent: settings.persistent,
        }
    }

    /// Whether this is the first delivery of `event` to `consumer`: if so, it is marked in this transaction.
    ///
    /// `consumer` names who asks, and each has markers of its own; one that is renamed has seen nothing. A delivery of the same
    /// event that another transaction is at work on is waited for, for at most [`Settings::lock_timeout`]: if it commits, this
    /// one is no first one; if it rolls back, this one is.
    ///
    /// Ask before the effect, and once per transaction: two that ask for two events in opposite orders would wait for each
    /// other. [`once_each`](Self::once_each) takes many. If a part of the transaction is rolled back to a savepoint, marker and
    /// effect must be on the same side of it.
    ///
    /// # Errors
    /// `Invalid` unless both are 1 to 255 bytes without NUL. `Unavailable` in every other case that may pass: the transaction
    /// can no longer be committed and nothing of it was done, so have the event delivered again. This includes a wait that was too
    /// long, and, above READ COMMITTED, a delivery that was committed after this transaction began (40001).
    ///
    /// # Cancel safety
    /// A dropped call may have marked the event in the transaction: roll it back.
    pub async fn once(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        consumer: &str,
        event: &str,
    ) -> Result<bool, Error> {
        Ok(self.once_each(tx, consumer, &[event]).await?.contains(&true))
    }

    /// [`once`](Self::once) for a batch, in one statement: for each event, in the order given, whether this is its first
    /// delivery. One that is in the batch twice is a first one once.
    ///
    /// All are marked in the order of their ids, so that batches which share events do not deadlock. Batches of a thousand are
    /// a good size; what bounds them is the memory for one message to the server.
    ///
    /// # Errors
    /// As [`once`](Self::once); then none is marked.
    ///
    /// # Cancel safety
    /// As [`once`](Self::once).
    pub async fn once_each(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        consumer: &str,
        events: &[&str],
    ) -> Result<Vec<bool>, Error> {
        check("consumer", consumer)?;
        events.iter().try_for_each(|event| check("event", event))?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let sorted: BTreeSet<&str> = events.iter().copied().collect();
        let query = sqlx::query(self.sql.once.clone())
            .bind(consumer)
            .bind(Vec::from_iter(sorted))
            .bind(micros(self.retention))
            .bind(&self.lock_timeout)
            .persistent(self.persistent);
        let row = query.fetch_one(&mut **tx).await.map_err(not_done)?;
        let first: Vec<String> = Columns::of(&row, MARK).value("fresh")?;
        let mut first: BTreeSet<&str> = first.iter().map(String::as_str).collect();
        Ok(events.iter().map(|event| first.remove(event)).collect())
    }

    /// Its statements by name.
    pub(crate) fn statements(&self) -> [(&'static str, &str); 2] {
        self.sql.each()
    }
}

impl PostgresStore {
    /// The inbox beside this store's keys, in a table named with the suffix `_inbox`. Every call is in a transaction of the
    /// caller's, on whatever pool, as long as it is on this database.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }
}

/// Deletes at most `limit` markers that outlived their retention.
pub(crate) async fn sweep(store: &PostgresStore, limit: u64) -> Result<u64, StoreError> {
    maintain::delete(store, &store.inbox.sql.sweep, limit).await
}

/// Postgres' text holds any character but U+0000.
fn check(field: &'static str, name: &str) -> Result<(), Invalid> {
    if (1..=LONGEST).contains(&name.len()) && !name.contains('\0') {
        return Ok(());
    }
    Err(Invalid::new(field, "1 to 255 bytes without NUL").seen(name.len()))
}

/// Whatever broke, COMMIT was not sent: a statement of a transaction is never done by itself.
fn not_done(error: sqlx::Error) -> StoreError {
    let error = after_sending(error).into_error(MARK);
    if error.kind() != StoreErrorKind::Unknown {
        return error;
    }
    StoreError::new(StoreErrorKind::Unavailable, MARK).because("the transaction is gone").with_source(error)
}

/// Shows where the table is.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("table", &self.table).finish_non_exhaustive()
    }
}
