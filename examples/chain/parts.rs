//! The parts of the chain, as processes and servers that can be killed and started again.

use std::net::SocketAddr;

use idem::BoxError;
use idem_test_support::{Nats, Postgres};
use tokio::process::Command;

use super::process::ServerProcess;

/// How this program is run again with other arguments.
pub(crate) type Again = fn(&[String]) -> Result<Command, BoxError>;

/// A process of this program.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    arguments: Vec<String>,
    again: Again,
    /// Where it listens, once it has been started: it comes back there.
    pub(crate) address: SocketAddr,
    process: Option<ServerProcess>,
}

impl Part {
    /// Starts it.
    ///
    /// # Errors
    /// If it ends at once.
    pub(crate) async fn start(
        name: &'static str,
        again: Again,
        arguments: &[(&str, String)],
    ) -> Result<Self, BoxError> {
        let mut all = vec![name.to_owned()];
        all.extend(arguments.iter().map(|(option, value)| format!("--{option}={value}")));
        let process = ServerProcess::start(again(&all)?).await?;
        Ok(Self { name, arguments: all, again, address: process.address, process: Some(process) })
    }

    /// Kills it and starts it again, where it was.
    ///
    /// # Errors
    /// If it does not come back.
    pub(crate) async fn kill(&mut self) -> Result<(), BoxError> {
        if let Some(process) = self.process.take() {
            process.kill().await?;
        }
        for argument in &mut self.arguments {
            if argument.starts_with("--listen=") {
                *argument = format!("--listen={}", self.address);
            }
        }
        self.process = Some(ServerProcess::start((self.again)(&self.arguments)?).await?);
        Ok(())
    }
}

/// What is killed next.
pub(crate) enum Victim<'p> {
    Part(&'p mut Part),
    Broker(&'p Nats),
    Database(&'p Postgres),
}

impl Victim<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Victim::Part(part) => part.name,
            Victim::Broker(_) => "broker",
            Victim::Database(_) => "database",
        }
    }

    /// `SIGKILL`, and up again.
    ///
    /// # Errors
    /// If it does not come back.
    pub(crate) async fn kill(self) -> Result<(), BoxError> {
        match self {
            Victim::Part(part) => part.kill().await?,
            Victim::Broker(nats) => {
                nats.kill().await;
                nats.start().await;
            }
            Victim::Database(postgres) => {
                postgres.kill().await;
                postgres.start().await;
            }
        }
        Ok(())
    }
}
