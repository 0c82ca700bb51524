//! Servers on demand and a fault proxy, for this workspace's tests. Never published.
//!
//! * [`postgres()`]: the Postgres that all tests of a process share. It is found in this order: the URL in
//!   `IDEM_TEST_POSTGRES_URL`; server programs on this machine, run on a throw-away data folder; a container.
//!   Where none of them works the test **fails**, with the command that installs one. Nothing is ever skipped.
//! * [`Postgres::builder`]: a server of one's own, to be configured, stopped, killed and started again.
//! * [`Postgres::database`]: a fresh, uniquely named database per test.
//! * [`nats()`] and [`Nats`]: the same for a NATS server with `JetStream`, by URL or by program.
//! * [`Proxy`]: a TCP proxy that reads Postgres' messages, so that a test can lose exactly the answer of one
//!   statement, or let it arrive long after its sender is gone.
//!
//! ```no_run
//! use idem_test_support::{Fault, Proxy, contains, postgres};
//!
//! # async fn test() -> Result<(), sqlx::Error> {
//! let database = postgres().database().await;
//! let proxy = Proxy::to(postgres().addr()).await;
//! let pool = proxy.pool(&database, 2).await;
//!
//! let lost = proxy.next(contains("INSERT INTO"), Fault::LoseReply);
//! sqlx::query("INSERT INTO charge VALUES (1)").execute(&pool).await.unwrap_err();
//! lost.struck().await; // the row is there, and nobody was told
//! # Ok(())
//! # }
//! ```
//!
//! | environment | means |
//! |---|---|
//! | `IDEM_TEST_POSTGRES_URL` | use this server; its user must be allowed to create databases |
//! | `IDEM_PG_BIN` | the folder of the server programs (`postgres`, `initdb`) |
//! | `IDEM_TEST_POSTGRES_IMAGE` | the image to run where there are no programs, default `postgres:17` |
//! | `IDEM_TEST_NATS_URL` | use this NATS server; it must have `JetStream` |
//! | `IDEM_TEST_NATS_PROGRAM` | this `nats-server` and no other |
//! | `IDEM_TEST_SERVERS` | `programs` or `docker`: start a Postgres in this way only, the other is hidden |

mod builder;
mod connection;
mod container;
mod database;
mod error;
mod frames;
mod local;
mod nats;
mod plan;
mod postgres;
mod process;
mod programs;
mod proxy;
mod session;
mod watchdog;

pub use builder::Builder;
pub use database::Database;
pub use error::ServerError;
pub use nats::{Nats, nats};
pub use plan::{Fault, Strike, contains};
pub use postgres::{Postgres, postgres};
pub use proxy::Proxy;
