//! A server in a process of its own, to be killed.

use std::{net::SocketAddr, process::Stdio};

use idem::BoxError;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// What the child says once it serves, followed by its address.
pub(crate) const READY: &str = "listening on ";

/// A running server. It ends with this value, and by itself when our end of its standard input closes.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    /// Starts one and waits until it serves.
    ///
    /// # Errors
    /// If it ends before that.
    pub(crate) async fn start(mut command: Command) -> Result<Self, BoxError> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, address)) = line.split_once(READY) {
                return Ok(Self { child, address: address.parse()? });
            }
        }
        Err(format!("the server process ended: {}", child.wait().await?).into())
    }

    /// `SIGKILL`: no destructor, no goodbye. It is gone when this returns.
    pub(crate) async fn kill(mut self) -> Result<(), BoxError> {
        Ok(self.child.kill().await?)
    }
}
