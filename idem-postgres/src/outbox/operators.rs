//! What operators ask an outbox.

use std::time::Duration;

use idem_core::{OperationId, StoreError};
use uuid::Uuid;

use crate::{MessageId, PostgresStore, call::Call, row::Columns};

/// The most that [`PostgresStore::outbox_depth`] counts of each.
const COUNTED: i64 = 100_000;

/// How much is in an outbox, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Messages that wait to be published, those being published included; counted up to 100 000.
    pub waiting: u64,
    /// Messages that were given up; counted up to 100 000.
    pub parked: u64,
    /// For how long the oldest that waits has done so; zero if none does.
    pub oldest: Duration,
}

/// A message that was tried too often and waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// The message.
    pub id: MessageId,
    /// Where it was to go.
    pub topic: String,
    /// The operation that it tells of, if it is one's.
    pub operation: Option<OperationId>,
    /// How often it was tried.
    pub tries: u32,
    /// What the publisher said the last time.
    pub error: String,
    /// For how long it has been parked.
    pub parked_for: Duration,
}

impl PostgresStore {
    /// How many messages wait, how many are parked, and the age of the oldest that waits.
    ///
    /// # Errors
    /// As any read of the store.
    pub async fn outbox_depth(&self) -> Result<Depth, StoreError> {
        let call = Call::start(self, "outbox_depth");
        let rows = call.answer(&self.outbox.sql.depth, |query| query.bind(COUNTED)).await?;
        let row = rows.first().map(|row| Columns::of(row, "outbox_depth"));
        row.map_or(Ok(Depth { waiting: 0, parked: 0, oldest: Duration::ZERO }), |row| {
            Ok(Depth {
                waiting: row.value::<i64>("waiting")?.unsigned_abs(),
                parked: row.value::<i64>("parked")?.unsigned_abs(),
                oldest: row.elapsed("oldest")?,
            })
        })
    }

    /// At most `limit` parked messages, the longest parked first.
    ///
    /// # Errors
    /// As any read of the store.
    pub async fn outbox_parked(&self, limit: u32) -> Result<Vec<Parked>, StoreError> {
        let call = Call::start(self, "outbox_parked");
        let rows = call.answer(&self.outbox.sql.parked, |query| query.bind(i64::from(limit))).await?;
        rows.iter()
            .map(|row| {
                let row = Columns::of(row, "outbox_parked");
                let operation: Option<Uuid> = row.value("operation")?;
                Ok(Parked {
                    id: row.value::<Uuid>("id")?.into(),
                    topic: row.value("topic")?,
                    operation: operation.map(|it| OperationId::from_bytes(it.into_bytes())),
                    tries: row.value::<i32>("tries")?.unsigned_abs(),
                    error: row.value("error")?,
                    parked_for: row.elapsed("parked_for")?,
                })
            })
            .collect()
    }

    /// Has a message published again, under its id and with all its tries: a parked one, or a published one that is still kept.
    /// Returns whether it is there; one that waits is tried at once.
    ///
    /// # Errors
    /// As any write of the store; after `Unknown`, call it again.
    pub async fn emit_again(&self, id: MessageId) -> Result<bool, StoreError> {
        let call = Call::start(self, "emit_again");
        let rows = call.answer(&self.outbox.sql.again, |query| query.bind(id.uuid())).await?;
        rows.first().map_or(Ok(false), |row| Columns::of(row, "emit_again").value("is_there"))
    }
}
