//! A charge and everything that follows from it, each part a process of its own, and a demo that kills them all.
//!
//! ```text
//! client -> API -> gateway             one key per operation, one charge
//!            |
//!            +-> order and message     one commit
//!                     |
//!                   relay -> NATS -> consumer      at least once, with an effect that happens once
//!
//! cargo run --release --example chain -- --demo
//! ```
//!
//! It starts a Postgres and a NATS of its own, from the programs of this machine. `api` is what a service would look like,
//! `consumer` what listens to it; `demo` starts, kills and counts.

#![expect(clippy::print_stdout, reason = "it talks to the person who runs it")]
#![expect(
    clippy::disallowed_methods,
    reason = "clients and consumers pause before they try again, and a gateway takes its time"
)]

mod api;
mod broker;
#[expect(dead_code, reason = "the other example looks at more of an answer")]
#[path = "../charges/client.rs"]
mod client;
mod consumer;
pub(crate) mod demo;
#[path = "../charges/gateway.rs"]
mod gateway;
mod parts;
#[path = "../charges/process.rs"]
mod process;
mod provider;
mod relay;
pub(crate) mod shopper;
pub(crate) mod verdict;

use std::{env, net::SocketAddr, path::PathBuf};

use clap::{CommandFactory as _, Parser, Subcommand};
use idem::BoxError;
use tokio::{io::AsyncReadExt as _, process::Command};

use process::READY;

/// A charge and everything that follows from it, while every part of it is killed.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Start every part, kill each again and again, count what came of it, and fail if anything is missing or twice
    #[arg(long)]
    demo: bool,
    /// How many charges the demo asks for
    #[arg(long, default_value_t = 600)]
    pub(crate) operations: usize,
    /// How often the demo kills a part
    #[arg(long, default_value_t = 72)]
    pub(crate) kills: usize,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What one process of the demo is.
#[derive(Clone, Debug, Subcommand)]
#[command(hide = true)]
pub(crate) enum Role {
    /// Takes charges over HTTP
    Api {
        #[arg(long)]
        database: String,
        #[arg(long)]
        gateway: SocketAddr,
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Moves the money
    Gateway {
        #[arg(long)]
        ledger: PathBuf,
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Publishes what was committed
    Relay {
        #[arg(long)]
        database: String,
        #[arg(long)]
        broker: String,
    },
    /// Sends a mail for each charge
    Consumer {
        #[arg(long)]
        database: String,
        #[arg(long)]
        broker: String,
    },
    /// Asks for charges until each is answered
    Client {
        #[arg(long, value_delimiter = ',')]
        apis: Vec<SocketAddr>,
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        first: usize,
        #[arg(long)]
        count: usize,
    },
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    run(Arguments::parse(), command).await
}

/// Plays the demo, or one part of it.
pub(crate) async fn run(arguments: Arguments, command: parts::Again) -> Result<(), BoxError> {
    match arguments.role {
        Some(role) => {
            // Whoever started this process holds the other end; if they die, so does this.
            let closed = async { drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await) };
            tokio::select! {
                ended = play(role) => ended,
                () = closed => Ok(()),
            }
        }
        None if arguments.demo => demo::play(arguments.operations, arguments.kills, command).await,
        None => Ok(Arguments::command().print_help()?),
    }
}

async fn play(role: Role) -> Result<(), BoxError> {
    match role {
        Role::Api { database, gateway, listen } => api::serve(&database, gateway, listen, ready).await,
        Role::Gateway { ledger, listen } => provider::serve(&ledger, listen, ready).await,
        Role::Relay { database, broker } => relay::run(&database, &broker, ready).await,
        Role::Consumer { database, broker } => consumer::run(&database, &broker, ready).await,
        Role::Client { apis, folder, first, count } => {
            shopper::run(&apis, &folder, first..first + count, ready).await
        }
    }
}

/// This program again, as one part.
fn command(arguments: &[String]) -> Result<Command, BoxError> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

fn ready(address: SocketAddr) {
    println!("{READY}{address}");
}
