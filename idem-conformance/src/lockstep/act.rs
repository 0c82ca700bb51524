//! What a walk does next.

use std::time::Duration;

use idem_core::{ClaimOutcome, Origin};

use crate::step::{Reply, Step};

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// One call about one key.
    Step(Step),
    Sweep(u32),
    Stuck(u32),
    Elapse(Duration),
}

impl Act {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Step(Step::Claim(_)) => "claim",
            Self::Step(Step::Renew(..)) => "renew",
            Self::Step(Step::Checkpoint(..)) => "checkpoint",
            Self::Step(Step::Complete(..)) => "complete",
            Self::Step(Step::Release(..)) => "release",
            Self::Step(Step::Resolve(..)) => "resolve",
            Self::Step(Step::Sweep(_)) | Self::Sweep(_) => "sweep",
            Self::Stuck(_) => "stuck",
            Self::Elapse(_) => "elapse",
        }
    }
}

/// An answer in a word or two; `wrote` says whether the record changed.
pub(super) fn word(reply: &Reply, wrote: bool) -> &'static str {
    match reply {
        Reply::Claim(Ok(ClaimOutcome::Claimed(claim))) => match claim.origin() {
            Origin::New => "new",
            Origin::Expired => "expired",
            Origin::Reissued => "reissued",
            Origin::Retried => "retried",
            Origin::TakenOver => "taken over",
        },
        Reply::Claim(Ok(ClaimOutcome::Completed(_))) => "completed",
        Reply::Claim(Ok(ClaimOutcome::InProgress { .. })) => "in progress",
        Reply::Claim(Ok(ClaimOutcome::InDoubt { .. })) => "in doubt",
        Reply::Claim(Ok(ClaimOutcome::Mismatch)) => "mismatch",
        Reply::Write(Ok(())) if wrote => "written",
        Reply::Write(Ok(())) | Reply::Swept(Ok(_)) => "ok",
        Reply::Claim(Err(kind)) | Reply::Write(Err(kind)) | Reply::Swept(Err(kind)) => kind.name(),
    }
}
