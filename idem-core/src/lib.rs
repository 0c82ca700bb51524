//! idem-core

mod canonical;
mod fingerprint;

pub use canonical::{NotCanonical, canonical_json};
pub use fingerprint::{Fingerprint, FingerprintBuilder, Fingerprints, Sameness};
