//! How a rule of the table or of the seam is broken without a copy of it.
//!
//! The shipping function is asked about a row, a call or a time that is not the real one; or what it writes or answers
//! is changed afterwards. Where only the judgement was meant to change, what is written is put right again. An engine's
//! rule is broken in `owner.rs`, where it is followed.

use crate::{
    machine::{self, ALWAYS, Answer, Call, Decided, How, NEVER, Reruns, Row, RowState},
    rule::{Rule, Stage},
};

/// The decision with these rules broken.
pub(crate) fn decide(broken: &[Rule], stage: Stage, row: Option<Row>, call: Call, now: u8) -> Decided {
    let (mut view, mut told, mut clock) = (row, call, now);
    for &rule in broken {
        before(rule, stage, &mut view, &mut told, &mut clock);
    }
    let mut decided = machine::decide(view, told, clock);
    for &rule in broken {
        after(rule, stage, row, call, now, &mut decided);
    }
    decided
}

/// Lies about the row, the call or the time.
fn before(rule: Rule, stage: Stage, view: &mut Option<Row>, call: &mut Call, now: &mut u8) {
    match call {
        Call::Claim { .. } => before_claim(rule, stage, view, call, now),
        Call::Renew { .. } | Call::Checkpoint { .. } | Call::Complete { .. } | Call::Release { .. } => {
            if let Some(row) = view {
                before_write(rule, row, call);
            }
        }
        Call::Resolve { seen, decision, .. } => {
            if let Some(row) = view {
                before_resolve(rule, row, seen, decision, *now);
            }
        }
    }
}

fn before_claim(rule: Rule, stage: Stage, view: &mut Option<Row>, call: &mut Call, now: &mut u8) {
    let Call::Claim { attempt, print, fresh, .. } = call else { return };
    match rule {
        // A server whose wall clock runs ahead.
        Rule::StoreClock if *attempt == 2 => *now += 1,
        Rule::FreshOperation => *fresh = *attempt + 10,
        Rule::AbsenceProvesNothing if stage == Stage::Look => *view = None,
        _ => {}
    }
    let Some(row) = view else { return };
    let mine = row.attempt == *attempt && row.state == RowState::InProgress;
    match (rule, stage) {
        (Rule::TakeCompares | Rule::TakeClientToken, Stage::Write(seen)) if seen.how != How::Expired => {
            force(row, seen.how, *attempt);
        }
        (Rule::WipeCompares, Stage::Write(seen)) if seen.how == How::Expired => {
            force(row, seen.how, *attempt);
        }
        (Rule::WipeExpired, _) if row.state == RowState::Failed => row.expires = 0,
        (Rule::TakeLease, Stage::Write(_)) if !mine && row.state == RowState::InProgress => row.lease = 0,
        (Rule::TakeDoubt, Stage::Write(_)) | (Rule::DoubtNotTaken, _) => row.rerun = ALWAYS,
        (Rule::TakePrint, Stage::Write(_)) => row.fingerprint = *print,
        (Rule::ReplayPrint, Stage::Look) if matches!(row.state, RowState::Completed(_)) => {
            row.fingerprint = *print;
        }
        (Rule::LookPrint, Stage::Look) if !matches!(row.state, RowState::Completed(_)) => {
            row.fingerprint = *print;
        }
        (Rule::PrintComparable, _) if row.fingerprint.version != print.version => row.fingerprint = *print,
        (Rule::OwnRecognised, _) if mine => row.attempt = 0,
        (Rule::OwnRecognisedStale, _) if mine && row.lease <= *now => row.attempt = 0,
        _ => {}
    }
}

/// Makes the row one that a statement may write that had been told so by its read.
fn force(row: &mut Row, how: How, attempt: u8) {
    row.attempt = if how == How::Reissued { attempt } else { 0 };
    row.lease = 0;
    row.rerun = ALWAYS;
    (row.state, row.expires) = match how {
        How::Expired => (RowState::Failed, 0),
        How::Retried => (RowState::Failed, u8::MAX / 2),
        How::New | How::Reissued | How::TakenOver => (RowState::InProgress, row.expires),
    };
}

