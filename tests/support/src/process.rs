//! Signals and waiting for processes, by process id only.

use std::{
    fs, io, net, panic,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(10);

/// Sends one signal to all of `pids`. A process that is gone already is no error.
pub(crate) fn signal(name: &str, pids: &[u32]) {
    let script = r#"signal=$1; shift; for pid do kill -s "$signal" "$pid"; done"#;
    let mut sh = Command::new("sh");
    sh.args(["-c", script, "sh", name]).args(pids.iter().map(u32::to_string));
    drop(sh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
}

/// The processes whose parent is `pid`. Empty where there is no `/proc`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|child| status(*child).is_some_and(|(_, parent)| parent == pid))
        .collect()
}

/// Whether `pid` still runs; a zombie does not.
fn runs(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The state letter and the parent, from `/proc/<pid>/stat`. The program's name in it may hold spaces and
/// brackets, so both are read from behind its last bracket.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Polls until `done` answers something, for at most `bound`.
#[expect(
    clippy::disallowed_methods,
    reason = "processes live in real time, also where a test's clock is stopped"
)]
pub(crate) fn poll<T>(bound: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = done() {
            return Some(answer);
        }
        if start.elapsed() >= bound {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// Waits for `child` to end by itself, for at most `bound`.
pub(crate) fn wait(child: &mut Child, bound: Duration) -> Option<ExitStatus> {
    poll(bound, || child.try_wait().ok().flatten())
}

/// Waits until none of `pids` runs any more, for at most `bound`; whether that came true.
pub(crate) fn wait_gone(pids: &[u32], bound: Duration) -> bool {
    poll(bound, || (!pids.iter().any(|pid| runs(*pid))).then_some(())).is_some()
}

/// A loopback port that nobody listens on. Another process may take it before it is used: bind, look, retry.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Runs `work` on a thread of its own and waits for it: for work that blocks or needs its own runtime, asked for
/// from inside somebody else's runtime.
pub(crate) fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| panic::resume_unwind(panic))
}
