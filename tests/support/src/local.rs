//! A server of this machine's programs, on a throw-away data folder and a free loopback port.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::{fs as unix_fs, process::CommandExt},
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use uuid::Uuid;

use crate::{
    ServerError,
    process::{children, free_port, poll, signal, wait, wait_gone},
    programs::Programs,
    watchdog::{STOP_SERVER, Watchdog},
};

/// Enough for a crash recovery on a slow disk.
const START_WITHIN: Duration = Duration::from_mins(1);
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Somebody else may take the port between our look and the server's.
const PORTS_TO_TRY: u32 = 5;

const MEMORY: &str = "/dev/shm";
/// A server starts with 40 MB, and its log of changes may grow to 1 GB.
const ROOM_IN_MEMORY: u64 = 4 * 1024 * 1024;

/// The folder holds `data` and `log`; both go when this is dropped, or when this process dies.
#[derive(Debug)]
pub(crate) struct Local {
    programs: Programs,
    folder: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    postmaster: Option<Child>,
    /// Last: it is dropped after the server was stopped, and removes what is left.
    _watchdog: Watchdog,
}

impl Local {
    /// Makes a data folder and starts a server on it; it answers when this returns.
    pub(crate) fn start(programs: Programs, settings: Vec<(String, String)>) -> Result<Self, ServerError> {
        let folder = parent(&settings).join(format!("idem-postgres-{}", Uuid::new_v4().simple()));
        fs::create_dir(&folder).map_err(io_error("creating", &folder))?;
        let watchdog = Watchdog::start(STOP_SERVER, &folder).map_err(io_error("guarding", &folder))?;
        let port = free_port().map_err(io_error("finding a port for", &folder))?;
        let mut local = Self { programs, folder, port, settings, postmaster: None, _watchdog: watchdog };
        local.init()?;
        for attempt in 1.. {
            match local.launch() {
                Err(ServerError::Program { output, .. })
                    if output.contains("could not bind") && attempt < PORTS_TO_TRY =>
                {
                    local.port = free_port().map_err(io_error("finding a port for", &local.folder))?;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(local)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The server's log since its first start.
    pub(crate) fn log(&self) -> String {
        fs::read(self.log_file()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Starts the server on its folder and port, where it does not run. Returns when it answers.
    pub(crate) fn launch(&mut self) -> Result<(), ServerError> {
        if self.postmaster.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log_file());
        let log = log.map_err(io_error("opening", &self.log_file()))?;
        let before = self.log().len();
        let output = log.try_clone().map_err(io_error("opening", &self.log_file()))?;
        let mut postgres = self.programs.command("postgres", &self.folder);
        postgres.arg("-D").arg(self.folder.join("data"));
        for (name, value) in self.all_settings() {
            postgres.arg("-c").arg(format!("{name}={value}"));
        }
        // Its own group, so that a Ctrl-C reaches the tests first and the watchdog stops it in order.
        let spawned = postgres.stdout(output).stderr(log).process_group(0).spawn();
        let mut postmaster = spawned.map_err(io_error("starting postgres on", &self.folder))?;
        let outcome = poll(START_WITHIN, || match postmaster.try_wait() {
            Ok(None) => self.is_ready(postmaster.id()).then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        });
        self.postmaster = Some(postmaster);
        if outcome == Some(true) {
            return Ok(());
        }
        self.end("KILL");
        let said = self.log().get(before..).unwrap_or_default().to_owned();
        Err(ServerError::Program { program: "postgres", output: said })
    }

    /// A fast shutdown: clients are cut off, nothing committed is lost.
    pub(crate) fn stop(&mut self) {
        self.end("INT");
    }

    /// `SIGKILL` for the server and every process of it, at once. Returns when all of them are gone.
    pub(crate) fn kill(&mut self) {
        let Some(postmaster) = &self.postmaster else { return };
        let pid = postmaster.id();
        // Stopped, it starts no child that this list would miss.
        signal("STOP", &[pid]);
        let mut all = children(pid);
        all.push(pid);
        signal("KILL", &all);
        self.end("KILL");
        wait_gone(&all, STOP_WITHIN);
    }

    fn init(&self) -> Result<(), ServerError> {
        let data = self.folder.join("data");
        if let Some(account) = self.programs.account() {
            unix_fs::chown(&self.folder, Some(account.uid), Some(account.gid))
                .map_err(io_error("giving away", &self.folder))?;
        }
        let mut initdb = self.programs.command("initdb", &self.folder);
        initdb.arg("-D").arg(&data);
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let output = initdb.output().map_err(io_error("running initdb on", &data))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(ServerError::Program { program: "initdb", output: said })
    }

    /// Settings given to the builder come last, so they win.
    fn all_settings(&self) -> Vec<(String, String)> {
        let port = self.port.to_string();
        let own = [("listen_addresses", "127.0.0.1"), ("port", &port), ("unix_socket_directories", "")];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        own.chain(self.settings.iter().cloned()).collect()
    }

    /// Looks where `pg_ctl -w` looks. The file of a killed server stays behind, so the process id counts too.
    fn is_ready(&self, pid: u32) -> bool {
        let Ok(pid_file) = fs::read_to_string(self.folder.join("data/postmaster.pid")) else { return false };
        let mut lines = pid_file.lines().map(str::trim);
        lines.next() == Some(&pid.to_string()) && matches!(lines.nth(6), Some("ready" | "standby"))
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn end(&mut self, with: &str) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        signal(with, &[postmaster.id()]);
        if wait(&mut postmaster, STOP_WITHIN).is_none() {
            drop(postmaster.kill());
            drop(postmaster.wait());
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Nothing is to be kept: no checkpoint, as quick as possible.
        self.end("QUIT");
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Where data folders go: what is never synced may as well live in memory, where creating a database takes a
/// tenth of the time. `TMPDIR` decides where it is set.
fn parent(settings: &[(String, String)]) -> PathBuf {
    let synced =
        settings.iter().rev().find(|(name, _)| name == "fsync").is_none_or(|(_, value)| value != "off");
    if synced || env::var_os("TMPDIR").is_some() || free_kilobytes(MEMORY).unwrap_or(0) < ROOM_IN_MEMORY {
        return env::temp_dir();
    }
    PathBuf::from(MEMORY)
}

/// As `df` says; nothing where there is no such file system.
fn free_kilobytes(file_system: &str) -> Option<u64> {
    let output = Command::new("df").args(["-Pk", file_system]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

fn io_error(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> ServerError {
    let path = path.to_owned();
    move |source| ServerError::Io { action, path, source }
}
