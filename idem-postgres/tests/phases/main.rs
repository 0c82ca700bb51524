//! Transactions that carry an operation: what is there of them after every way in which they can go wrong.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's helpers fail like the test itself")]

mod commits;
mod fences;
mod given_up;
mod messages;
#[expect(dead_code, reason = "the other tests use the rest of it")]
#[path = "../store/rig.rs"]
mod rig;
mod shop;
mod steps;

use idem_postgres::{PostgresStore, Settings};
use sqlx::PgPool;

/// The store that the rig puts on its database.
fn open(pool: PgPool, settings: Settings) -> PostgresStore {
    PostgresStore::with(pool, settings)
}
