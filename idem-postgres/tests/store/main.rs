//! What is Postgres' own: statements, locks, lost messages, crashes, and the table itself.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's helpers fail like the test itself, and a race needs tasks"
)]

mod completing;
mod crashes;
mod doubts;
mod dropped;
mod lost;
mod pooler;
mod races;
mod rig;
mod table;

use idem_postgres::{PostgresStore, Settings};
use sqlx::PgPool;

/// The store that the rig puts on its database.
fn open(pool: PgPool, settings: Settings) -> PostgresStore {
    PostgresStore::with(pool, settings)
}