fn before_write(rule: Rule, row: &mut Row, call: &mut Call) {
    let current = (row.operation, row.token);
    match (rule, &mut *call) {
        (Rule::FenceComplete, Call::Complete { fence, .. })
        | (Rule::FenceCheckpoint, Call::Checkpoint { fence, .. })
        | (Rule::FenceRelease, Call::Release { fence, .. })
        | (Rule::FenceRenew, Call::Renew { fence, .. }) => *fence = current,
        (Rule::FenceOperation, _) => {
            if let Some(fence) = call.fence_mut() {
                fence.0 = current.0;
            }
        }
        (Rule::FenceToken, _) => {
            if let Some(fence) = call.fence_mut() {
                fence.1 = current.1;
            }
        }
        (Rule::CompletedIsFinal, Call::Complete { .. }) if matches!(row.state, RowState::Completed(_)) => {
            row.state = RowState::InProgress;
        }
        (Rule::CompleteNotFailed, Call::Complete { .. }) if row.state == RowState::Failed => {
            row.state = RowState::InProgress;
        }
        (Rule::RenewInProgress, Call::Renew { .. })
        | (Rule::CheckpointInProgress, Call::Checkpoint { .. }) => row.state = RowState::InProgress,
        (Rule::ReleaseInProgress, Call::Release { .. }) => {
            (row.state, row.rerun) = (RowState::InProgress, ALWAYS);
        }
        (Rule::CheckpointNumbers, Call::Checkpoint { number, .. }) if row.checkpoint >= *number => {
            (row.checkpoint, row.journal) = (0, None);
        }
        (Rule::ReleaseNothingOpen, Call::Release { .. })
        | (Rule::AgainInTime, Call::Checkpoint { rerun: Reruns::Again, .. })
        | (Rule::EarlierWins, Call::Checkpoint { rerun: Reruns::Until(_), .. }) => row.rerun = ALWAYS,
        (Rule::NeverLowers, Call::Checkpoint { rerun: rerun @ Reruns::Never, .. })
        | (Rule::AlwaysRaises, Call::Checkpoint { rerun: rerun @ Reruns::Always, .. }) => {
            *rerun = Reruns::Keep;
        }
        (Rule::KeepNeverRaises, Call::Checkpoint { rerun: rerun @ Reruns::Keep, .. }) => {
            *rerun = Reruns::Always;
        }
        _ => {}
    }
}

fn before_resolve(rule: Rule, row: &mut Row, seen: &mut Row, decision: &mut machine::Settled, now: u8) {
    let fits = match rule {
        Rule::ResolveOperation => true,
        Rule::ResolveToken => row.operation == seen.operation,
        Rule::ResolveCheckpoint => (row.operation, row.token) == (seen.operation, seen.token),
        Rule::ResolveVersion => {
            (row.operation, row.token, row.checkpoint) == (seen.operation, seen.token, seen.checkpoint)
        }
        Rule::ResolveDoubt => {
            if row.state == RowState::InProgress && row.version == seen.version {
                (row.lease, row.rerun) = (now, NEVER);
            }
            false
        }
        _ => false,
    };
    if fits && machine::is_in_doubt(row, now) {
        *seen = *row;
        if let machine::Settled::Resume { number, .. } = decision {
            *number = row.checkpoint + 1;
        }
    }
}

/// Puts right what was only lied about, and breaks what is written or answered.
fn after(rule: Rule, stage: Stage, real: Option<Row>, call: Call, now: u8, decided: &mut Decided) {
    let Some(real) = real else { return };
    match call {
        Call::Claim { .. } => after_claim(rule, stage, &real, call, decided),
        Call::Renew { .. } | Call::Checkpoint { .. } | Call::Complete { .. } | Call::Release { .. } => {
            after_write(rule, &real, call, now, decided);
        }
        Call::Resolve { .. } => after_resolve(rule, &real, decided),
    }
}

