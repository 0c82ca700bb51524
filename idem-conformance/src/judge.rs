//! Judges what a store did by what the state functions say.
//!
//! Nobody reads a store's clock. Two readings of it, one before and one after, bound what it may have shown: every time
//! that a step wrote must lie between what would have been written at the one and at the other, and every time that it
//! does not write must be the very same.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use idem_core::{AttemptId, ClaimOutcome, OperationId, Origin, Record, RerunUntil, State, StoredResponse};

use crate::step::{Drawn, Reply, Step};

/// The store's clock before and after what is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) before: SystemTime,
    pub(crate) after: SystemTime,
}

/// Whether these steps, one after the other from `before`, lead to `after` and to the answers that were seen.
///
/// An answer that nobody saw is `None`.
pub(crate) fn explain(
    before: Option<&Record>,
    history: &[(&Step, Option<&Reply>)],
    after: Option<&Record>,
    window: Window,
) -> Result<(), String> {
    let mut early = before.cloned();
    let mut late = before.cloned();
    for (step, seen) in history {
        let drawn = drawn(history, *seen, after);
        let old = early.clone();
        let (early_record, early_reply) = step.decide(early, window.before, &drawn);
        let (late_record, late_reply) = step.decide(late, window.after, &drawn);
        (early, late) = (early_record, late_record);
        if let Some(seen) = seen
            && !agree(seen, &early_reply, &late_reply, window)
        {
            return Err(format!("the answer is {seen:?} and has to be {early_reply:?}"));
        }
        fresh(old.as_ref(), early.as_ref(), step, &early_reply)?;
    }
    between(after, early.as_ref(), late.as_ref())
}

/// Whether the record that was found lies between the two.
pub(crate) fn between(
    found: Option<&Record>,
    early: Option<&Record>,
    late: Option<&Record>,
) -> Result<(), String> {
    match (found, early, late) {
        (Some(found), Some(early), Some(late)) => match differences(found, early, late) {
            list if list.is_empty() => Ok(()),
            list => Err(format!("the record is not what it has to be: {}", list.join("; "))),
        },
        (None, None, None) => Ok(()),
        (found, early, _) => Err(format!("the record is {found:?} and has to be {early:?}")),
    }
}

/// What the store drew at random, read from what it answered and kept.
fn drawn(history: &[(&Step, Option<&Reply>)], seen: Option<&Reply>, after: Option<&Record>) -> Drawn {
    let claimed = seen.and_then(Reply::claim).map(|claim| claim.fence().operation);
    let by_claim = |attempt: AttemptId| {
        history.iter().any(|(step, _)| matches!(step, Step::Claim(request) if request.attempt == attempt))
    };
    Drawn {
        passed_over: matches!(seen, Some(Reply::Swept(Ok(0)))),
        operation: claimed.or(after.map(|record| record.operation)).unwrap_or_else(OperationId::random),
        attempt: after
            .map(|record| record.attempt)
            .filter(|attempt| !by_claim(*attempt))
            .unwrap_or_else(AttemptId::random),
    }
}

/// What has to be drawn afresh was.
fn fresh(old: Option<&Record>, new: Option<&Record>, step: &Step, reply: &Reply) -> Result<(), String> {
    let (Some(old), Some(new)) = (old, new) else { return Ok(()) };
    let wiped = reply.claim().is_some_and(|claim| claim.origin() == Origin::Expired);
    if wiped && new.operation == old.operation {
        return Err("the new operation has the id of the old one".to_owned());
    }
    if matches!(step, Step::Resolve(..)) && new.version > old.version && new.attempt == old.attempt {
        return Err("the settled record still has the old owner's attempt id".to_owned());
    }
    Ok(())
}

/// Whether the answer that was seen lies between the two.
pub(crate) fn agree(seen: &Reply, early: &Reply, late: &Reply, window: Window) -> bool {
    match (seen, early, late) {
        (Reply::Claim(Ok(seen)), Reply::Claim(Ok(early)), Reply::Claim(Ok(late))) => {
            same_outcome(seen, early, late, window)
        }
        (Reply::Claim(Err(seen)), Reply::Claim(Err(early)), Reply::Claim(Err(_))) => seen == early,
        (Reply::Write(seen), Reply::Write(early), Reply::Write(_)) => seen == early,
        (Reply::Swept(seen), Reply::Swept(early), Reply::Swept(_)) => seen == early,
        (Reply::Found(Ok(seen)), Reply::Found(Ok(early)), Reply::Found(Ok(late))) => {
            between(seen.as_deref(), early.as_deref(), late.as_deref()).is_ok()
        }
        (Reply::Claim(_) | Reply::Write(_) | Reply::Swept(_) | Reply::Found(_), _, _) => false,
    }
}

