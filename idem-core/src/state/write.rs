//! Every write after the claim.

use std::time::{Duration, SystemTime};

use super::{Record, RerunUntil, State, Transition, renewed};
use crate::{
    AttemptId, Claim, ClaimRequest, Decision, MAX_SPAN, MIN_LEASE, RecoveryPoint, Rerun, StoreError,
    StoreErrorKind, StoredResponse,
};

/// A write after the claim, with what it shows.
#[derive(Debug)]
pub enum Command<'a> {
    /// Push the lease out; zero gives the key up at once without ending it.
    Renew(&'a Claim, Duration),
    /// Note how far the operation has come.
    Checkpoint(&'a Claim, &'a RecoveryPoint, Rerun),
    /// End with an answer.
    Complete(&'a Claim, &'a StoredResponse, Duration),
    /// End because it may be tried again.
    Release(&'a Claim, Duration),
    /// Settle what is in doubt, as it was seen. The attempt id is a fresh random one.
    Resolve(&'a Record, &'a Decision, Duration, AttemptId),
}

/// Decides a write.
pub fn write(record: Option<&Record>, command: &Command<'_>, now: SystemTime) -> Transition<()> {
    match *command {
        Command::Renew(claim, lease) => renew(record, claim, lease, now),
        Command::Checkpoint(claim, point, rerun) => checkpoint(record, claim, point, rerun, now),
        Command::Complete(claim, response, retention) => complete(record, claim, response, retention, now),
        Command::Release(claim, retention) => release(record, claim, retention, now),
        Command::Resolve(seen, decision, retention, fresh) => {
            resolve(record, seen, decision, retention, fresh, now)
        }
    }
}

/// The record, if the claim's fence is its current one.
fn fenced<'a>(
    record: Option<&'a Record>,
    claim: &Claim,
    call: &'static str,
) -> Result<&'a Record, StoreError> {
    record
        .filter(|record| record.id == *claim.id() && record.fence() == claim.fence())
        .ok_or(StoreError::new(StoreErrorKind::ClaimLost, call))
}

fn renew(record: Option<&Record>, claim: &Claim, lease: Duration, now: SystemTime) -> Transition<()> {
    if let Err(error) = check_renewal(lease) {
        return Transition::refuse(error);
    }
    match fenced(record, claim, "renew") {
        Err(error) => Transition::refuse(error),
        Ok(record) if record.state == State::InProgress => Transition::write(renewed(record, now, lease), ()),
        Ok(_) => Transition::refuse(StoreError::new(StoreErrorKind::ClaimLost, "renew")),
    }
}

fn checkpoint(
    record: Option<&Record>,
    claim: &Claim,
    point: &RecoveryPoint,
    rerun: Rerun,
    now: SystemTime,
) -> Transition<()> {
    let refuse = |kind| Transition::refuse(StoreError::new(kind, "checkpoint"));
    if let Rerun::Until(window) = rerun
        && let Err(error) = check_span("checkpoint", "window", window)
    {
        return Transition::refuse(error);
    }
    let record = match fenced(record, claim, "checkpoint") {
        Err(error) => return Transition::refuse(error),
        Ok(record) if record.state != State::InProgress => return refuse(StoreErrorKind::ClaimLost),
        Ok(record) => record,
    };
    if rerun == Rerun::Again && !record.rerun_until.allows(now) {
        return refuse(StoreErrorKind::TooLate);
    }
    if record.checkpoint >= point.checkpoint() {
        return match &record.point {
            Some(last) if last == point => Transition::answer(()),
            _ => Transition::refuse(
                StoreError::new(StoreErrorKind::Invalid, "checkpoint").because("its number is already used"),
            ),
        };
    }
    let rerun_until = match rerun {
        Rerun::Always => RerunUntil::Always,
        Rerun::Until(window) => record.rerun_until.min(RerunUntil::At(now + window)),
        Rerun::Never => RerunUntil::Never,
        Rerun::Again | Rerun::Keep => record.rerun_until,
    };
    Transition::write(
        Record {
            checkpoint: point.checkpoint(),
            point: Some(point.clone()),
            rerun_until,
            version: record.version + 1,
            ..record.clone()
        },
        (),
    )
}

fn complete(
    record: Option<&Record>,
    claim: &Claim,
    response: &StoredResponse,
    retention: Duration,
    now: SystemTime,
) -> Transition<()> {
    if let Err(error) = check_span("complete", "retention", retention) {
        return Transition::refuse(error);
    }
    match fenced(record, claim, "complete") {
        Err(error) => Transition::refuse(error),
        Ok(record) => match record.state {
            State::InProgress => {
                let state = State::Completed { response: response.clone(), ended_at: now };
                Transition::write(ended(record, state, retention, now), ())
            }
            State::Completed { .. } => Transition::answer(()),
            State::Failed { .. } => {
                Transition::refuse(StoreError::new(StoreErrorKind::ClaimLost, "complete"))
            }
        },
    }
}

