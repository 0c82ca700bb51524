//! The claim decision and every write after it, as pure functions.
//!
//! The memory store runs them, a store author may run them over a compare-and-swap, and every other store is compared
//! with them answer by answer and record by record. Nothing here reads a clock: `now` is the store's.

mod record;
#[cfg(test)]
mod tests;
mod write;

use std::time::{Duration, SystemTime};

pub use record::{Record, RerunUntil, State};
pub use write::{Command, check_claim, check_renewal, check_resolve, check_span, write};

use crate::{ClaimOutcome, ClaimRequest, OperationId, Origin, Sameness, StoreError, StoreErrorKind};

/// What a step does to a record, and what it answers. Nothing is written where the answer is an error.
#[derive(Debug)]
#[must_use = "a transition that is not stored did not happen"]
pub struct Transition<A> {
    /// The record to store in place of the one that was read; `None` writes nothing.
    pub write: Option<Record>,
    /// What to answer once that is stored.
    pub answer: Result<A, StoreError>,
}

impl<A> Transition<A> {
    const fn answer(answer: A) -> Self {
        Self { write: None, answer: Ok(answer) }
    }

    const fn write(record: Record, answer: A) -> Self {
        Self { write: Some(record), answer: Ok(answer) }
    }

    const fn refuse(error: StoreError) -> Self {
        Self { write: None, answer: Err(error) }
    }
}

/// Decides a claim. `fresh` becomes the operation id if this claim creates or wipes the record.
///
/// The rows of the table, top to bottom: none · ended and expired · another fingerprint · not comparable · mine ·
/// completed · live · failed · stale and may run again · in doubt.
pub fn claim(
    record: Option<&Record>,
    request: &ClaimRequest,
    now: SystemTime,
    fresh: OperationId,
) -> Transition<ClaimOutcome> {
    if let Err(error) = check_claim(request) {
        return Transition::refuse(error);
    }
    let claimed = |record: Record, origin| {
        let claim = record.claim(origin);
        Transition::write(record, ClaimOutcome::Claimed(claim))
    };
    let Some(record) = record else { return claimed(first(request, now, fresh, 1), Origin::New) };
    if record.is_expired(now) {
        return claimed(first(request, now, fresh, record.version + 1), Origin::Expired);
    }
    match request.fingerprints.compare(record.fingerprint) {
        Sameness::Same => {}
        Sameness::Different => return Transition::answer(ClaimOutcome::Mismatch),
        Sameness::NotComparable => {
            return Transition::refuse(
                StoreError::new(StoreErrorKind::Unavailable, "claim")
                    .because("the record's fingerprint version is not among the request's"),
            );
        }
    }
    match &record.state {
        State::InProgress if record.attempt == request.attempt => {
            claimed(renewed(record, now, request.lease), Origin::Reissued)
        }
        State::Completed { response, .. } => Transition::answer(ClaimOutcome::Completed(response.clone())),
        State::InProgress if !record.is_stuck(now) => {
            let retry_after = record.lease_until.duration_since(now).unwrap_or_default();
            Transition::answer(ClaimOutcome::InProgress { retry_after })
        }
        State::Failed { .. } => claimed(owned(record, request, now), Origin::Retried),
        State::InProgress if record.rerun_until.allows(now) => {
            claimed(owned(record, request, now), Origin::TakenOver)
        }
        State::InProgress => Transition::answer(ClaimOutcome::InDoubt { since: record.in_doubt_since() }),
    }
}

/// The first claim of a new operation.
fn first(request: &ClaimRequest, now: SystemTime, operation: OperationId, version: u64) -> Record {
    Record {
        id: request.id.clone(),
        operation,
        attempt: request.attempt,
        token: 1,
        fingerprint: request.fingerprints.current(),
        state: State::InProgress,
        version,
        checkpoint: 0,
        locked_at: now,
        lease_until: now + request.lease,
        rerun_until: RerunUntil::Always,
        point: None,
        request: request.request.clone(),
        created_at: now,
        expires_at: now + request.lease + request.retention,
    }
}

/// A further owner of the same operation.
fn owned(record: &Record, request: &ClaimRequest, now: SystemTime) -> Record {
    Record {
        attempt: request.attempt,
        token: record.token + 1,
        state: State::InProgress,
        version: record.version + 1,
        locked_at: now,
        lease_until: now + request.lease,
        ..record.clone()
    }
}

fn renewed(record: &Record, now: SystemTime, lease: Duration) -> Record {
    let lease_until = if lease.is_zero() { now } else { record.lease_until.max(now + lease) };
    Record { lease_until, version: record.version + 1, ..record.clone() }
}
