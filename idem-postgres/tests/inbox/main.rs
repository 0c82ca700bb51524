//! Consumers whose deliveries come twice, at once, late, and around a broken connection.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's helpers fail like the test itself, and a race needs tasks"
)]

mod batch;
mod elsewhere;
mod lost;
mod names;
mod once;
mod order;
mod races;
mod rig;
mod sweep;
