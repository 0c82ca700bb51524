//! Rules of the engine, and of the handler that it runs.

use super::{Mutant, mutant};
use crate::{
    configuration::{NEWER, SAME},
    model::Kind::{AtMostOnce, Keyed},
    rule::Rule,
};

pub(super) const ALL: &[Mutant] = &[
    mutant("an unknown claim counts as granted", &[Rule::ClaimAcknowledged]),
    mutant("an unknown mark counts as written", &[Rule::MarkAcknowledged]).on(&[Keyed]),
    mutant("no mark before a call", &[Rule::MarkFirst]).on(&[Keyed]).undisturbed().ticks(2).only("S2"),
    mutant("an open mark counts as a result", &[Rule::MarkIsNoResult]).on(&[Keyed]),
    mutant("an open effect without a key is called again", &[Rule::OpenNotRepeated]).on(&[AtMostOnce]),
    mutant("the next owner passes over an open mark", &[Rule::OpenNotRepeated, Rule::DoubtNotTaken])
        .on(&[AtMostOnce]),
    mutant("a repeated call has no mark of its own", &[Rule::EveryCallMarks]).on(&[Keyed]).heartbeat(),
    mutant("the time to call counts from the mark's answer", &[Rule::MarkCountsFromSent])
        .on(&[Keyed])
        .heartbeat(),
    mutant("no margin before the provider's window ends", &[Rule::Margin]).on(&[Keyed]),
    mutant("no look at the own lease before a call", &[Rule::LeaseBeforeCall]).on(&[AtMostOnce]).reconciler(),
    mutant("the lease counts from the claim's answer", &[Rule::LeaseCountsFromSent])
        .on(&[AtMostOnce])
        .reconciler(),
    mutant("the provider key holds the token", &[Rule::KeyWithoutToken]).on(&[Keyed]).only("S3"),
    mutant("the provider key comes from the request's fingerprint", &[Rule::KeyOfRecord])
        .by(&[SAME, NEWER])
        .on(&[Keyed]),
    mutant("the answer leaves before its commit", &[Rule::AnswerAfterCommit]).by(&[SAME]).only("S7"),
    mutant("an unknown end is told as a failure", &[Rule::UnknownIsNoFailure]).only("S14"),
    mutant("an unknown end is told as a success", &[Rule::UnknownIsNoSuccess]),
    mutant("the loser of a claim claims again", &[Rule::LoserNeverClaims]).only("one"),
    mutant("a claim sent again goes on under whatever fence it gets", &[Rule::ReissueCompares])
        .on(&[AtMostOnce])
        .heartbeat(),
    mutant("release after a recorded result", &[Rule::ReleaseNothingRecorded])
        .on(&[AtMostOnce])
        .failures(1)
        .only("S16"),
    mutant("release after an unknown call", &[Rule::ReleaseNotUnknown]).on(&[AtMostOnce]),
    mutant("a mark is withdrawn under its own number", &[Rule::WithdrawSkips]).on(&[AtMostOnce]).failures(1),
    mutant("the number of an unknown mark is used again", &[Rule::NumberOnce])
        .on(&[Keyed, Keyed])
        .failures(1),
    mutant("release without withdrawing an unknown mark", &[Rule::WithdrawBeforeRelease])
        .on(&[AtMostOnce])
        .failures(1),
    mutant("a result counts as known only once it is committed", &[Rule::ResultFromCall])
        .on(&[AtMostOnce, AtMostOnce])
        .failures(2),
    mutant("calls go on after a hand-on", &[Rule::HandOnIsLast])
        .on(&[AtMostOnce, AtMostOnce])
        .failures(2)
        .reconciler(),
];
