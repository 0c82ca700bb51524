//! Every rule that can be broken, each with one switch.

use crate::world::Seen;

/// Which statement of a claim asks, or that it is a later write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first statement of a claim.
    Look,
    /// Its second, the write.
    Write(Seen),
    /// Any later statement.
    Later,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident,)*) => {
        /// A rule. What the machine does without it is said in `mutants/`, beside how that is found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Rule { $($rule,)* }

        /// All of them.
        #[cfg(test)]
        pub(crate) const ALL: &[Rule] = &[$(Rule::$rule,)*];
    };
}

rules! {
    // The claim: rows of the table, and the write that repeats them.
    TakeCompares,
    TakeClientToken,
    TakeLease,
    TakeDoubt,
    TakePrint,
    LookPrint,
    WipeCompares,
    WipeExpired,
    HandedFromWrite,
    NumberFromWrite,
    ReplayPrint,
    PrintKept,
    PrintComparable,
    UncomparableIsNoMismatch,
    TakeoverToken,
    RetryToken,
    FreshOperation,
    WipeOperation,
    WipePoint,
    WipeRerun,
    OwnRecognised,
    OwnRecognisedStale,
    OwnRenews,
    OwnCounts,
    TakeoverHandsOver,
    RetryHandsOver,
    StaleTaken,
    DoubtNotTaken,
    StoreClock,
    InsertFirst,
    ClaimCommitted,
    AbsenceProvesNothing,
    PresenceIsNoAnswer,
    // Every later write.
    FenceComplete,
    FenceCheckpoint,
    FenceRelease,
    FenceRenew,
    FenceOperation,
    FenceToken,
    CompletedIsFinal,
    CompleteNotFailed,
    RenewInProgress,
    CheckpointInProgress,
    ReleaseInProgress,
    ReleaseNothingOpen,
    DoneIsMine,
    CheckpointNumbers,
    AgainInTime,
    EarlierWins,
    NeverLowers,
    AlwaysRaises,
    KeepNeverRaises,
    ExpiryFromEnd,
    ExpiryNeverShrinks,
    HandOnEndsLease,
    RenewExtends,
    RenewNeverShortens,
    RenewCounts,
    CheckpointCounts,
    // The reconciler and the sweep.
    ResolveOperation,
    ResolveToken,
    ResolveCheckpoint,
    ResolveVersion,
    ResolveDoubt,
    ResolveRecognised,
    ResolveRaises,
    ResolveAttempt,
    ResolveReruns,
    ResolveRetention,
    ResolveFailClears,
    ResolveRecords,
    ResolveWaits,
    FailNothingRecorded,
    SweepEnded,
    SweepExpired,
    SweepRechecks,
    // The engine.
    ClaimAcknowledged,
    MarkAcknowledged,
    MarkFirst,
    MarkIsNoResult,
    OpenNotRepeated,
    EveryCallMarks,
    MarkCountsFromSent,
    Margin,
    LeaseBeforeCall,
    LeaseCountsFromSent,
    KeyWithoutToken,
    KeyOfRecord,
    AnswerAfterCommit,
    UnknownIsNoFailure,
    UnknownIsNoSuccess,
    LoserNeverClaims,
    ReissueCompares,
    ReleaseNothingRecorded,
    ReleaseNotUnknown,
    WithdrawSkips,
    NumberOnce,
    WithdrawBeforeRelease,
    HandOnIsLast,
    ResultFromCall,
}
