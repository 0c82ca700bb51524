//! Rules of the claim: the rows of the table, and the write that repeats them.

use super::{Mutant, mutant};
use crate::{
    configuration::{NEWER, OTHER, SAME, STRANGER},
    model::Kind::{AtMostOnce, Keyed, Opaque},
    rule::Rule,
};

pub(super) const ALL: &[Mutant] = &[
    mutant("a takeover writes without comparing the row with what it read", &[Rule::TakeCompares]),
    mutant(
        "a takeover writes without comparing, with the token it computed itself",
        &[Rule::TakeClientToken],
    ),
    mutant("a takeover compares operation and token, not that the lease is still over", &[Rule::TakeLease]),
    mutant(
        "a takeover compares operation and token, not that the work may still run again",
        &[Rule::TakeDoubt],
    )
    .on(&[AtMostOnce])
    .only("S1b"),
    mutant("a takeover does not compare the fingerprint", &[Rule::TakePrint])
        .by(&[SAME, OTHER])
        .failures(1)
        .equivalent(
            "an operation never changes its fingerprint, and the write compares the \
             operation: it is the second of two locks",
        ),
    mutant("a claim's read of an unfinished record does not compare the fingerprint", &[Rule::LookPrint])
        .by(&[SAME, OTHER])
        .equivalent("the write compares it: the claim starts again, and again, and never runs"),
    mutant(
        "a claim of an unfinished record does not compare the fingerprint",
        &[Rule::LookPrint, Rule::TakePrint],
    )
    .by(&[SAME, OTHER]),
    mutant(
        "a takeover of what is in doubt, and the mark is passed over",
        &[Rule::TakeDoubt, Rule::OpenNotRepeated],
    )
    .on(&[AtMostOnce]),
    mutant("an expired record is wiped without comparing it with what was read", &[Rule::WipeCompares]),
    mutant("a failed record is wiped before it has expired", &[Rule::WipeExpired]).failures(1).only("S13"),
    mutant("a takeover hands over what its read saw", &[Rule::HandedFromWrite]),
    mutant("a takeover hands over the checkpoint number that its read saw", &[Rule::NumberFromWrite])
        .only("handed"),
    mutant("a replay does not compare the fingerprint", &[Rule::ReplayPrint]).by(&[SAME, OTHER]).only("S10"),
    mutant("a takeover writes its own fingerprint", &[Rule::PrintKept]).by(&[SAME, NEWER]),
    mutant("a fingerprint of an unknown version counts as the same", &[Rule::PrintComparable])
        .by(&[SAME, STRANGER]),
    mutant("a fingerprint of an unknown version is a mismatch", &[Rule::UncomparableIsNoMismatch])
        .by(&[SAME, STRANGER]),
    mutant("a takeover keeps the token", &[Rule::TakeoverToken]).on(&[Keyed]),
    mutant("a retry after failed keeps the token", &[Rule::RetryToken]).failures(1).undisturbed().only("S1"),
    mutant("the operation id is the attempt's", &[Rule::FreshOperation]).on(&[AtMostOnce]),
    mutant("a wiped record keeps its operation id", &[Rule::WipeOperation]),
    mutant("a wiped record keeps its recovery point", &[Rule::WipePoint]).only("S3c"),
    mutant("a wiped record keeps its rerun_until", &[Rule::WipeRerun]).on(&[Opaque]),
    mutant("an attempt's own claim is not recognised", &[Rule::OwnRecognised]),
    mutant("an attempt's own claim is recognised only while its lease runs", &[Rule::OwnRecognisedStale]),
    mutant("a recognised claim does not renew the lease", &[Rule::OwnRenews]).on(&[AtMostOnce]).reconciler(),
    mutant("a recognised claim's renewal does not count in the version", &[Rule::OwnCounts])
        .on(&[AtMostOnce])
        .reconciler()
        .heartbeat(),
    mutant("a takeover drops the recovery point", &[Rule::TakeoverHandsOver]).only("S17"),
    mutant("a retry after failed drops the recovery point", &[Rule::RetryHandsOver])
        .on(&[AtMostOnce])
        .failures(1),
    mutant("a stale record is never taken over", &[Rule::StaleTaken]).only("L1"),
    mutant("what is in doubt is taken over", &[Rule::DoubtNotTaken]).on(&[Opaque]),
    mutant("an app server's clock decides", &[Rule::StoreClock]),
    mutant("select first, then insert", &[Rule::InsertFirst]),
    mutant("the claim rides in the caller's transaction", &[Rule::ClaimCommitted]).on(&[AtMostOnce]),
    mutant("a missing hint lets a claim overwrite", &[Rule::AbsenceProvesNothing]),
    mutant("a hint answers for the record", &[Rule::PresenceIsNoAnswer]),
];
