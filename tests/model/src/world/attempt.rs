//! One request: where its engine and its handler are.

use super::{EFFECTS, Fence, Reply, Seen};
use crate::machine::{Journal, Print};

/// One request of the client: an engine and its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) at: At,
    /// The last statement's outcome is unknown to it.
    pub(crate) unknown: bool,
    /// A reply that is still under way, and when its statement was sent.
    pub(crate) reply: Option<(Reply, u8)>,
    pub(crate) fence: Fence,
    /// The record's fingerprint, as it was handed over.
    pub(crate) print: Print,
    pub(crate) checkpoint: u8,
    pub(crate) journal: Journal,
    /// Its own count of its lease: over from this tick.
    pub(crate) lease: u8,
    /// When its last mark was sent.
    pub(crate) marked: u8,
    /// The effect at hand was marked before.
    pub(crate) again: bool,
    /// Effects that its handler gave up and went past.
    pub(crate) passed: [bool; EFFECTS],
    /// The one renewal that the model gives it has been sent.
    pub(crate) renewed: bool,
    /// The life in which it called out.
    pub(crate) ran: u8,
}

/// What an attempt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// The first statement of a claim: read and judge, or insert.
    Claim,
    /// The second: the write of row 2, 4, 7 or 8.
    Take(Seen),
    Mark(u8),
    Call(u8),
    Note(u8),
    /// Takes a mark back: its effect did not happen. `skip` numbers were used meanwhile.
    Withdraw {
        effect: u8,
        skip: u8,
    },
    Complete,
    Release,
    HandOn,
    Answered(Said),
    Dead,
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Its own end was committed, in this life and with this answer.
    Success { life: u8, response: u8 },
    /// The stored answer.
    Replay { life: u8, response: u8 },
    /// 409: somebody else is at work, or was faster.
    InProgress,
    /// 409: a person decides.
    InDoubt,
    /// 422.
    Mismatch,
    /// The handler failed; nothing happened, and that is recorded.
    Failed,
    /// 503: given up without an end; the same key goes on from there.
    HandedOn,
    /// 503: the outcome is not known.
    Unknown,
    /// 503: the store did not do it.
    Unavailable,
    /// 500: a fault of ours.
    Fault,
}

impl Attempt {
    /// One that has not asked yet.
    pub(crate) fn new() -> Self {
        Self::ended(At::Claim, 0)
    }

    /// One of which nothing but `at` and `ran` matters.
    pub(super) fn ended(at: At, ran: u8) -> Self {
        Self {
            at,
            unknown: false,
            reply: None,
            fence: Fence::default(),
            print: Print { body: 0, version: 0 },
            checkpoint: 0,
            journal: Journal::default(),
            lease: 0,
            marked: 0,
            again: false,
            passed: [false; EFFECTS],
            renewed: false,
            ran,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.at, At::Answered(_) | At::Dead)
    }
}
