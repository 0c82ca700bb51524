//! The Postgres that tests run against.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use sqlx::postgres::PgConnectOptions;

use crate::{Builder, Database, ServerError, container::Container, database, local::Local};

/// The server that all tests of this process share; started by the first that asks, gone when the process ends.
///
/// Never stop or kill this one: other tests use it. [`Postgres::builder`] makes one that may be.
///
/// # Panics
///
/// Where there is no server, with the command that installs one: a test that cannot run fails.
pub fn postgres() -> &'static Postgres {
    // The failure is kept too: what one test could not find, a hundred others need not wait for.
    static SHARED: OnceLock<Result<Postgres, ServerError>> = OnceLock::new();
    let found = SHARED.get_or_init(|| Postgres::builder().find());
    found.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// A Postgres server. One that was started here ends, with its data, when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    server: Arc<Server>,
}

#[derive(Debug)]
pub(crate) enum Server {
    Given(Box<PgConnectOptions>),
    Local(Box<Mutex<Local>>),
    Container(Box<Mutex<Container>>),
}

impl Postgres {
    /// A server configured by hand, always a new one.
    pub fn builder() -> Builder {
        Builder::new()
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
    /// to its clients. All of them are gone when this returns; [`start`](Self::start) recovers the data. (In a
    /// container Docker asks it to stop first, and kills it in the same moment.)
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

impl From<Server> for Postgres {
    fn from(server: Server) -> Self {
        Self { server: Arc::new(server) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
