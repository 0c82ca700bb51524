//! Whether this server keeps what it said.

use idem_core::{StoreError, StoreErrorKind};
use sqlx::Row as _;

use crate::{
    error::{after_sending, before_sending},
    migrate::VERSION,
    store::PostgresStore,
};

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
}

/// Tried on these.
const OLDEST: i32 = 140_000;
const NEWEST: i32 = 189_999;

impl PostgresStore {
    /// Checks, once at start, that the server keeps what it acknowledges and is the one that decides.
    ///
    /// # Errors
    /// `Invalid` if `fsync` is off, if the effective `synchronous_commit` is off, if the server is a standby or
    /// read-only, older than 14, or without this version's table: the message says which. `Unavailable`, `Unknown`.
    pub async fn check(&self) -> Result<Checked, StoreError> {
        let failed = |error| after_sending(error).into_error("check");
        let mut connection = self.pool.acquire().await.map_err(|error| before_sending("check", error))?;
        let row = sqlx::query(
            "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
                    current_setting('synchronous_commit'), pg_is_in_recovery(),
                    current_setting('transaction_read_only') = 'on', current_setting('server_version_num')::int",
        )
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
        drop(connection);
        let (fsync, full_pages): (bool, bool) =
            (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        let commit: String = row.try_get(2).map_err(failed)?;
        let (standby, read_only): (bool, bool) =
            (row.try_get(3).map_err(failed)?, row.try_get(4).map_err(failed)?);
        let server_version: i32 = row.try_get(5).map_err(failed)?;
        let schema = self.schema_version().await?;

        let refusals = [
            (!fsync, "fsync is off: acknowledged claims are lost with the machine"),
            (commit == "off", "synchronous_commit is off: acknowledged claims are lost in a crash"),
            (standby, "the server is a standby: only the primary decides"),
            (read_only, "the session is read-only"),
            (server_version < OLDEST, "the server is older than Postgres 14"),
            (schema < VERSION, "the table is not there or of an older version: call migrate"),
            (schema > VERSION, "the table is of a newer version: update this code"),
        ];
        if let Some((_, reason)) = refusals.into_iter().find(|(refused, _)| *refused) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "check").because(reason));
        }
        let mut warnings = Vec::new();
        if !full_pages {
            warnings.push(Warning::FullPageWritesOff);
        }
        if server_version > NEWEST {
            warnings.push(Warning::UntriedVersion);
        }
        Ok(Checked { server_version, warnings })
    }
}
