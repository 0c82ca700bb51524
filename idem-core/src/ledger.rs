//! What the engine knows of a run while it lasts; it decides what is sent and stored.

use crate::{Completed, Released, StoredResponse, journal::Open};

/// What the work returned: an explicit end, or an answer to be judged.
#[derive(Debug)]
pub enum Ending {
    /// The operation was completed.
    Completed(Completed),
    /// The operation was released.
    Released(Released),
    /// An answer; the policy and its status decide whether it ends the operation.
    Answer(StoredResponse),
    /// An answer that cannot be kept: too large, endless, or broken off. Judged by its status; where it ends the
    /// operation, [`StoredResponse::not_kept`] is stored in its place.
    NotKept {
        /// The status of the answer.
        status: u16,
    },
}

impl From<Completed> for Ending {
    fn from(completed: Completed) -> Self {
        Self::Completed(completed)
    }
}

impl From<Released> for Ending {
    fn from(released: Released) -> Self {
        Self::Released(released)
    }
}

impl From<StoredResponse> for Ending {
    fn from(answer: StoredResponse) -> Self {
        Self::Answer(answer)
    }
}

/// How the work came to its end.
#[derive(Debug)]
pub(crate) enum Returned<E> {
    Answered(StoredResponse),
    NotKept(u16),
    /// With the proof of an explicit end; the ledger knows it already.
    Ended,
    Failed(E),
    Panicked,
    /// The engine dropped it, because the process stops.
    Aborted,
}

impl<E> From<Ending> for Returned<E> {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Completed(_) | Ending::Released(_) => Self::Ended,
            Ending::Answer(answer) => Self::Answered(answer),
            Ending::NotKept { status } => Self::NotKept(status),
        }
    }
}

/// An answer that is about to be, or was, committed.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// What the store gets.
    pub(crate) stored: StoredResponse,
    /// What the caller gets; `None` if only the caller has it.
    pub(crate) sent: Option<StoredResponse>,
}

impl Kept {
    /// The name of this end in metrics.
    pub(crate) fn end(&self) -> &'static str {
        if self.sent.as_ref() == Some(&self.stored) { "completed" } else { "not_kept" }
    }
}

/// Where a run stands.
#[derive(Clone, Debug)]
pub(crate) enum Ledger {
    /// The work runs.
    Running,
    /// A transaction of the store's is open, in which the operation comes on or ends.
    InTransaction,
    /// Its commit is under way.
    Committing,
    /// The transaction that was to end it was rolled back: judged as if the work had failed.
    RolledBack,
    /// A call was refused as invalid: judged as if the work had failed.
    Refused,
    /// An answer is being committed.
    Completing(Kept),
    /// An answer is committed: it is what is sent, whatever comes back up the stack.
    Completed(Kept),
    /// The key is being released.
    Releasing,
    /// The key is released.
    Released,
    /// The key is being handed on: given up without being ended.
    HandingOn,
    /// The key was given up, or left to its lease.
    Left,
    /// Another owner has the key.
    Lost,
    /// The end could not be settled in time.
    Unsettled,
    /// The record cannot be trusted.
    Corrupt,
}

/// What an implicit ending means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Complete,
    Release,
    HandOn,
    Leave,
}

/// What is judged of a run, beside what its work returned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) opaque: bool,
    /// A call, or the answer, was refused, or the end was rolled back.
    pub(crate) refused: bool,
    /// The strictest effect that may have happened and has no result.
    pub(crate) open: Option<Open>,
    /// Something is recorded that a retry must not lose.
    pub(crate) recorded: bool,
}

/// Judges a run whose work did not end the operation itself.
///
/// Explicit ends are believed, implicit ones are judged: what the contract tells a client to retry is no ending of a
/// resumable handler. An opaque handler's answer always is. The proof of an end that the ledger does not know belongs
/// to another operation and counts as a failure.
pub(crate) fn judge<E>(standing: Standing, returned: &Returned<E>) -> Verdict {
    let Standing { opaque, refused, open, recorded } = standing;
    match (open, returned) {
        // The handler's mark is the engine's own.
        _ if opaque => {}
        // In doubt once its lease is over.
        (Some(Open::Never), _) => return Verdict::Leave,
        (Some(Open::Keyed), _) | (None, Returned::Aborted) => return Verdict::HandOn,
        (None, _) => {}
    }
    let status = match returned {
        Returned::Answered(answer) => Some(answer.status()),
        Returned::NotKept(status) => Some(*status),
        Returned::Ended | Returned::Failed(_) | Returned::Panicked | Returned::Aborted => None,
    };
    match status {
        Some(status) if !refused && (opaque || !is_try_again(status)) => Verdict::Complete,
        Some(_) | None if opaque => Verdict::Leave,
        Some(_) | None if recorded => Verdict::HandOn,
        Some(_) | None => Verdict::Release,
    }
}

/// Whether the contract tells a client to try this again: 5xx, 408, 425, 429.
pub(crate) fn is_try_again(status: u16) -> bool {
    status >= 500 || matches!(status, 408 | 425 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Returned<()> {
        Returned::Answered(StoredResponse::new(status, "x").expect("valid"))
    }

    const RESUMABLE: Standing = Standing { opaque: false, refused: false, open: None, recorded: false };
    const OPAQUE: Standing =
        Standing { opaque: true, refused: false, open: Some(Open::Never), recorded: true };

    #[test]
    fn s12_implicit_endings_are_judged_by_policy_and_status() {
        for status in 200..=599 {
            let try_again = [408, 425, 429].contains(&status) || status >= 500;
            let expected = if try_again { Verdict::Release } else { Verdict::Complete };
            for returned in [answer(status), Returned::NotKept(status)] {
                assert_eq!(judge(OPAQUE, &returned), Verdict::Complete, "an opaque answer is always stored");
                assert_eq!(judge(RESUMABLE, &returned), expected, "{status}");
            }
        }
        for returned in [Returned::Failed(()), Returned::Panicked, Returned::Ended] {
            assert_eq!(judge(RESUMABLE, &returned), Verdict::Release);
            assert_eq!(judge(OPAQUE, &returned), Verdict::Leave);
        }
        assert_eq!(judge(RESUMABLE, &Returned::<()>::Aborted), Verdict::HandOn);
    }

    #[test]
    fn s12_a_refused_call_counts_as_a_failure() {
        assert_eq!(judge(Standing { refused: true, ..OPAQUE }, &answer(200)), Verdict::Leave);
        assert_eq!(judge(Standing { refused: true, ..RESUMABLE }, &answer(200)), Verdict::Release);
    }

    #[test]
    fn s16_what_is_recorded_is_handed_on_and_what_is_open_ends_nothing() {
        let recorded = Standing { recorded: true, ..RESUMABLE };
        assert_eq!(judge(recorded, &answer(200)), Verdict::Complete);
        for returned in [answer(503), Returned::Failed(()), Returned::Panicked, Returned::Aborted] {
            assert_eq!(judge(recorded, &returned), Verdict::HandOn);
        }
        let returns =
            || [answer(200), answer(503), Returned::Failed(()), Returned::Panicked, Returned::Aborted];
        for returned in returns() {
            let keyed = Standing { open: Some(Open::Keyed), recorded: true, ..RESUMABLE };
            assert_eq!(judge(keyed, &returned), Verdict::HandOn, "a retry may repeat it");
            let never = Standing { open: Some(Open::Never), recorded: true, ..RESUMABLE };
            assert_eq!(judge(never, &returned), Verdict::Leave, "in doubt once its lease is over");
        }
    }
}
