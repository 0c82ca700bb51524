//! Relays that fail, stop, race and meet late commits; the messages arrive all the same.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's helpers fail like the test itself, and a race needs tasks"
)]

mod failing;
mod fences;
mod held;
mod order;
mod races;
mod rig;
mod starving;
