//! The Postgres that tests run against.

use std::{
    env,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use sqlx::postgres::PgConnectOptions;

use crate::{Database, ServerError, container::Container, database, local::Local, programs::Programs};

/// The server that all tests of this process share; started by the first that asks, gone when the process ends.
///
/// Never stop or kill this one: other tests use it. [`Postgres::builder`] makes one that may be.
///
/// # Panics
///
/// Where there is no server, with the command that installs one: a test that cannot run fails.
pub fn postgres() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::builder().find().unwrap_or_else(|error| panic!("{error}")))
}

/// A Postgres server. One that was started here ends, with its data, when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    server: Arc<Server>,
}

#[derive(Debug)]
enum Server {
    Given(Box<PgConnectOptions>),
    Local(Box<Mutex<Local>>),
    Container(Box<Mutex<Container>>),
}

/// How a server of one's own is to run.
///
/// Default: `fsync` off (a `SIGKILL` loses nothing that was handed to the kernel, so only a measurement needs it
/// on), 100 connections, a log that tests can read.
#[derive(Clone, Debug)]
pub struct Builder {
    bin: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

impl Postgres {
    /// A server configured by hand, always a new one.
    pub fn builder() -> Builder {
        let defaults = [("fsync", "off"), ("max_connections", "100")];
        let settings = defaults.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Builder { bin: None, settings: settings.into() }
    }

    /// Finds or starts a server, in the order of the crate's introduction.
    ///
    /// # Panics
    ///
    /// Where there is none, with the command that installs one.
    pub async fn find() -> Self {
        Self::builder().off_runtime(Builder::find).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a fresh, empty database with a name of its own; it is dropped with the value.
    ///
    /// # Panics
    ///
    /// If the server does not create one within 30 seconds.
    pub async fn database(&self) -> Database {
        Database::create(self.options()).await
    }

    /// The address of the server as `host:port`, for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> String {
        let options = self.options();
        format!("{}:{}", options.get_host(), options.get_port())
    }

    /// How to connect to the server's `postgres` database, as its superuser where it was started here.
    pub fn options(&self) -> PgConnectOptions {
        match &*self.server {
            Server::Given(options) => (**options).clone(),
            Server::Local(local) => PgConnectOptions::new_without_pgpass()
                .host("127.0.0.1")
                .port(lock(local).port())
                .username("postgres")
                .database("postgres"),
            Server::Container(container) => lock(container).options(),
        }
    }

    /// The same as a URL, for programs.
    pub fn url(&self) -> String {
        database::url(&self.options())
    }

    /// What the server has logged since it was first started.
    ///
    /// # Panics
    ///
    /// If the server is somebody else's: its log cannot be read from here.
    pub fn log(&self) -> String {
        match &*self.server {
            Server::Given(_) => panic!("{}", ServerError::NotOurs { action: "read the log of" }),
            Server::Local(local) => lock(local).log(),
            Server::Container(container) => lock(container).log(),
        }
    }

    /// Shuts the server down in order: clients are cut off, nothing committed is lost. Done when this returns.
    ///
    /// # Panics
    ///
    /// If the server is somebody else's.
    pub async fn stop(&self) {
        self.act("stop", Server::stop).await;
    }

    /// Sends `SIGKILL` to every process of the server, as a crash of the machine's operating system would look
    /// to its clients. All of them are gone when this returns; [`start`](Self::start) recovers the data.
    ///
    /// # Panics
    ///
    /// If the server is somebody else's.
    pub async fn kill(&self) {
        self.act("kill", Server::kill).await;
    }

    /// Starts a stopped or killed server again, on the same data and the same port. It answers when this returns.
    ///
    /// # Panics
    ///
    /// If it does not start, with its log; if the server is somebody else's.
    pub async fn start(&self) {
        self.act("start", Server::start).await;
    }

    /// [`stop`](Self::stop), then [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// As these do.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    async fn act(&self, action: &'static str, act: fn(&Server) -> Result<(), ServerError>) {
        let server = Arc::clone(&self.server);
        let done = tokio::task::spawn_blocking(move || act(&server)).await;
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("cannot {action} Postgres: {error}"),
            Err(panic) => panic!("cannot {action} Postgres: {panic}"),
        }
    }
}

impl Server {
    fn start(&self) -> Result<(), ServerError> {
        match self {
            Self::Given(_) => Err(ServerError::NotOurs { action: "start" }),
            Self::Local(local) => lock(local).launch(),
            Self::Container(container) => lock(container).launch(),
        }
    }

    fn stop(&self) -> Result<(), ServerError> {
        match self {
            Self::Given(_) => Err(ServerError::NotOurs { action: "stop" }),
            Self::Local(local) => {
                lock(local).stop();
                Ok(())
            }
            Self::Container(container) => lock(container).stop(Duration::from_secs(30)),
        }
    }

    fn kill(&self) -> Result<(), ServerError> {
        match self {
            Self::Given(_) => Err(ServerError::NotOurs { action: "kill" }),
            Self::Local(local) => {
                lock(local).kill();
                Ok(())
            }
            Self::Container(container) => lock(container).stop(Duration::ZERO),
        }
    }
}

impl Builder {
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

    fn find(self) -> Result<Postgres, ServerError> {
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

    async fn off_runtime(
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

impl From<Server> for Postgres {
    fn from(server: Server) -> Self {
        Self { server: Arc::new(server) }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