fn after_claim(rule: Rule, stage: Stage, real: &Row, call: Call, decided: &mut Decided) {
    let Call::Claim { print, .. } = call else { return };
    if let (Rule::PresenceIsNoAnswer, Answer::InProgress) = (rule, decided.1) {
        decided.1 = Answer::Completed(real.attempt);
    }
    if let (Rule::UncomparableIsNoMismatch, Answer::Unavailable) = (rule, decided.1) {
        decided.1 = Answer::Mismatch;
    }
    let (Some(write), Answer::Claimed(grant)) = (&mut decided.0, &mut decided.1) else { return };
    match (rule, grant.how) {
        (Rule::TakeCompares | Rule::TakeClientToken | Rule::TakeDoubt | Rule::DoubtNotTaken, how)
            if how != How::Expired =>
        {
            write.rerun = real.rerun;
            if let (Rule::TakeClientToken, Stage::Write(seen)) = (rule, stage) {
                write.token = seen.token + u8::from(how != How::Reissued);
            }
        }
        (Rule::TakePrint, how) if how != How::Expired => write.fingerprint = real.fingerprint,
        (Rule::PrintComparable, how) if how != How::Expired => write.fingerprint = real.fingerprint,
        (Rule::PrintKept, How::TakenOver) => write.fingerprint = print,
        (Rule::TakeoverToken, How::TakenOver) | (Rule::RetryToken, How::Retried) => write.token = real.token,
        (Rule::WipeOperation, How::Expired) => write.operation = real.operation,
        (Rule::WipePoint, How::Expired) => {
            (write.checkpoint, write.journal) = (real.checkpoint, real.journal);
        }
        (Rule::WipeRerun, How::Expired) => write.rerun = real.rerun,
        (Rule::OwnRenews, How::Reissued) => write.lease = real.lease,
        (Rule::OwnCounts, How::Reissued) => write.version = real.version,
        (Rule::TakeoverHandsOver, How::TakenOver) | (Rule::RetryHandsOver, How::Retried) => {
            (write.checkpoint, write.journal) = (0, None);
        }
        (Rule::StaleTaken, How::TakenOver) => {
            *decided = (None, Answer::InProgress);
            return;
        }
        _ => {}
    }
    grant.fence = (write.operation, write.token);
    (grant.print, grant.checkpoint, grant.journal) = (write.fingerprint, write.checkpoint, write.journal);
    if let (Rule::HandedFromWrite | Rule::NumberFromWrite, Stage::Write(seen)) = (rule, stage) {
        grant.checkpoint = seen.checkpoint;
        if rule == Rule::HandedFromWrite {
            grant.journal = seen.journal;
        }
    }
}

fn after_write(rule: Rule, real: &Row, call: Call, now: u8, decided: &mut Decided) {
    if rule == Rule::DoneIsMine
        && decided.1 == Answer::Lost
        && matches!((call, real.state), (Call::Complete { .. }, RowState::Completed(_)))
    {
        decided.1 = Answer::Done;
    }
    let Some(write) = &mut decided.0 else { return };
    match (rule, call) {
        (Rule::CheckpointInProgress, Call::Checkpoint { .. }) => write.state = real.state,
        (Rule::AgainInTime, Call::Checkpoint { rerun: Reruns::Again, .. }) => write.rerun = real.rerun,
        (Rule::ExpiryFromEnd, Call::Complete { .. }) => write.expires = real.expires,
        (Rule::ExpiryNeverShrinks, Call::Complete { retention, .. }) => write.expires = now + retention,
        (Rule::HandOnEndsLease, Call::Renew { lease: 0, .. })
        | (Rule::RenewExtends, Call::Renew { lease: 1.., .. }) => write.lease = real.lease,
        (Rule::RenewNeverShortens, Call::Renew { lease: lease @ 1.., .. }) => write.lease = now + lease,
        (Rule::RenewCounts, Call::Renew { .. }) | (Rule::CheckpointCounts, Call::Checkpoint { .. }) => {
            write.version = real.version;
        }
        _ => {}
    }
}

fn after_resolve(rule: Rule, real: &Row, decided: &mut Decided) {
    if rule == Rule::ResolveRecognised && *decided == (None, Answer::Done) {
        decided.1 = Answer::Lost;
    }
    let Some(write) = &mut decided.0 else { return };
    match rule {
        Rule::ResolveRaises => write.token = real.token,
        Rule::ResolveAttempt => write.attempt = real.attempt,
        Rule::ResolveReruns => write.rerun = real.rerun,
        Rule::ResolveRetention if write.state != RowState::InProgress => write.expires = real.expires,
        Rule::ResolveFailClears if write.state == RowState::Failed => write.journal = real.journal,
        _ => {}
    }
}
