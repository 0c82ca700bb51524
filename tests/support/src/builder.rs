//! How servers are found and started.

use std::{env, path::PathBuf, str::FromStr, sync::Mutex};

use sqlx::postgres::PgConnectOptions;

use crate::{
    Postgres, ServerError, container::Container, local::Local, postgres::Server, programs::Programs,
};

/// How a server of one's own is to run.
///
/// Default: `fsync` off (a `SIGKILL` loses nothing that was handed to the kernel, so only a measurement needs it
/// on), 100 connections, a log that tests can read.
#[derive(Clone, Debug)]
pub struct Builder {
    bin: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let defaults = [("fsync", "off"), ("max_connections", "100")];
        let settings = defaults.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { bin: None, settings: settings.into() }
    }

    /// Sets one server parameter, as `-c name=value` does. Of two for the same name the later wins.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Uses the programs in this folder instead of looking for some.
    #[must_use]
    pub fn bin(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bin = Some(folder.into());
        self
    }

    /// Starts a new server, never the one behind `IDEM_TEST_POSTGRES_URL`. It answers when this returns.
    ///
    /// # Panics
    ///
    /// If it cannot be started, with the reason and what to install.
    pub async fn start(self) -> Postgres {
        self.off_runtime(Builder::own).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The server given by URL, else one of our own.
    pub(crate) fn find(self) -> Result<Postgres, ServerError> {
        env::var("IDEM_TEST_POSTGRES_URL").map_or_else(|_| self.own(), |url| given(&url))
    }

    /// By programs, else by a container.
    fn own(self) -> Result<Postgres, ServerError> {
        let only = Way::only()?;
        let mut tried = Vec::new();
        if only != Some(Way::Docker) {
            match Programs::find(self.bin) {
                // Programs that are there and do not run are a fault to see, not a reason to try something else.
                Ok(programs) => {
                    let local = Local::start(programs, self.settings)?;
                    return Ok(Server::Local(Box::new(Mutex::new(local))).into());
                }
                Err(error) => tried.push(error.to_string()),
            }
        }
        if only != Some(Way::Programs) {
            match Container::start(&self.settings) {
                Ok(container) => return Ok(Server::Container(Box::new(Mutex::new(container))).into()),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(ServerError::NoServer { tried: tried.join("; ") })
    }

    /// Runs what blocks where it may.
    pub(crate) async fn off_runtime(
        self,
        work: fn(Self) -> Result<Postgres, ServerError>,
    ) -> Result<Postgres, ServerError> {
        let done = tokio::task::spawn_blocking(move || work(self)).await;
        done.unwrap_or_else(|panic| panic!("starting Postgres: {panic}"))
    }
}

/// The ways of starting a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Programs,
    Docker,
}

impl Way {
    /// The only one allowed, by `IDEM_TEST_SERVERS`.
    fn only() -> Result<Option<Self>, ServerError> {
        match env::var("IDEM_TEST_SERVERS").as_deref() {
            Err(_) | Ok("") => Ok(None),
            Ok("programs") => Ok(Some(Self::Programs)),
            Ok("docker") => Ok(Some(Self::Docker)),
            Ok(seen) => Err(ServerError::Servers { seen: seen.to_owned() }),
        }
    }
}

fn given(url: &str) -> Result<Postgres, ServerError> {
    let options = PgConnectOptions::from_str(url);
    let options = options.map_err(|error| ServerError::Url { reason: error.to_string() })?;
    if options.get_socket().is_some() {
        return Err(ServerError::Url { reason: "tests need a host and a port, not a socket".to_owned() });
    }
    Ok(Server::Given(Box::new(options)).into())
}
