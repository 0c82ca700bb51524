//! Rules of every later write of an owner.

use super::{Mutant, mutant};
use crate::{
    model::Kind::{AtMostOnce, Keyed, Opaque},
    rule::Rule,
};

pub(super) const ALL: &[Mutant] = &[
    mutant("complete without a fence", &[Rule::FenceComplete]),
    mutant("checkpoint without a fence", &[Rule::FenceCheckpoint]).on(&[AtMostOnce]),
    mutant("release without a fence", &[Rule::FenceRelease]).failures(1),
    mutant("renew without a fence", &[Rule::FenceRenew]).heartbeat(),
    mutant("a fence without the operation", &[Rule::FenceOperation]),
    mutant("a fence without the token", &[Rule::FenceToken]),
    mutant("complete overwrites a completed record", &[Rule::CompletedIsFinal]).only("S8"),
    mutant("complete of a failed record", &[Rule::CompleteNotFailed])
        .failures(1)
        .equivalent("an owner sends one kind of end: nobody who has released completes"),
    mutant("renew revives an ended record", &[Rule::RenewInProgress]).heartbeat(),
    mutant("checkpoint writes to an ended record", &[Rule::CheckpointInProgress])
        .failures(1)
        .equivalent("a checkpoint that comes after an end was sent before it, so that its number is used"),
    mutant("release of a completed record", &[Rule::ReleaseInProgress]).failures(1),
    mutant("release while an effect is open", &[Rule::ReleaseNothingOpen, Rule::WithdrawBeforeRelease])
        .on(&[AtMostOnce])
        .failures(1),
    mutant("the store releases while an effect is open", &[Rule::ReleaseNothingOpen])
        .on(&[AtMostOnce])
        .failures(1)
        .equivalent("the engine withdraws every mark before it releases: it is the second of two locks"),
    mutant("a completed record is anybody's success", &[Rule::DoneIsMine]).only("S6"),
    mutant("checkpoints are not numbered", &[Rule::CheckpointNumbers]).on(&[AtMostOnce, AtMostOnce]),
    mutant("a mark is repeated after its time", &[Rule::AgainInTime]).on(&[Keyed]),
    mutant("the later of two ends wins", &[Rule::EarlierWins]).on(&[Keyed, Keyed]).failures(1),
    mutant("the mark of an effect without a key does not lower rerun_until", &[Rule::NeverLowers])
        .on(&[AtMostOnce]),
    mutant("a result does not raise rerun_until again", &[Rule::AlwaysRaises]).on(&[AtMostOnce]),
    mutant("a result raises rerun_until while another mark is open", &[Rule::KeepNeverRaises])
        .on(&[Keyed, Keyed])
        .failures(1),
    mutant("the retention counts from the claim", &[Rule::ExpiryFromEnd]).only("S5"),
    mutant("an end shortens expires_at", &[Rule::ExpiryNeverShrinks]),
    mutant("a hand-on does not end the lease", &[Rule::HandOnEndsLease]).failures(1),
    mutant("a renewal does not push the lease out", &[Rule::RenewExtends])
        .on(&[AtMostOnce])
        .reconciler()
        .heartbeat(),
    mutant("a renewal may shorten the lease", &[Rule::RenewNeverShortens])
        .on(&[AtMostOnce])
        .heartbeat()
        .reconciler()
        .equivalent("all renewals of one record ask for the same lease, and the store's clock goes forward"),
    mutant("a renewal does not count in the version", &[Rule::RenewCounts])
        .on(&[Opaque])
        .reconciler()
        .heartbeat(),
    mutant("a checkpoint does not count in the version", &[Rule::CheckpointCounts])
        .on(&[AtMostOnce, AtMostOnce])
        .reconciler(),
];
