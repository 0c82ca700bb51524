//! A NATS server with `JetStream`, for tests that publish.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use uuid::Uuid;

use crate::{
    ServerError,
    process::{free_port, poll, signal, wait},
    watchdog::{STOP_SERVER, Watchdog},
};

const START_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(15);
/// Somebody else may take the port between our look and the server's.
const PORTS_TO_TRY: u32 = 5;
/// What it logs when it takes clients.
const READY: &str = "Server is ready";

/// The server that all tests of this process share; started by the first that asks, gone when the process ends. Streams
/// and subjects on it need names of their own.
///
/// It is the one behind `IDEM_TEST_NATS_URL`, else one of our own.
///
/// # Panics
///
/// Where there is no server, with the command that installs one: a test that cannot run fails.
pub fn nats() -> &'static Nats {
    static SHARED: OnceLock<Result<Nats, ServerError>> = OnceLock::new();
    let found = SHARED.get_or_init(|| match env::var("IDEM_TEST_NATS_URL") {
        Ok(url) => Ok(Nats { server: Server::Given(url) }),
        Err(_) => Nats::launch(),
    });
    found.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// A NATS server with `JetStream`. One that was started here ends, with its data, when this is dropped.
#[derive(Debug)]
pub struct Nats {
    server: Server,
}

#[derive(Debug)]
enum Server {
    Given(String),
    Own(Arc<Mutex<Own>>),
}

impl Nats {
    /// Starts a new server, never the one behind `IDEM_TEST_NATS_URL`. It takes clients when this returns.
    ///
    /// # Panics
    ///
    /// If it cannot be started, with the reason and what to install.
    pub async fn own() -> Self {
        let started = tokio::task::spawn_blocking(Self::launch).await;
        match started {
            Ok(Ok(nats)) => nats,
            Ok(Err(error)) => panic!("{error}"),
            Err(panic) => panic!("starting NATS: {panic}"),
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match &self.server {
            Server::Given(url) => url.clone(),
            Server::Own(own) => {
                let port = own.lock().unwrap_or_else(PoisonError::into_inner).port;
                format!("nats://127.0.0.1:{port}")
            }
        }
    }

    /// Sends `SIGKILL`. It is gone when this returns; what it has acknowledged is in its files.
    ///
    /// # Panics
    ///
    /// If the server is somebody else's.
    pub async fn kill(&self) {
        self.act(|own| {
            own.end("KILL");
            Ok(())
        })
        .await;
    }

    /// Starts a killed server again, on the same data and the same port. It takes clients when this returns.
    ///
    /// # Panics
    ///
    /// If it does not start, with its log; if the server is somebody else's.
    pub async fn start(&self) {
        self.act(Own::start).await;
    }

    fn launch() -> Result<Self, ServerError> {
        Ok(Self { server: Server::Own(Arc::new(Mutex::new(Own::launch()?))) })
    }

    async fn act(&self, act: fn(&mut Own) -> Result<(), ServerError>) {
        let Server::Own(own) = &self.server else {
            panic!("the server behind IDEM_TEST_NATS_URL is not ours to stop or start; use Nats::own()");
        };
        let own = Arc::clone(own);
        let act = move || act(&mut own.lock().unwrap_or_else(PoisonError::into_inner));
        match tokio::task::spawn_blocking(act).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("{error}"),
            Err(panic) => panic!("stopping or starting NATS: {panic}"),
        }
    }
}

/// The folder holds `store`, `pid` and `log`; all go when this is dropped, or when this process dies.
#[derive(Debug)]
struct Own {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    running: Option<Child>,
    /// Last: it is dropped after the server was stopped, and removes what is left.
    _watchdog: Watchdog,
}

impl Own {
    fn launch() -> Result<Self, ServerError> {
        let program = find()?;
        let folder = env::temp_dir().join(format!("idem-nats-{}", Uuid::new_v4().simple()));
        fs::create_dir(&folder).map_err(io_error("creating", &folder))?;
        let watchdog = Watchdog::start(STOP_SERVER, &folder).map_err(io_error("guarding", &folder))?;
        let port = free_port().map_err(io_error("finding a port for", &folder))?;
        let mut own = Self { program, folder, port, running: None, _watchdog: watchdog };
        for attempt in 1.. {
            match own.start() {
                Err(ServerError::Program { output, .. })
                    if output.contains("address already in use") && attempt < PORTS_TO_TRY =>
                {
                    own.port = free_port().map_err(io_error("finding a port for", &own.folder))?;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(own)
    }

    fn start(&mut self) -> Result<(), ServerError> {
        if self.running.is_some() {
            return Ok(());
        }
        let log_file = self.folder.join("log");
        let log = File::create(&log_file).map_err(io_error("opening", &log_file))?;
        let mut nats = Command::new(&self.program);
        nats.args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"])
            .arg(self.folder.join("store"));
        nats.arg("-P").arg(self.folder.join("pid")).current_dir(&self.folder).stdin(Stdio::null());
        // Its own group, so that a Ctrl-C reaches the tests first and the watchdog stops it in order.
        let spawned = nats.stdout(Stdio::null()).stderr(log).process_group(0).spawn();
        let mut child = spawned.map_err(io_error("starting nats-server in", &self.folder))?;
        let said = || fs::read_to_string(&log_file).unwrap_or_default();
        let outcome = poll(START_WITHIN, || match child.try_wait() {
            Ok(None) => said().contains(READY).then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        });
        self.running = Some(child);
        if outcome == Some(true) {
            return Ok(());
        }
        self.end("KILL");
        Err(ServerError::Program { program: "nats-server", output: said() })
    }

    fn end(&mut self, with: &str) {
        let Some(mut child) = self.running.take() else { return };
        signal(with, &[child.id()]);
        if wait(&mut child, STOP_WITHIN).is_none() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Nothing is to be kept.
        self.end("KILL");
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// The one that `IDEM_TEST_NATS_PROGRAM` names, else on `PATH`, or where Debian and Homebrew put it.
fn find() -> Result<PathBuf, ServerError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    let folders = env::split_paths(&path).chain(usual.map(PathBuf::from));
    let programs: Vec<_> = match env::var_os("IDEM_TEST_NATS_PROGRAM") {
        Some(program) => vec![program.into()],
        None => folders.map(|folder| folder.join("nats-server")).collect(),
    };
    programs.into_iter().find(|program| program.is_file()).ok_or(ServerError::NoNats)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServerError {
    let path = path.to_owned();
    move |source| ServerError::Io { action, path, source }
}
