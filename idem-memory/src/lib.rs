//! Keys in this process's memory: the reference store.
//!
//! Read it first if you write a store: each method is one call of a pure function of [`idem_core::state`] under a lock.
//! It is for tests, examples and single processes that may forget everything on a restart.
//!
//! ```
//! use std::time::Duration;
//! use idem_core::{ClaimOutcome, ClaimRequest, Fingerprint, KeyId, KeyStore, Scope};
//! use idem_memory::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new();
//! let id = KeyId::new(Scope::new("tenant 7")?, "a3f7b9d1".parse()?);
//! let same = Fingerprint::of("charge").body(b"{}").finish();
//! let ask = || ClaimRequest::new(id.clone(), same.clone(), Duration::from_secs(90), Duration::from_hours(24));
//!
//! assert!(matches!(store.claim(&ask()?).await?, ClaimOutcome::Claimed(_)));
//! assert!(matches!(store.claim(&ask()?).await?, ClaimOutcome::InProgress { .. }));
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod shard;
mod store;

pub use clock::ManualClock;
pub use store::{MAX_RECORDS, MemoryStore};
