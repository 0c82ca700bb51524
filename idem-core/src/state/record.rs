//! What a store keeps of one key.

use std::time::SystemTime;

use crate::{
    AttemptId, Claim, Fence, Fingerprint, KeyId, OperationId, Origin, RecoveryPoint, StoredRequest,
    StoredResponse,
};

/// Everything a store keeps of one key.
///
/// Exhaustive: a store that drops a new field must not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose key, and which.
    pub id: KeyId,
    /// This life of the record.
    pub operation: OperationId,
    /// The caller that claimed it last.
    pub attempt: AttemptId,
    /// Counts the owners of the operation, from 1.
    pub token: u64,
    /// What makes a request the same as the first.
    pub fingerprint: Fingerprint,
    /// Where it stands.
    pub state: State,
    /// One more with every write of the record, renewals included.
    pub version: u64,
    /// The number of the last checkpoint of this operation, over all its owners; 0 before the first.
    pub checkpoint: u64,
    /// When the last owner claimed it.
    pub locked_at: SystemTime,
    /// When the lease ends; it is over at that very instant.
    pub lease_until: SystemTime,
    /// Until when a new owner may run the work again.
    pub rerun_until: RerunUntil,
    /// Where the operation has come to.
    pub point: Option<RecoveryPoint>,
    /// What the operation's first claim asked for, where that was to be stored; `None` once it is completed.
    pub request: Option<StoredRequest>,
    /// When this operation was first claimed.
    pub created_at: SystemTime,
    /// When an ended record may be forgotten; it is expired at that very instant.
    pub expires_at: SystemTime,
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody works on it, or did until the lease was over.
    InProgress,
    /// The answer is final.
    Completed {
        /// What every retry gets.
        response: StoredResponse,
        /// When it ended.
        ended_at: SystemTime,
    },
    /// Nothing is open and nothing is recorded: the next claim runs.
    Failed {
        /// When it ended.
        ended_at: SystemTime,
    },
}

impl State {
    /// The name in SQL, logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
        }
    }

    /// When it ended; `None` exactly while it is in progress.
    pub const fn ended_at(&self) -> Option<SystemTime> {
        match self {
            Self::InProgress => None,
            Self::Completed { ended_at, .. } | Self::Failed { ended_at } => Some(*ended_at),
        }
    }
}

/// Until when a new owner may run the work again; ordered, `Never` first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RerunUntil {
    /// Never: an effect may have happened and carries no key.
    Never,
    /// Before this time.
    At(SystemTime),
    /// Always: no effect is open.
    Always,
}

impl RerunUntil {
    /// Whether a new owner may run the work at `now`.
    pub fn allows(self, now: SystemTime) -> bool {
        self > Self::At(now)
    }
}

impl Record {
    /// The current fence.
    pub const fn fence(&self) -> Fence {
        Fence { operation: self.operation, token: self.token }
    }

    /// Whether it is in progress past its lease.
    pub fn is_stuck(&self, now: SystemTime) -> bool {
        matches!(self.state, State::InProgress) && now >= self.lease_until
    }

    /// Whether it is stuck and may not be run again.
    pub fn is_in_doubt(&self, now: SystemTime) -> bool {
        self.is_stuck(now) && !self.rerun_until.allows(now)
    }

    /// Whether it has ended and outlived its retention, so that a sweep may delete it and a claim wipes it.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.state.ended_at().is_some() && now >= self.expires_at
    }

    /// Since when it is in doubt, if it is: the later of the lease's end and the end of the time to run again.
    pub fn in_doubt_since(&self) -> SystemTime {
        match self.rerun_until {
            RerunUntil::At(end) => end.max(self.lease_until),
            RerunUntil::Never | RerunUntil::Always => self.lease_until,
        }
    }

    pub(super) fn claim(&self, origin: Origin) -> Claim {
        Claim::new(self.id.clone(), self.fence(), self.fingerprint, origin)
            .resumed_at(self.checkpoint, self.point.clone())
    }
}
