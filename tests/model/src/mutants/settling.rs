//! Rules of the reconciler and of the sweep.

use super::{Mutant, mutant};
use crate::{
    model::Kind::{AtMostOnce, Opaque},
    rule::Rule,
};

pub(super) const ALL: &[Mutant] = &[
    mutant("resolve compares nothing", &[Rule::ResolveOperation]).on(&[AtMostOnce]).reconciler(),
    mutant("resolve compares the operation only", &[Rule::ResolveToken]).on(&[AtMostOnce]).reconciler(),
    mutant("resolve compares operation and token only", &[Rule::ResolveCheckpoint])
        .on(&[AtMostOnce])
        .reconciler()
        .heartbeat(),
    mutant("resolve compares operation, token and checkpoint only", &[Rule::ResolveVersion])
        .on(&[Opaque])
        .reconciler()
        .heartbeat(),
    mutant("resolve does not judge again whether it is in doubt", &[Rule::ResolveDoubt])
        .on(&[AtMostOnce])
        .heartbeat()
        .reconciler()
        .equivalent(
            "what was in doubt at a version stays so until the version changes, while the \
             store's clock goes forward",
        ),
    mutant("resolve does not recognise its own re-issue", &[Rule::ResolveRecognised])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("resolve keeps the token", &[Rule::ResolveRaises]).on(&[AtMostOnce]).reconciler(),
    mutant("resolve keeps the attempt", &[Rule::ResolveAttempt])
        .on(&[AtMostOnce])
        .heartbeat()
        .reconciler()
        .equivalent(
            "the token has moved, and a claim that is sent again goes on only under the fence \
             that it had",
        ),
    mutant("resolve keeps rerun_until", &[Rule::ResolveReruns]).on(&[AtMostOnce]).reconciler(),
    mutant("resolve counts no retention from its end", &[Rule::ResolveRetention])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("resolve to failed keeps the recovery point", &[Rule::ResolveFailClears])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("resolve resumes without the result that was found", &[Rule::ResolveRecords])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("a reconciler looks up while a call may be under way", &[Rule::ResolveWaits])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("a reconciler fails what holds a result", &[Rule::FailNothingRecorded])
        .on(&[AtMostOnce, AtMostOnce])
        .reconciler(),
    mutant("a sweep takes what is in progress", &[Rule::SweepEnded]),
    mutant("a sweep takes failed records before they expire", &[Rule::SweepExpired]).failures(1).only("S19"),
    mutant("a sweep deletes what it picked earlier", &[Rule::SweepRechecks]),
];