fn release(record: Option<&Record>, claim: &Claim, retention: Duration, now: SystemTime) -> Transition<()> {
    if let Err(error) = check_span("release", "retention", retention) {
        return Transition::refuse(error);
    }
    match fenced(record, claim, "release") {
        Err(error) => Transition::refuse(error),
        Ok(record) => match record.state {
            State::InProgress if record.rerun_until == RerunUntil::Always => {
                Transition::write(ended(record, State::Failed { ended_at: now }, retention, now), ())
            }
            State::InProgress => Transition::refuse(
                StoreError::new(StoreErrorKind::Invalid, "release").because("an effect is open"),
            ),
            State::Failed { .. } => Transition::answer(()),
            State::Completed { .. } => {
                Transition::refuse(StoreError::new(StoreErrorKind::ClaimLost, "release"))
            }
        },
    }
}

fn ended(record: &Record, state: State, retention: Duration, now: SystemTime) -> Record {
    // What was asked for is needed until the answer is there, and is kept no longer.
    let is_answered = matches!(state, State::Completed { .. });
    Record {
        state,
        request: record.request.clone().filter(|_| !is_answered),
        version: record.version + 1,
        expires_at: record.expires_at.max(now + retention),
        ..record.clone()
    }
}

fn resolve(
    record: Option<&Record>,
    seen: &Record,
    decision: &Decision,
    retention: Duration,
    fresh: AttemptId,
    now: SystemTime,
) -> Transition<()> {
    if let Err(error) = check_resolve(seen, decision, retention) {
        return Transition::refuse(error);
    }
    let lost = || Transition::refuse(StoreError::new(StoreErrorKind::ClaimLost, "resolve"));
    let Some(record) = record.filter(|record| record.id == seen.id && record.operation == seen.operation)
    else {
        return lost();
    };
    if record.version == seen.version + 1 && record.token == seen.token + 1 && holds(record, decision) {
        return Transition::answer(());
    }
    if record.version != seen.version || !record.is_in_doubt(now) {
        return lost();
    }
    let settled =
        Record { token: record.token + 1, attempt: fresh, rerun_until: RerunUntil::Always, ..record.clone() };
    let write = match decision {
        Decision::Complete(response) => {
            ended(&settled, State::Completed { response: response.clone(), ended_at: now }, retention, now)
        }
        Decision::Fail => {
            ended(&Record { point: None, ..settled }, State::Failed { ended_at: now }, retention, now)
        }
        Decision::Resume(point) => Record {
            checkpoint: point.checkpoint(),
            point: Some(point.clone()),
            version: record.version + 1,
            ..settled
        },
    };
    Transition::write(write, ())
}

/// Whether the record holds exactly this decision.
fn holds(record: &Record, decision: &Decision) -> bool {
    match (decision, &record.state) {
        (Decision::Complete(decided), State::Completed { response, .. }) => decided == response,
        (Decision::Fail, State::Failed { .. }) => record.point.is_none(),
        (Decision::Resume(point), State::InProgress) => record.point.as_ref() == Some(point),
        (Decision::Complete(_), State::InProgress | State::Failed { .. })
        | (Decision::Fail, State::InProgress | State::Completed { .. })
        | (Decision::Resume(_), State::Completed { .. } | State::Failed { .. }) => false,
    }
}

/// For stores: refuses a request whose spans were changed to ones that [`ClaimRequest::new`] refuses.
///
/// # Errors
/// `Invalid`.
pub fn check_claim(request: &ClaimRequest) -> Result<(), StoreError> {
    check_span("claim", "retention", request.retention)?;
    if (MIN_LEASE..=MAX_SPAN).contains(&request.lease) {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Invalid, "claim")
        .because(format!("lease must be 1 ms to 10 years, in ms; seen={}", request.lease.as_millis())))
}

/// For stores: refuses a renewal that is neither zero nor 1 ms to ten years.
///
/// # Errors
/// `Invalid`.
pub fn check_renewal(lease: Duration) -> Result<(), StoreError> {
    if lease.is_zero() || (MIN_LEASE..=MAX_SPAN).contains(&lease) {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Invalid, "renew")
        .because(format!("lease must be zero or 1 ms to 10 years, in ms; seen={}", lease.as_millis())))
}

/// For stores: refuses a span above ten years, which could overflow a clock.
///
/// # Errors
/// `Invalid`.
pub fn check_span(call: &'static str, what: &'static str, span: Duration) -> Result<(), StoreError> {
    if span <= MAX_SPAN {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Invalid, call)
        .because(format!("{what} must be at most 10 years, in ms; seen={}", span.as_millis())))
}

/// For stores: refuses a decision that no record could take: a resumption whose number does not follow, an answer that
/// no HTTP message can carry.
///
/// # Errors
/// `Invalid`.
pub fn check_resolve(seen: &Record, decision: &Decision, retention: Duration) -> Result<(), StoreError> {
    check_span("resolve", "retention", retention)?;
    match decision {
        Decision::Resume(point) if point.checkpoint() != seen.checkpoint + 1 => {
            Err(StoreError::new(StoreErrorKind::Invalid, "resolve")
                .because("a resumption is numbered one above the record's last checkpoint"))
        }
        Decision::Complete(response) => response.check_headers().map_err(|invalid| {
            StoreError::new(StoreErrorKind::Invalid, "resolve").because(invalid.to_string())
        }),
        Decision::Resume(_) | Decision::Fail => Ok(()),
    }
}
