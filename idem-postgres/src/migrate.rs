//! The tables, made and kept up by the library.

use idem_core::{StoreError, StoreErrorKind};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqlSafeStr as _};

use crate::{
    call::Call,
    error::{Failure, after_sending},
    row::Columns,
    settings::Settings,
    store::PostgresStore,
};

/// The migrations in order; number `n` is at `n - 1`. One that was released is never changed.
const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_keys.sql"),
    include_str!("../migrations/0002_request.sql"),
    include_str!("../migrations/0003_inbox.sql"),
    include_str!("../migrations/0004_outbox.sql"),
];

/// The schema's version that this code needs.
pub(crate) const VERSION: usize = MIGRATIONS.len();

impl PostgresStore {
    /// Creates the tables, or brings them up to date. Safe to call at every start, from any number of processes at once.
    ///
    /// Each migration is one transaction; which were applied is kept in a table beside them, named with the suffix
    /// `_migration`. The schema itself is not created.
    ///
    /// # Errors
    /// `Invalid` if the table is of a newer version than this code, or the user may not create it; `Unavailable`;
    /// `Unknown`, after which calling it again settles it.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let mut connection = self
            .pool
            .acquire()
            .await
            .map_err(|error| Failure::Is(StoreErrorKind::Unavailable, error).into_error("migrate"))?;
        // Whatever happens on the way, a connection with a half-open transaction does not go back.
        connection.close_on_drop();
        migrate(&mut connection, &self.settings).await
    }

    /// The version of the schema that is there; 0 without one.
    pub(crate) async fn schema_version(&self) -> Result<usize, StoreError> {
        const EXISTS: &str = "SELECT to_regclass($1) IS NOT NULL AS is_there";
        let log = self.settings.in_schema(&log_table(&self.settings));
        let call = Call::start(self, "check");
        let rows = call.answer(&EXISTS.into_sql_str(), |query| query.bind(log.clone())).await?;
        let is_there = rows.first().map(|row| Columns::of(row, "check").value("is_there")).transpose()?;
        if is_there != Some(true) {
            return Ok(0);
        }
        let rows = call.answer(&AssertSqlSafe(applied_sql(&log)).into_sql_str(), |query| query).await?;
        let version =
            rows.first().map(|row| Columns::of(row, "check").value::<i32>("version")).transpose()?;
        Ok(version.and_then(|version| usize::try_from(version).ok()).unwrap_or(0))
    }
}

async fn migrate(connection: &mut PgConnection, settings: &Settings) -> Result<(), StoreError> {
    let failed = |error| after_sending(error).into_error("migrate");
    let log = settings.in_schema(&log_table(settings));
    let mut transaction = connection.begin().await.map_err(failed)?;
    // One process at a time for this table; the lock goes with the transaction, so a pooler does not matter. Nor does a
    // statement without a name, while the transaction lasts.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(&log)
        .persistent(false)
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {log} (version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
    );
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *transaction).await.map_err(failed)?;
    let done = applied(&mut transaction, &log).await.map_err(failed)?;
    if done > VERSION {
        return Err(StoreError::new(StoreErrorKind::Invalid, "migrate")
            .because(format!("the table is of version {done}, this code knows {VERSION}: update it")));
    }
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        let index = format!("\"{}_expires_at\"", settings.table);
        let sql = migration
            .replace("{table}", &settings.qualified())
            .replace("{index}", &index)
            .replace("{inbox}", &settings.beside("inbox"))
            .replace("{outbox}", &settings.beside("outbox"));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.map_err(failed)?;
        let note = format!("INSERT INTO {log} (version) VALUES ({})", number + 1);
        sqlx::raw_sql(AssertSqlSafe(note)).execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

async fn applied(connection: &mut PgConnection, log: &str) -> Result<usize, sqlx::Error> {
    let query = sqlx::query(AssertSqlSafe(applied_sql(log))).persistent(false);
    let version: i32 = query.fetch_one(connection).await?.try_get(0)?;
    Ok(usize::try_from(version).unwrap_or(0))
}

fn applied_sql(log: &str) -> String {
    format!("SELECT coalesce(max(version), 0) AS version FROM {log}")
}

fn log_table(settings: &Settings) -> String {
    format!("{}_migration", settings.table)
}
