//! Everything a scenario plays in: a gateway, a server over TCP, and a database that can fail.

use std::{future, net::SocketAddr, time::Duration};

use idem::BoxError;
use idem_test_support::Postgres;
use sqlx::{Connection as _, PgConnection};
use tokio::{process::Command, sync::oneshot, task::JoinSet};

use super::{
    process::ServerProcess,
    provider::Provider,
    server::{self, Setup},
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A gateway, and a server that serves until this is dropped.
pub(crate) struct World {
    pub(crate) provider: Provider,
    pub(crate) server: SocketAddr,
    pub(crate) database: Option<Database>,
    _server: JoinSet<Result<(), BoxError>>,
}

/// The database behind a server, and what may be done to it.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) outage: Outage,
    /// The command that runs a server of this setup in a process of its own.
    pub(crate) command: fn(&Setup) -> Result<Command, BoxError>,
}

/// How the database fails.
pub(crate) enum Outage {
    /// It is ours: it is stopped and started again.
    Restart(Postgres),
    /// It is somebody else's: our own connections are terminated.
    Terminate,
}

impl World {
    /// A server that keeps its keys in memory, or in this database.
    pub(crate) async fn start(database: Option<Database>) -> Result<Self, BoxError> {
        let provider = Provider::open().await?;
        let setup = Setup {
            store: database.as_ref().map(|database| database.url.clone()),
            gateway: provider.address,
            listen: LOOPBACK,
            lease: Duration::from_secs(30),
        };
        let (ready, address) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let tell = |address| _ = ready.send(address);
        tasks.spawn(server::serve(setup, tell, future::pending()));
        let server = tokio::select! {
            address = address => address?,
            Some(ended) = tasks.join_next() => return Err(ended?.err().unwrap_or("the server ended".into())),
        };
        Ok(Self { provider, server, database, _server: tasks })
    }

    /// The database.
    ///
    /// # Errors
    /// If the keys are in memory.
    pub(crate) fn database(&self) -> Result<&Database, BoxError> {
        Ok(self.database.as_ref().ok_or("this scenario needs a database")?)
    }

    /// Another server over the same database and gateway, in a process of its own and with a short lease.
    pub(crate) async fn server_process(&self) -> Result<ServerProcess, BoxError> {
        let database = self.database()?;
        let setup = Setup {
            store: Some(database.url.clone()),
            gateway: self.provider.address,
            listen: LOOPBACK,
            lease: Duration::from_millis(1500),
        };
        ServerProcess::start((database.command)(&setup)?).await
    }
}

impl Database {
    /// Fails and comes back; every connection of a server is broken.
    pub(crate) async fn fail(&self) -> Result<&'static str, BoxError> {
        match &self.outage {
            Outage::Restart(postgres) => {
                postgres.restart().await;
                Ok("Postgres restarted")
            }
            Outage::Terminate => {
                let mut connection = PgConnection::connect(&self.url).await?;
                let terminated: i64 = sqlx::query_scalar(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = $1",
                )
                .bind(server::APPLICATION)
                .fetch_one(&mut connection)
                .await?;
                connection.close().await?;
                if terminated == 0 {
                    return Err("the server had no connection to terminate".into());
                }
                Ok("our connections terminated")
            }
        }
    }
}
