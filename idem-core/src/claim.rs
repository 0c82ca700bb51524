//! Asking for a key, having it, and the store's whole answer.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use crate::{Fingerprint, Fingerprints, Invalid, KeyId, RecoveryPoint, StoredRequest, StoredResponse};

/// The longest lease or retention, ten years: far above any use, far below what overflows a store's clock.
pub const MAX_SPAN: Duration = Duration::from_hours(10 * 365 * 24);

/// The shortest lease that a store accepts, one millisecond.
pub const MIN_LEASE: Duration = Duration::from_millis(1);

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh one, 122 random bits.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            /// From a store's column.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// For a store's column.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

random_id! {
    /// Names one call of `claim` over its re-issues, so that a claim whose reply was lost is recognised.
    AttemptId
}
random_id! {
    /// Names one life of a record: drawn by the store in the statement that creates or wipes it, kept over takeovers
    /// and retries, never used again.
    OperationId
}

/// What every write after the claim shows: which operation, and which of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The operation.
    pub operation: OperationId,
    /// Counts the owners of the operation, from 1.
    pub token: u64,
}

/// A request for a key.
///
/// Not `Clone`: its attempt id stands for one caller, and two callers with one id would both be told "yours".
/// To send it again after a lost reply, pass the same value again.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// The key.
    pub id: KeyId,
    /// Names this caller over its re-issues.
    pub attempt: AttemptId,
    /// What makes two requests the same, in every version that this process can compute.
    pub fingerprints: Fingerprints,
    /// How long the claim holds unrenewed: 1 ms to [`MAX_SPAN`].
    pub lease: Duration,
    /// How long the ended record is kept, counted from its end: at most [`MAX_SPAN`].
    pub retention: Duration,
    /// What is asked for, where it is to be stored; a new operation keeps it, and a further owner's is not looked at.
    pub request: Option<StoredRequest>,
}

impl ClaimRequest {
    /// A request with a fresh attempt id.
    ///
    /// # Errors
    /// [`Invalid`] if the lease is below [`MIN_LEASE`] or a span is above [`MAX_SPAN`]. A zero never means "no limit".
    pub fn new(
        id: KeyId,
        fingerprints: Fingerprints,
        lease: Duration,
        retention: Duration,
    ) -> Result<Self, Invalid> {
        if !(MIN_LEASE..=MAX_SPAN).contains(&lease) {
            return Err(Invalid::new("lease", "1 ms to 10 years, in ms").seen(lease.as_millis()));
        }
        if retention > MAX_SPAN {
            return Err(Invalid::new("retention", "at most 10 years, in ms").seen(retention.as_millis()));
        }
        Ok(Self { id, attempt: AttemptId::random(), fingerprints, lease, retention, request: None })
    }

    /// With what is asked for, so that a [`Completer`](crate::Completer) can finish what its client abandons.
    #[must_use]
    pub fn with_request(mut self, request: StoredRequest) -> Self {
        self.request = Some(request);
        self
    }

    /// The same request by a new caller: a fresh attempt id, for asking again after an answer.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            id: self.id.clone(),
            attempt: AttemptId::random(),
            fingerprints: self.fingerprints.clone(),
            lease: self.lease,
            retention: self.retention,
            request: self.request.clone(),
        }
    }
}

/// How a claim came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// There was no record.
    New,
    /// The record had outlived its retention and was wiped.
    Expired,
    /// This caller already had it; an earlier reply was lost.
    Reissued,
    /// The record was `failed`.
    Retried,
    /// The owner's lease was over.
    TakenOver,
}

/// Proof of holding a key; spent by `complete` or `release`.
#[derive(Debug)]
#[must_use = "a claim holds its key until it is ended or its lease is over"]
pub struct Claim {
    id: KeyId,
    fence: Fence,
    fingerprint: Fingerprint,
    origin: Origin,
    checkpoint: u64,
    point: Option<RecoveryPoint>,
}

impl Claim {
    /// For stores: the claim that this fence proves, with the fingerprint *of the record*.
    pub fn new(id: KeyId, fence: Fence, fingerprint: Fingerprint, origin: Origin) -> Self {
        Self { id, fence, fingerprint, origin, checkpoint: 0, point: None }
    }

    /// For stores: the number of the operation's last checkpoint, and the recovery point if there is one.
    pub fn resumed_at(mut self, checkpoint: u64, point: Option<RecoveryPoint>) -> Self {
        self.checkpoint = checkpoint;
        self.point = point;
        self
    }

    /// Whose key, and which.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// What every later write shows.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The record's fingerprint, which may be of an older version than this process computes first.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// How the claim came about.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The number of the operation's last checkpoint, over all its owners; 0 before the first.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Where an earlier owner came to.
    pub fn point(&self) -> Option<&RecoveryPoint> {
        self.point.as_ref()
    }
}

/// The store's whole answer to "may I run this?".
///
/// Exhaustive: a caller that does not look at an outcome must not compile.
///
/// ```compile_fail,E0004
/// # use idem_core::ClaimOutcome;
/// fn may_run(outcome: &ClaimOutcome) -> bool {
///     match outcome {
///         ClaimOutcome::Claimed(_) => true,
///         ClaimOutcome::Completed(_) | ClaimOutcome::InProgress { .. } | ClaimOutcome::Mismatch => false,
///         // `InDoubt` was not looked at
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "only `Claimed` may run the work"]
pub enum ClaimOutcome {
    /// Run the work: the key is yours.
    Claimed(Claim),
    /// Answer with this; the work was done.
    Completed(StoredResponse),
    /// Somebody is at work; ask again after what is left of the lease.
    InProgress {
        /// What is left of the lease, by the store's clock; above zero.
        retry_after: Duration,
    },
    /// An effect may have happened and may not be repeated: a person or a reconciler decides.
    InDoubt {
        /// Since when, by the store's clock.
        since: SystemTime,
    },
    /// The key stands for another request.
    Mismatch,
}
