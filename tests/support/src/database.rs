//! A database of one's own.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{runtime, time::timeout};
use uuid::Uuid;

use crate::process::on_own_thread;

const SQLX_DEFAULT: (&str, &str) = ("statement-cache-capacity", "100");
const ADMIN_WITHIN: Duration = Duration::from_secs(30);

/// A fresh database, dropped together with this value, whoever is still connected.
#[derive(Debug)]
pub struct Database {
    server: PgConnectOptions,
    name: String,
}

impl Database {
    pub(crate) async fn create(server: PgConnectOptions) -> Self {
        let name = format!("idem_test_{}", Uuid::new_v4().simple());
        // Nobody can be connected to template0, so nothing makes the copy wait or fail.
        let statement = format!("CREATE DATABASE {name} TEMPLATE template0");
        // On a runtime of its own: a test may have stopped the clock of its runtime.
        let admin = server.clone();
        match tokio::task::spawn_blocking(move || administer(&admin, statement)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("cannot create a database for this test: {error}"),
            Err(panic) => panic!("cannot create a database for this test: {panic}"),
        }
        Self { server, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to connect to it.
    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        url(&self.options())
    }

    /// A pool of at most `max_connections` connections to it.
    ///
    /// # Panics
    ///
    /// If the server does not accept one.
    pub async fn pool(&self, max_connections: u32) -> PgPool {
        pool(self.options(), max_connections).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        if let Err(error) = on_own_thread(|| administer(&self.server, statement)) {
            #[expect(
                clippy::print_stderr,
                reason = "a drop cannot fail, and a server that was killed keeps its \
                databases; the line is seen where a test fails anyway"
            )]
            {
                eprintln!("database {} stays behind: {error}", self.name);
            }
        }
    }
}

pub(crate) async fn pool(options: PgConnectOptions, max_connections: u32) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(max_connections).connect_with(options).await;
    pool.unwrap_or_else(|error| panic!("cannot connect to this test's database: {error}"))
}

/// As a URL that `psql` takes too: without the parameter that only sqlx knows, unless it says something.
pub(crate) fn url(options: &PgConnectOptions) -> String {
    let mut url = options.to_url_lossy();
    let all: Vec<_> = url.query_pairs().into_owned().collect();
    let kept = all.iter().filter(|(name, value)| (name.as_str(), value.as_str()) != SQLX_DEFAULT);
    url.query_pairs_mut().clear().extend_pairs(kept);
    url.into()
}

/// Runs one statement on a connection of its own. Blocks.
fn administer(server: &PgConnectOptions, statement: String) -> Result<(), sqlx::Error> {
    let work = async {
        let mut connection = PgConnection::connect_with(server).await?;
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        connection.close().await
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(sqlx::Error::Io)?;
    runtime.block_on(async { timeout(ADMIN_WITHIN, work).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)) })
}
