//! The idempotency-key state machine, the seam that every store implements, and the engine that runs work once.
//!
//! | you want to | look at |
//! |---|---|
//! | run something once per key | [`Engine`], [`Policy`], [`Operation`] |
//! | call the outside world in it | [`Operation::effect`], [`Effect`], [`Fault`] |
//! | say what makes two requests the same | [`Fingerprint`], [`canonical_json`] |
//! | write a store | [`KeyStore`], [`Maintain`], and [`state`], which decides for you |
//! | watch it | [`event`] lists the engine's metrics; [`Sweeper`] keeps the gauges |
//! | settle what is in doubt | [`Reconciler`], or by hand: [`Maintain::stuck`], [`Doubt`], [`Decision`], [`Maintain::resolve`] |
//! | finish what clients abandon | [`StoredRequest`], [`Completer`] |
//!
//! This crate knows no web framework and no database.

mod canonical;
mod checkpoint;
mod claim;
mod completer;
mod doubt;
mod effect;
mod engine;
mod error;
pub mod event;
mod fingerprint;
mod heartbeat;
mod journal;
mod key;
mod ledger;
mod operation;
pub mod policy;
mod provider_key;
mod reconcile;
mod request;
mod response;
mod run;
mod settle;
pub mod state;
mod store;
mod sweep;
pub mod transaction;
mod turns;

pub use canonical::{NotCanonical, canonical_json};
pub use checkpoint::{RecoveryPoint, Rerun};
pub use claim::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Fence, MAX_SPAN, MIN_LEASE, OperationId, Origin,
};
pub use completer::{COMPLETE_AT_ONCE, COMPLETE_BATCH, COMPLETE_EVERY, COMPLETE_GRACE, Completer, Handler};
pub use doubt::Doubt;
pub use effect::{Effect, Fault};
pub use engine::{Answer, Engine, KeepHeaders, MAX_RUNNING, Prepared, RunError};
pub use error::{BoxError, Error, ErrorKind, Invalid, StoreError, StoreErrorKind};
pub use fingerprint::{Fingerprint, FingerprintBuilder, Fingerprints, Sameness};
pub use journal::{MAX_EFFECTS, MAX_RESULT};
pub use key::{Key, KeyId, Scope};
pub use ledger::Ending;
pub use operation::{Completed, Operation, Released};
pub use policy::Policy;
pub use provider_key::ProviderKey;
pub use reconcile::{Case, Finding, RECONCILE_BATCH, RECONCILE_EVERY, Reconciler, Report};
pub use request::StoredRequest;
pub use response::StoredResponse;
pub use state::{Command, Record, RerunUntil, State, Transition};
pub use store::{Decision, KeyStore, Maintain, Stuck};
pub use sweep::{SWEEP_BATCH, SWEEP_EVERY, Sweeper};
