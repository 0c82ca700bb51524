//! The decisions that ship, over numbers small enough to count.
//!
//! Every decision is one of [`idem_core::state`]: a row becomes a record, the function runs, and what it writes becomes
//! a row again. There is no second copy of a rule here. The functions are pure, so each thread remembers what they
//! answered.

mod record;

use std::cell::RefCell;

use ahash::HashMap;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Command, Decision, Fence, Fingerprints, Origin, Rerun, StoreError,
    StoreErrorKind, state,
};

pub(crate) use record::{ALWAYS, Journal, Mark, NEVER, OVER, Print, Row, RowState, at};

/// A call of the store, as the decision sees it. Spans are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Claim { attempt: u8, print: Print, accepts: Option<Print>, lease: u8, retention: u8, fresh: u8 },
    Renew { fence: (u8, u8), lease: u8 },
    Checkpoint { fence: (u8, u8), number: u8, journal: Journal, rerun: Reruns },
    Complete { fence: (u8, u8), response: u8, retention: u8 },
    Release { fence: (u8, u8), retention: u8 },
    Resolve { seen: Row, decision: Settled, retention: u8, fresh: u8 },
}

impl Call {
    /// The fence that a write of an owner shows.
    pub(crate) fn fence_mut(&mut self) -> Option<&mut (u8, u8)> {
        match self {
            Self::Renew { fence, .. }
            | Self::Checkpoint { fence, .. }
            | Self::Complete { fence, .. }
            | Self::Release { fence, .. } => Some(fence),
            Self::Claim { .. } | Self::Resolve { .. } => None,
        }
    }
}

/// Until when a new owner may run the work again; `Until` counts ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reruns {
    Always,
    Until(u8),
    Never,
    Again,
    Keep,
}

/// What a reconciler decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Settled {
    Complete(u8),
    Fail,
    Resume { number: u8, journal: Journal },
}

/// How a claim came about, in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum How {
    New,
    Expired,
    Reissued,
    Retried,
    TakenOver,
}

/// What a claim hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Grant {
    pub(crate) how: How,
    pub(crate) fence: (u8, u8),
    pub(crate) print: Print,
    pub(crate) checkpoint: u8,
    pub(crate) journal: Option<Journal>,
}

/// What a decision answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Claimed(Grant),
    Completed(u8),
    InProgress,
    InDoubt,
    Mismatch,
    Done,
    Lost,
    TooLate,
    Invalid,
    Unavailable,
}

/// What is stored in place of the row (`None`: nothing), and what is answered.
pub(crate) type Decided = (Option<Row>, Answer);

/// Asks the shipping function.
pub(crate) fn decide(row: Option<Row>, call: Call, now: u8) -> Decided {
    type Asked = (Option<Row>, Call, u8);
    thread_local!(static ANSWERED: RefCell<HashMap<Asked, Decided>> = RefCell::default());
    let asked = (row, call, now);
    if let Some(answered) = ANSWERED.with_borrow(|answered| answered.get(&asked).copied()) {
        return answered;
    }
    let decided = ask(row, call, now);
    ANSWERED.with_borrow_mut(|answered| answered.insert(asked, decided));
    decided
}

/// Whether a sweep may delete it, by the shipping function.
pub(crate) fn is_expired(row: &Row, now: u8) -> bool {
    row.state != RowState::InProgress && row.record().is_expired(record::time(now))
}

/// Whether it waits for a decision, by the shipping function.
pub(crate) fn is_in_doubt(row: &Row, now: u8) -> bool {
    // Cheap reasons first: a record is built for every state otherwise.
    row.state == RowState::InProgress
        && row.lease <= now
        && row.rerun != ALWAYS
        && row.record().is_in_doubt(record::time(now))
}

