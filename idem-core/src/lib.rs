//! The idempotency-key state machine and the seam that every store implements.

mod canonical;
mod checkpoint;
mod claim;
mod error;
mod fingerprint;
mod key;
pub mod policy;
mod response;
pub mod state;
mod store;

pub use canonical::{NotCanonical, canonical_json};
pub use checkpoint::{RecoveryPoint, Rerun};
pub use claim::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Fence, MAX_SPAN, MIN_LEASE, OperationId, Origin,
};
pub use error::{BoxError, Error, ErrorKind, Invalid, StoreError, StoreErrorKind};
pub use fingerprint::{Fingerprint, FingerprintBuilder, Fingerprints, Sameness};
pub use key::{Key, KeyId, Scope};
pub use policy::Policy;
pub use response::StoredResponse;
pub use state::{Command, Record, RerunUntil, State, Transition};
pub use store::{Decision, KeyStore, Maintain, Stuck};
