//! The layer as its clients see it, over the reference store with faults on demand.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::future_not_send,
    reason = "a test fails by panicking, whatever it met instead of what it needs; each runs on one thread"
)]

mod answers;
mod bench;
mod bodies;
mod completing;
mod effects;
mod hangup;
mod keys;
mod ledger;
mod readiness;
mod same;
mod stored;
mod telemetry;
mod wire;
mod wiring;
