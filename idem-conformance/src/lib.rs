//! One suite that judges every idempotency-key store.

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
    reason = "a walk is test code, and its own constants are valid"
)]
pub mod lockstep;
mod step;
mod suite;

pub use async_trait::async_trait;
pub use fault::{Call, Delayed, Faulty, Held};
pub use harness::Harness;
#[doc(hidden)]
pub use suite::run_alone as __run_alone;
pub use suite::{Case, cases, run_case};