fn same_outcome(seen: &ClaimOutcome, early: &ClaimOutcome, late: &ClaimOutcome, window: Window) -> bool {
    match (seen, early, late) {
        (ClaimOutcome::Claimed(seen), ClaimOutcome::Claimed(early), ClaimOutcome::Claimed(_)) => {
            (seen.id(), seen.fence(), seen.fingerprint(), seen.origin(), seen.checkpoint(), seen.point())
                == (
                    early.id(),
                    early.fence(),
                    early.fingerprint(),
                    early.origin(),
                    early.checkpoint(),
                    early.point(),
                )
        }
        (ClaimOutcome::Completed(seen), ClaimOutcome::Completed(early), ClaimOutcome::Completed(_)) => {
            seen == early
        }
        (
            ClaimOutcome::InProgress { retry_after: seen },
            ClaimOutcome::InProgress { retry_after: early },
            ClaimOutcome::InProgress { retry_after: late },
        ) => {
            // A lease that was written inside the window has lost at most the window's width.
            let width = window.after.duration_since(window.before).unwrap_or_default();
            let (least, most) = (early.min(late).saturating_sub(width), early.max(late));
            !seen.is_zero() && (least..=*most).contains(seen)
        }
        (
            ClaimOutcome::InDoubt { since: seen },
            ClaimOutcome::InDoubt { since: early },
            ClaimOutcome::InDoubt { since: late },
        ) => (early..=late).contains(&seen),
        (ClaimOutcome::Mismatch, ClaimOutcome::Mismatch, ClaimOutcome::Mismatch) => true,
        (
            ClaimOutcome::Claimed(_)
            | ClaimOutcome::Completed(_)
            | ClaimOutcome::InProgress { .. }
            | ClaimOutcome::InDoubt { .. }
            | ClaimOutcome::Mismatch,
            _,
            _,
        ) => false,
    }
}

/// Every field of `seen` that does not lie between the two.
fn differences(seen: &Record, early: &Record, late: &Record) -> Vec<String> {
    // A new field of the record has to be looked at here.
    let Record {
        id,
        operation,
        attempt,
        token,
        fingerprint,
        state,
        version,
        checkpoint,
        locked_at,
        lease_until,
        rerun_until,
        point,
        request,
        created_at,
        expires_at,
    } = seen;
    let mut found = Differences(Vec::new());
    found.same("id", id, &early.id);
    found.same("operation", operation, &early.operation);
    found.same("attempt", attempt, &early.attempt);
    found.same("token", token, &early.token);
    found.same("fingerprint", fingerprint, &early.fingerprint);
    found.same("state", &answer(state), &answer(&early.state));
    found.same("version", version, &early.version);
    found.same("checkpoint", checkpoint, &early.checkpoint);
    found.same("recovery point", point, &early.point);
    found.same("request", request, &early.request);
    found.between("locked_at", Some(*locked_at), Some(early.locked_at), Some(late.locked_at));
    found.between("lease_until", Some(*lease_until), Some(early.lease_until), Some(late.lease_until));
    found.between("created_at", Some(*created_at), Some(early.created_at), Some(late.created_at));
    found.between("expires_at", Some(*expires_at), Some(early.expires_at), Some(late.expires_at));
    found.between("ended_at", state.ended_at(), early.state.ended_at(), late.state.ended_at());
    match (rerun_until, early.rerun_until, late.rerun_until) {
        (RerunUntil::At(seen), RerunUntil::At(early), RerunUntil::At(late)) => {
            found.between("rerun_until", Some(*seen), Some(early), Some(late));
        }
        (seen, early, _) => found.same("rerun_until", seen, &early),
    }
    found.0
}

/// A state without its time.
fn answer(state: &State) -> (&'static str, Option<&StoredResponse>) {
    match state {
        State::InProgress | State::Failed { .. } => (state.name(), None),
        State::Completed { response, .. } => (state.name(), Some(response)),
    }
}

struct Differences(Vec<String>);

impl Differences {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, seen: &T, expected: &T) {
        if seen != expected {
            self.0.push(format!("{field} is {seen:?}, not {expected:?}"));
        }
    }

    fn between(
        &mut self,
        field: &str,
        seen: Option<SystemTime>,
        early: Option<SystemTime>,
        late: Option<SystemTime>,
    ) {
        let text = match (seen, early, late) {
            (None, None, None) => return,
            (Some(seen), Some(early), Some(late)) => {
                if (early..=late).contains(&seen) {
                    return;
                }
                match (seen.duration_since(late), early.duration_since(seen)) {
                    (Ok(by), _) if by > Duration::ZERO => format!("{field} is {by:?} too late"),
                    (_, Ok(by)) => format!("{field} is {by:?} too early"),
                    (_, Err(_)) => format!("{field} is off"),
                }
            }
            (seen, expected, _) => format!("{field} is {seen:?}, not {expected:?}"),
        };
        self.0.push(text);
    }
}
