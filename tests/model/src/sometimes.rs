//! What must happen at least once, or the exploration proves nothing.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! sometimes {
    ($($name:ident: $text:literal,)*) => {
        /// Something that must happen in some run of a whole exploration.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Sometimes { $($name,)* }

        /// Each with its wording.
        pub(crate) const ALL: &[(Sometimes, &str)] = &[$((Sometimes::$name, $text),)*];
    };
}

sometimes! {
    CompletedAfterTakeover: "a further owner completes",
    Replayed: "a duplicate gets the stored answer",
    InProgress: "a duplicate is told to come back",
    Mismatch: "another request under the same key is refused",
    NotComparable: "a fingerprint of an unknown version is refused",
    InDoubt: "a duplicate is told that a person decides",
    Wiped: "an expired record is wiped by a claim",
    Swept: "an expired record is swept",
    SecondLife: "the key has a second life",
    TakeLost: "a claim's write finds the row changed",
    ReissuedLive: "a claim is recognised as its caller's own, lease running",
    ReissuedStale: "a claim is recognised as its caller's own, lease over",
    Retried: "a failed operation is claimed again",
    Released: "a failed handler releases",
    ResumedFromResult: "a further owner goes on from a recorded result",
    LateRefused: "a late statement meets a fence that has moved",
    LateNumbered: "a late checkpoint meets a higher number",
    LateLands: "a late statement still lands",
    TooLate: "a repeated mark comes too late",
    Kept: "a result is recorded while another mark is open",
    LeaseOverBeforeCall: "an owner finds its lease over before it calls",
    ClaimAnsweredLate: "a claim is answered after its lease",
    SlowOwnerCompletes: "a slow owner completes what was in doubt",
    ResolvedComplete: "a reconciler completes",
    ResolvedFail: "a reconciler fails",
    ResolvedResume: "a reconciler resumes",
    ResolveLost: "a resolution finds that the record has moved on",
    SaidUnknown: "a client is told that the outcome is unknown",
    Deduplicated: "a call repeated within the window is recognised by the provider",
}

/// Which of them happened; shared by the threads of a run.
#[derive(Debug, Default)]
pub(crate) struct Reached(AtomicU64);

impl Reached {
    /// Notes one.
    pub(crate) fn note(&self, sometimes: Sometimes) {
        let bit = 1 << sometimes as u64;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Adds what another run reached.
    pub(crate) fn add(&self, other: &Self) {
        self.0.fetch_or(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The wordings of those that did not happen.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let reached = self.0.load(Ordering::Relaxed);
        let missed = |&&(sometimes, _): &&(Sometimes, &str)| reached & (1 << sometimes as u64) == 0;
        ALL.iter().filter(missed).map(|&(_, text)| text).collect()
    }
}
