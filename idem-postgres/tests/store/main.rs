//! What is Postgres' own: statements, locks, lost messages, crashes, and the table itself.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's helpers fail like the test itself, and a race needs tasks"
)]

mod crashes;
mod doubts;
mod dropped;
mod locks;
mod lost;
mod pooler;
mod races;
mod rig;

mod table;
