//! What stops a server when the test process that started it dies, in whatever way.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// A shell that waits for this process to end and then cleans up.
///
/// It holds the reading end of a pipe whose only writing end is ours, so its `cat` ends when we do, `SIGKILL`
/// included. A process-wide server, which is never dropped, is stopped in the same way.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

/// Stops the server of the folder `$1`, a Postgres on `data` or one that wrote its `pid`, and removes it. The process id is believed only while its
/// command line names the folder; a zombie has none.
pub(crate) const STOP_SERVER: &str = r#"
folder=$1
pid=$(cat "$folder/data/postmaster.pid" "$folder/pid" 2>/dev/null | head -n 1)
command_line() {
    if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$pid/cmdline"; else ps -o args= -p "$pid"; fi
}
runs() { [ -n "$pid" ] && command_line 2>/dev/null | grep -qF -- "$folder"; }
if runs; then
    kill -s QUIT "$pid"
    tries=0
    while runs && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    if runs; then kill -s KILL "$pid"; fi
fi
rm -rf -- "$folder"
"#;

/// Removes the container `$1`.
pub(crate) const REMOVE_CONTAINER: &str = r#"docker rm -f -v "$1""#;

impl Watchdog {
    /// Starts the shell; it will run `script` with `argument` as its `$1`.
    pub(crate) fn start(script: &str, argument: impl AsRef<OsStr>) -> io::Result<Self> {
        // A Ctrl-C or a `timeout` is meant for the tests; the one who cleans up outlives it.
        let script = format!("trap '' HUP INT QUIT TERM\ncat >/dev/null\n{script}");
        let shell = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(argument)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }
}

impl Drop for Watchdog {
    /// Lets it do its work now, and waits for it.
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        drop(self.shell.wait());
    }
}
