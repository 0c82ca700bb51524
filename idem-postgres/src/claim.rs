//! The claim: one statement that answers most callers, and the conditional write of the row it found for the others.

use std::time::Duration;

use idem_core::{ClaimOutcome, ClaimRequest, Fence, Origin, StoreError, StoreErrorKind, state::check_claim};
use sqlx::{SqlStr, postgres::PgRow};
use uuid::Uuid;

use crate::{
    call::{ATTEMPTS, Bound, Call},
    error::Failure,
    row::{Columns, bigint, micros},
    store::PostgresStore,
};

/// What a caller is told to wait when somebody else is just taking the key over.
const TAKEN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the first statement says.
enum Judged {
    Answer(ClaimOutcome),
    /// A row that has to be written: which, and what it was seen with.
    Write(Write, Fence),
    /// The row was not there, or not visible, or changed: start again.
    Again,
}

#[derive(Clone, Copy)]
enum Write {
    Wipe,
    Reissue,
    Take,
}

pub(crate) async fn claim(store: &PostgresStore, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
    check_claim(request)?;
    let (call, bound) = (Call::start(store, "claim"), Values::of(store, request));
    for _ in 0..ATTEMPTS {
        let judged = match call.send(&store.sql.claim, |query| bound.asked(bound.first(query))).await {
            Ok(rows) => judge(&rows, request)?,
            Err(failure) if failure.is_passing() => Judged::Again,
            // Another insert of this key, or a long transaction on its row, is under way: look without waiting.
            Err(Failure::Locked(error)) => match judge(&bound.look(store, &call).await?, request)? {
                Judged::Answer(outcome) => Judged::Answer(outcome),
                Judged::Write(..) | Judged::Again => return Err(Failure::Locked(error).into_error("claim")),
            },
            Err(failure) => return Err(failure.into_error("claim")),
        };
        let outcome = match judged {
            Judged::Answer(outcome) => Some(outcome),
            Judged::Write(write, seen) => bound.write(store, &call, write, seen, request).await?,
            Judged::Again => None,
        };
        match outcome {
            Some(outcome) => return Ok(outcome),
            None => tokio::task::yield_now().await,
        }
    }
    Err(StoreError::new(StoreErrorKind::Unavailable, "claim").because("the row changed under every attempt"))
}

fn judge(rows: &[PgRow], request: &ClaimRequest) -> Result<Judged, StoreError> {
    let Some(row) = rows.first() else { return Ok(Judged::Again) };
    let columns = Columns::of(row, "claim");
    Ok(match columns.value::<&str>("judged")? {
        "new" => Judged::Answer(ClaimOutcome::Claimed(columns.fresh_claim(&request.id, Origin::New)?)),
        "completed" => Judged::Answer(ClaimOutcome::Completed(columns.response()?)),
        "live" => Judged::Answer(ClaimOutcome::InProgress { retry_after: columns.span("lease_left")? }),
        "mismatch" => Judged::Answer(ClaimOutcome::Mismatch),
        "in_doubt" => Judged::Answer(ClaimOutcome::InDoubt { since: columns.time("since")? }),
        "not_comparable" => {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "claim")
                .because("the record's fingerprint version is not among the request's"));
        }
        "expired" => Judged::Write(Write::Wipe, columns.fence()?),
        "mine" => Judged::Write(Write::Reissue, columns.fence()?),
        "failed" | "stale" => Judged::Write(Write::Take, columns.fence()?),
        _ => return Err(columns.corrupt("no state of ours")),
    })
}

/// What the statements of one claim bind.
struct Values {
    scope: String,
    key: String,
    attempt: Uuid,
    current: Vec<u8>,
    fingerprints: Vec<Vec<u8>>,
    lease: i64,
    retention: i64,
    lock_timeout: String,
    route: Option<String>,
    data: Option<Vec<u8>>,
}

impl Values {
    fn of(store: &PostgresStore, request: &ClaimRequest) -> Self {
        Self {
            scope: request.id.scope().as_str().to_owned(),
            key: request.id.key().as_str().to_owned(),
            attempt: Uuid::from_bytes(request.attempt.to_bytes()),
            current: request.fingerprints.current().to_bytes().into(),
            fingerprints: request
                .fingerprints
                .iter()
                .map(|fingerprint| fingerprint.to_bytes().into())
                .collect(),
            lease: micros(request.lease),
            retention: micros(request.retention),
            lock_timeout: store.settings.lock_timeout_for(Some(request.lease)),
            route: request.request.as_ref().map(|asked| asked.route().to_owned()),
            data: request.request.as_ref().map(|asked| asked.data().to_vec()),
        }
    }

    fn named<'q>(&'q self, query: Bound<'q>) -> Bound<'q> {
        query.bind(&self.scope).bind(&self.key).bind(self.attempt)
    }

    fn first<'q>(&'q self, query: Bound<'q>) -> Bound<'q> {
        self.named(query)
            .bind(&self.current)
            .bind(&self.fingerprints)
            .bind(self.lease)
            .bind(self.retention)
            .bind(&self.lock_timeout)
    }

    /// What the writes of a new operation bind at last.
    fn asked<'q>(&'q self, query: Bound<'q>) -> Bound<'q> {
        query.bind(&self.route).bind(&self.data)
    }

    async fn look(&self, store: &PostgresStore, call: &Call<'_>) -> Result<Vec<PgRow>, StoreError> {
        call.answer(&store.sql.look, |query| self.first(query)).await
    }

    /// Writes the row that was seen with this fence; `None` if it is no longer what it was.
    async fn write(
        &self,
        store: &PostgresStore,
        call: &Call<'_>,
        write: Write,
        seen: Fence,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome>, StoreError> {
        let sql: &SqlStr = match write {
            Write::Wipe => &store.sql.wipe,
            Write::Reissue => &store.sql.reissue,
            Write::Take => &store.sql.take,
        };
        let sent = call
            .send(sql, |query| {
                let query = self.named(query);
                let query = match write {
                    Write::Wipe => query.bind(&self.current).bind(self.lease).bind(self.retention),
                    Write::Reissue | Write::Take => query.bind(&self.fingerprints).bind(self.lease),
                };
                let query = query
                    .bind(&self.lock_timeout)
                    .bind(Uuid::from_bytes(seen.operation.to_bytes()))
                    .bind(bigint(seen.token));
                match write {
                    Write::Wipe => self.asked(query),
                    Write::Reissue | Write::Take => query,
                }
            })
            .await;
        let rows = match (sent, write) {
            (Ok(rows), _) => rows,
            (Err(failure), _) if failure.is_passing() => return Ok(None),
            (Err(Failure::Locked(_)), Write::Take) => {
                return Ok(Some(ClaimOutcome::InProgress { retry_after: TAKEN_RETRY_AFTER }));
            }
            (Err(failure), _) => return Err(failure.into_error("claim")),
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let columns = Columns::of(row, "claim");
        let claim = match write {
            Write::Wipe => columns.fresh_claim(&request.id, Origin::Expired)?,
            Write::Reissue => columns.claim(&request.id, Origin::Reissued)?,
            Write::Take => {
                let origin = if columns.value::<&str>("was")? == "failed" {
                    Origin::Retried
                } else {
                    Origin::TakenOver
                };
                columns.claim(&request.id, origin)?
            }
        };
        Ok(Some(ClaimOutcome::Claimed(claim)))
    }
}
