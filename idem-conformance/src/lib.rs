//! One suite that judges every idempotency-key store.
//!
//! You wrote a store: the two traits [`KeyStore`](idem_core::KeyStore) and [`Maintain`](idem_core::Maintain) over some
//! database. This crate says whether money can be trusted to it. Write a [`Harness`], which starts a fresh store and
//! lets time pass for it, and name it in [`suite!`]: every [`Case`] becomes a `#[test]`.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use idem_conformance::{Harness, async_trait};
//! use idem_core::Maintain;
//! use idem_memory::{ManualClock, MemoryStore};
//!
//! struct Memory { clock: ManualClock, store: MemoryStore }
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     async fn start() -> Self {
//!         let clock = ManualClock::new();
//!         Self { store: MemoryStore::with_clock(clock.clone()), clock }
//!     }
//!     fn store(&self) -> Arc<dyn Maintain> { Arc::new(self.store.clone()) }
//!     async fn second(&self) -> Arc<dyn Maintain> { Arc::new(self.store.clone()) }
//!     async fn elapse(&self, by: Duration) { self.clock.advance(by) }
//! }
//!
//! idem_conformance::suite!(Memory);
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! # runtime.block_on(idem_conformance::run_case::<Memory>("lease_takeover_has_one_winner"));
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! A store on a server has no clock to move. There `elapse` moves every stored time into the past with one `UPDATE`:
//! the lease, the time to run again, the expiry, and when it was created, locked and ended.
//!
//! # How it judges
//!
//! Cases do not repeat the rules. Every call's answer and the whole record that it leaves, read over another
//! connection, are compared with what the pure functions of [`idem_core::state`] make of the record before. Calls that
//! are raced have to be explained by *some* order of them. A time must lie between two readings of the store's clock,
//! one before the call and one after; nobody asks this process what time it is, and nothing sleeps.
//!
//! A case that fails names itself, its promise and what was seen:
//!
//! ```text
//! lease_takeover_has_one_winner: of many callers that meet a stale record exactly one takes it over
//!   so many were told that the key is theirs: [Claim { … }, Claim { … }]
//! ```
//!
//! Two checks go further than cases can; each is one more `#[test]` of one line. `lockstep::run::<Memory>(100, 60)`
//! ([`lockstep::run`]) walks at random, compares call by call with the state functions, and cuts the walk short where they
//! part. `linear::run::<Memory>(200)` ([`linear::run`]) lets a few callers loose on one key and looks for an order of
//! their calls that explains what each was told.
//!
//! [`cases`] lists the cases; `CONTRACT.md` at the root of the repository is made from that list. [`Faulty`] loses, delays and
//! fails the calls of any store, for tests of what stands on one.

#[expect(
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a case fails by panicking, whatever it met instead of the one answer it needs"
)]
mod bench;
#[expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a case fails by panicking, whatever it met instead of the one answer it needs"
)]
mod cases;
mod fault;
mod harness;
mod judge;
#[expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a history is test code, and its own constants are valid"
)]
pub mod linear;
#[expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a walk is test code, and its own constants are valid"
)]
pub mod lockstep;
#[expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a case fails by panicking, whatever it met instead of the one answer it needs"
)]
pub mod parts;
mod seed;
mod step;
mod suite;
mod tally;

pub use async_trait::async_trait;
pub use fault::{Call, Delayed, Faulty, Held};
pub use harness::Harness;
#[doc(hidden)]
pub use suite::run_alone as __run_alone;
pub use suite::{Case, cases, run_case};
pub use tally::Tally;
