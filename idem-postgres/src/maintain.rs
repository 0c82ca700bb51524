//! What operators and sweepers ask.

use std::{sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use idem_core::{AttemptId, Decision, KeyId, Maintain, Record, StoreError, Stuck, state::check_resolve};
use sqlx::SqlStr;
use uuid::Uuid;

use crate::{
    call::Call,
    inbox, outbox,
    row::{Columns, bigint, micros},
    store::PostgresStore,
};

/// What a sweep goes through.
#[derive(Clone, Copy)]
enum Swept {
    Keys,
    Inbox,
    Outbox,
}

#[async_trait]
impl Maintain for PostgresStore {
    /// Beside records that have ended, also the markers that its [`Inbox`](crate::Inbox) no longer needs and the published messages
    /// of its [`Outbox`](crate::Outbox) that were kept long enough; `limit` is for all
    /// together.
    ///
    /// Each call begins with another table, so that a flood in one of them does not keep the others from being swept.
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = u64::from(limit);
        let mut tables = [Swept::Keys, Swept::Inbox, Swept::Outbox];
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % tables.len();
        tables.rotate_left(first);
        let mut swept = 0;
        for table in tables {
            let left = limit.saturating_sub(swept);
            if left > 0 {
                swept += match table {
                    Swept::Keys => delete(self, &self.sql.sweep, left).await?,
                    Swept::Inbox => inbox::sweep(self, left).await?,
                    Swept::Outbox => outbox::sweep(self, left).await?,
                };
            }
        }
        Ok(swept)
    }

    /// Reads the whole table, since no index holds what every renewal changes: for a dashboard's pace, not a request's.
    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        let rows =
            Call::start(self, "stuck").answer(&self.sql.stuck, |query| query.bind(i64::from(limit))).await?;
        rows.iter()
            .map(|row| {
                let columns = Columns::of(row, "stuck");
                Ok(Stuck {
                    record: columns.record()?,
                    in_doubt: columns.value("in_doubt")?,
                    stuck_for: columns.elapsed("stuck_for")?,
                })
            })
            .collect()
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        let rows = Call::start(self, "find")
            .answer(&self.sql.find, |query| {
                query.bind(id.scope().as_str().to_owned()).bind(id.key().as_str().to_owned())
            })
            .await?;
        rows.first().map(|row| Columns::of(row, "find").record()).transpose()
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        check_resolve(seen, decision, retention)?;
        let (status, response, point) = match decision {
            Decision::Complete(response) => ("completed", Some(response), None),
            Decision::Fail => ("failed", None, None),
            Decision::Resume(point) => ("in_progress", None, Some(point)),
        };
        // One id for every attempt of this call: a re-issue inside it writes the same.
        let fresh = Uuid::from_bytes(AttemptId::random().to_bytes());
        let wait = self.settings.lock_timeout_for(None);
        self.resolved(|query| {
            query
                .bind(seen.id.scope().as_str().to_owned())
                .bind(seen.id.key().as_str().to_owned())
                .bind(Uuid::from_bytes(seen.operation.to_bytes()))
                .bind(bigint(seen.token))
                .bind(wait.clone())
                .bind(bigint(seen.version))
                .bind(status)
                .bind(fresh)
                .bind(micros(retention))
                .bind(response.map(|it| i16::try_from(it.status()).unwrap_or(i16::MAX)))
                .bind(response.map(|it| it.encode_headers().to_vec()))
                .bind(response.map(|it| it.body().to_vec()))
                .bind(point.map_or(0, |it| bigint(it.checkpoint())))
                .bind(point.map(|it| it.name().to_owned()))
                .bind(point.map(|it| it.data().to_vec()))
        })
        .await
    }
}

/// Sends a statement that deletes at most `$1` rows and says how many it did.
pub(crate) async fn delete(store: &PostgresStore, sql: &SqlStr, limit: u64) -> Result<u64, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = Call::start(store, "sweep").answer(sql, |query| query.bind(limit)).await?;
    rows.first().map_or(Ok(0), |row| {
        let swept: i64 = Columns::of(row, "sweep").value("swept")?;
        Ok(swept.unsigned_abs())
    })
}
