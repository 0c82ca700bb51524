//! Keys in Postgres: the record of truth.
//!
//! Every call is one statement of its own, at whatever isolation level the database has; takeovers, retries of failed
//! operations, reclaims of expired records and re-issues take two. No connection is held between two calls, and nothing
//! depends on session state, so a pooler in transaction mode may stand in between
//! ([`Settings::unnamed_statements`]). Postgres 14 to 18.
//!
//! Around the keys is what has to be committed together with them. [`PostgresStore::begin`] opens the transaction that ends an
//! operation, [`PostgresStore::step`] one in its middle; both hold the operation's record to their commit, and nothing of them is
//! there without it. What they tell others goes into the [`Outbox`], a [`Relay`] publishes it, and a consumer's [`Inbox`] takes it once.
//!
//! ```no_run
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! use idem_postgres::PostgresStore;
//!
//! let store = PostgresStore::connect("postgres://localhost/shop").await?;
//! store.migrate().await?;
//! store.check().await?;
//! # Ok(()) }
//! ```

// So that this crate's own tests may use what its other tests are made of.
#[cfg(test)]
extern crate self as idem_postgres;

mod call;
mod check;
mod claim;
mod error;
mod inbox;
#[cfg(feature = "jetstream")]
mod jetstream;
mod maintain;
mod message;
mod migrate;
mod outbox;
mod phase;
mod publisher;
mod relay;
mod row;
mod settings;
mod sql;
mod step;
mod store;
mod transaction;

pub use check::{Checked, Warning};
pub use inbox::Inbox;
#[cfg(feature = "jetstream")]
pub use jetstream::JetStream;
pub use message::{MAX_MESSAGE, Message, MessageId};
pub use outbox::{Depth, Outbox, Parked};
pub use phase::Phase;
pub use publisher::{MemoryPublisher, Outgoing, Publisher};
pub use relay::{Relay, Relayed};
pub use settings::Settings;
pub use step::StepTx;
pub use store::PostgresStore;
