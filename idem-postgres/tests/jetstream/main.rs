//! Messages that go through a real NATS to a consumer with an inbox.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test's helpers fail like the test itself, and a consumer needs a task"
)]

mod killed;
mod published;
mod rig;
mod twice;
