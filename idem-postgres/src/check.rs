//! Whether this server keeps what it said.

use idem_core::{StoreError, StoreErrorKind};
use sqlx::SqlSafeStr as _;

use crate::{call::Call, migrate::VERSION, row::Columns, store::PostgresStore};

/// What the server says about itself, in this session.
const SERVER: &str = "
SELECT current_setting('fsync') = 'on' AS fsync, current_setting('full_page_writes') = 'on' AS full_page_writes,
  current_setting('synchronous_commit') <> 'off' AS commits, current_setting('server_encoding') = 'UTF8' AS unicode,
  pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
  current_setting('server_version_num')::int AS version";

/// What [`PostgresStore::check`] found: the server may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The server's version, such as 150018.
    pub server_version: i32,
    /// What may surprise.
    pub warnings: Vec<Warning>,
}

/// A setting under which a promise is weaker than it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// `full_page_writes` is off: a crash of the machine can tear pages.
    FullPageWritesOff,
    /// The server is newer than those that this version was tried on.
    UntriedVersion,
    /// The inbox forgets an event that may still be delivered again ([`Settings::inbox_retention`] is shorter than
    /// [`Settings::redelivery_horizon`]): then it takes it for a new one.
    ///
    /// [`Settings::inbox_retention`]: crate::Settings::inbox_retention
    /// [`Settings::redelivery_horizon`]: crate::Settings::redelivery_horizon
    InboxForgetsTooEarly,
}

/// Tried on these.
const OLDEST: i32 = 140_000;
const NEWEST: i32 = 189_999;

impl PostgresStore {
    /// Checks, once at start, that the server keeps what it acknowledges and is the one that decides.
    ///
    /// # Errors
    /// `Invalid` if `fsync` is off, if the effective `synchronous_commit` is off, if the server is a standby or
    /// read-only, older than 14, its encoding not UTF-8, or without this version's table: the message says which.
    /// `Unavailable`, `Unknown`.
    pub async fn check(&self) -> Result<Checked, StoreError> {
        let rows = Call::start(self, "check").answer(&SERVER.into_sql_str(), |query| query).await?;
        let row = rows.first().ok_or(StoreError::new(StoreErrorKind::Corrupt, "check"))?;
        let server = Columns::of(row, "check");
        let is = |name| server.value::<bool>(name);
        let server_version: i32 = server.value("version")?;
        let schema = self.schema_version().await?;

        let refusals = [
            (!is("fsync")?, "fsync is off: acknowledged claims are lost with the machine"),
            (!is("commits")?, "synchronous_commit is off: acknowledged claims are lost in a crash"),
            (is("standby")?, "the server is a standby: only the primary decides"),
            (is("read_only")?, "the session is read-only"),
            (!is("unicode")?, "the database's encoding is not UTF8: it cannot hold every scope"),
            (server_version < OLDEST, "the server is older than Postgres 14"),
            (schema < VERSION, "the table is not there or of an older version: call migrate"),
            (schema > VERSION, "the table is of a newer version: update this code"),
        ];
        if let Some((_, reason)) = refusals.into_iter().find(|(refused, _)| *refused) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "check").because(reason));
        }
        let mut warnings = Vec::new();
        if !is("full_page_writes")? {
            warnings.push(Warning::FullPageWritesOff);
        }
        if server_version > NEWEST {
            warnings.push(Warning::UntriedVersion);
        }
        if self.settings.inbox_retention < self.settings.redelivery_horizon {
            warnings.push(Warning::InboxForgetsTooEarly);
        }
        Ok(Checked { server_version, warnings })
    }
}
