//! A claimed batch, and the writes that show its token.

use std::collections::BTreeSet;

use bytes::Bytes;
use idem_core::{StoreError, StoredResponse};
use sqlx::SqlStr;
use tokio::time::Instant;
use uuid::Uuid;

use super::Relay;
use crate::{
    MessageId, Outgoing,
    call::{Bound, Call},
    row::{Columns, micros},
};

const OPERATION: &str = "relay";

/// The pauses after failures, in microseconds: 1 s at first, 15 minutes at most.
const FIRST_PAUSE: i64 = 1_000_000;
const LONGEST_PAUSE: i64 = 15 * 60 * 1_000_000;

/// Messages that are this relay's until its lease is over.
pub(super) struct Claim<'r> {
    relay: &'r Relay,
    token: Uuid,
    /// Counted from before the statement was sent, on this process' clock.
    pub(super) until: Instant,
    pub(super) messages: Vec<Outgoing>,
    /// The order keys of which a message was found that cannot go yet.
    pub(super) stopped: Vec<String>,
}

impl<'r> Claim<'r> {
    /// Takes none of the order keys `without`.
    pub(super) async fn take(relay: &'r Relay, without: &BTreeSet<String>) -> Result<Self, StoreError> {
        let (token, until) = (Uuid::new_v4(), Instant::now() + relay.lease);
        let call = Call::start(&relay.store, OPERATION);
        let without: Vec<_> = without.iter().cloned().collect();
        let bind = |query: Bound<'static>| {
            query
                .bind(token)
                .bind(micros(relay.lease))
                .bind(i64::from(relay.batch))
                .bind(relay.pass_over)
                .bind(without.clone())
        };
        let rows = call.answer(&relay.store.outbox.sql.claim, bind).await?;
        let (mut messages, mut stopped) = (Vec::new(), Vec::new());
        for row in &rows {
            let columns = Columns::of(row, OPERATION);
            if columns.value("claimed")? {
                messages.push(outgoing(&columns)?);
            } else {
                stopped.push(columns.value("order_key")?);
            }
        }
        Ok(Self { relay, token, until, messages, stopped })
    }

    /// Returns how many were marked.
    pub(super) async fn mark(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        let (sql, keep) = (&self.relay.store.outbox.sql, self.relay.keep);
        let settled = if keep.is_zero() {
            self.settle(&sql.remove, ids, |query| query).await
        } else {
            self.settle(&sql.mark, ids, |query| query.bind(micros(keep))).await
        };
        Ok(settled?.0)
    }

    /// Returns how many were noted as failed, and how many of those are parked.
    pub(super) async fn fail(&self, failed: &[(MessageId, String)]) -> Result<(u64, u64), StoreError> {
        let (ids, errors): (Vec<_>, Vec<_>) = failed.iter().cloned().unzip();
        let max_tries = i32::try_from(self.relay.max_tries).unwrap_or(i32::MAX);
        self.settle(&self.relay.store.outbox.sql.fail, &ids, |query| {
            query.bind(errors.clone()).bind(max_tries).bind(FIRST_PAUSE).bind(LONGEST_PAUSE)
        })
        .await
    }

    /// Returns how many were given back.
    pub(super) async fn give_back(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        Ok(self.settle(&self.relay.store.outbox.sql.give_back, ids, |query| query).await?.0)
    }

    async fn settle(
        &self,
        sql: &SqlStr,
        ids: &[MessageId],
        bind: impl Fn(Bound<'static>) -> Bound<'static> + Send + Sync,
    ) -> Result<(u64, u64), StoreError> {
        if ids.is_empty() {
            return Ok((0, 0));
        }
        let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        let call = Call::start(&self.relay.store, OPERATION);
        let rows = call.answer(sql, |query| bind(query.bind(self.token).bind(ids.clone()))).await?;
        rows.first().map_or(Ok((0, 0)), |row| {
            let row = Columns::of(row, OPERATION);
            Ok((row.value::<i64>("settled")?.unsigned_abs(), row.value::<i64>("parked")?.unsigned_abs()))
        })
    }
}

fn outgoing(row: &Columns<'_>) -> Result<Outgoing, StoreError> {
    let payload = Bytes::from(row.value::<Vec<u8>>("payload")?);
    let content = StoredResponse::from_columns(200, row.value::<Vec<u8>>("headers")?, payload)
        .map_err(|error| row.corrupt("headers").with_source(error))?;
    let tries = row.value::<i32>("tries")?.unsigned_abs().saturating_sub(1);
    let message = Outgoing::new(
        row.value::<Uuid>("id")?.into(),
        row.value::<String>("topic")?,
        row.value::<String>("content_type")?,
        content.body().clone(),
    )
    .tried(tries);
    let message = content
        .headers()
        .iter()
        .fold(message, |message, (name, value)| message.header(name.clone(), value.clone()));
    Ok(match row.value::<Option<String>>("order_key")? {
        Some(order_key) => message.ordered_by(order_key),
        None => message,
    })
}