fn ask(row: Option<Row>, call: Call, now: u8) -> Decided {
    let (row, now) = (row.map(|row| row.record()), record::time(now));
    let row = row.as_ref();
    let write = |command: Command<'_>| {
        let decided = state::write(row, &command, now);
        let answer = match decided.answer {
            Ok(()) => Answer::Done,
            Err(error) => refused(&error),
        };
        (decided.write.as_ref().map(Row::of), answer)
    };
    match call {
        Call::Claim { attempt, print, accepts, lease, retention, fresh } => {
            let request = request(attempt, print, accepts, lease, retention);
            let decided = state::claim(row, &request, now, record::operation(fresh));
            let answer = match decided.answer {
                Ok(outcome) => claimed(&outcome),
                Err(error) => refused(&error),
            };
            (decided.write.as_ref().map(Row::of), answer)
        }
        Call::Renew { fence, lease } => write(Command::Renew(&claim(fence), record::span(lease))),
        Call::Checkpoint { fence, number, journal, rerun } => {
            let rerun = match rerun {
                Reruns::Always => Rerun::Always,
                Reruns::Until(ticks) => Rerun::Until(record::span(ticks)),
                Reruns::Never => Rerun::Never,
                Reruns::Again => Rerun::Again,
                Reruns::Keep => Rerun::Keep,
            };
            write(Command::Checkpoint(&claim(fence), &record::point(number, journal), rerun))
        }
        Call::Complete { fence, response, retention } => {
            write(Command::Complete(&claim(fence), &record::response(response), record::span(retention)))
        }
        Call::Release { fence, retention } => write(Command::Release(&claim(fence), record::span(retention))),
        Call::Resolve { seen, decision, retention, fresh } => {
            let decision = match decision {
                Settled::Complete(response) => Decision::Complete(record::response(response)),
                Settled::Fail => Decision::Fail,
                Settled::Resume { number, journal } => Decision::Resume(record::point(number, journal)),
            };
            let fresh = record::attempt(fresh);
            write(Command::Resolve(&seen.record(), &decision, record::span(retention), fresh))
        }
    }
}

fn request(attempt: u8, print: Print, accepts: Option<Print>, lease: u8, retention: u8) -> ClaimRequest {
    let mut prints = Fingerprints::new(record::fingerprint(print));
    if let Some(older) = accepts {
        prints = prints.accept(record::fingerprint(older));
    }
    let mut request =
        ClaimRequest::new(record::id(), prints, record::span(lease), record::span(retention)).expect("spans");
    request.attempt = record::attempt(attempt);
    request
}

fn claim((operation, token): (u8, u8)) -> Claim {
    let fence = Fence { operation: record::operation(operation), token: u64::from(token) };
    // A write looks at the id and the fence; the rest is what the owner was handed.
    Claim::new(record::id(), fence, record::fingerprint(Print { body: 0, version: 1 }), Origin::New)
}

fn claimed(outcome: &ClaimOutcome) -> Answer {
    match outcome {
        ClaimOutcome::Claimed(claim) => Answer::Claimed(Grant {
            how: match claim.origin() {
                Origin::New => How::New,
                Origin::Expired => How::Expired,
                Origin::Reissued => How::Reissued,
                Origin::Retried => How::Retried,
                Origin::TakenOver => How::TakenOver,
            },
            fence: (claim.fence().operation.to_bytes()[0], record::small(claim.fence().token)),
            print: record::print(claim.fingerprint()),
            checkpoint: record::small(claim.checkpoint()),
            journal: claim.point().map(record::journal),
        }),
        ClaimOutcome::Completed(response) => Answer::Completed(response.body()[0]),
        ClaimOutcome::InProgress { .. } => Answer::InProgress,
        ClaimOutcome::InDoubt { .. } => Answer::InDoubt,
        ClaimOutcome::Mismatch => Answer::Mismatch,
    }
}

fn refused(error: &StoreError) -> Answer {
    match error.kind() {
        StoreErrorKind::ClaimLost => Answer::Lost,
        StoreErrorKind::TooLate => Answer::TooLate,
        StoreErrorKind::Invalid => Answer::Invalid,
        StoreErrorKind::Unavailable => Answer::Unavailable,
        kind => unreachable!("no decision answers {}", kind.name()),
    }
}
