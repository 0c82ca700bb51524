//! A small payment API with idempotency keys, and a demo that tries to make it charge twice.
//!
//! ```text
//! cargo run --example charges                                  serves, with keys in memory; prints curl lines to try
//! cargo run --example charges -- --store postgres://…          serves, with keys in Postgres
//! cargo run --example charges -- --demo                        plays requests over TCP and says what came back
//! cargo run --example charges -- --demo --postgres             the same on a Postgres of its own, with killed servers
//! cargo run --example charges -- --demo --store postgres://…   the same on yours: it adds the keys' table, and of all
//!                                                              connections terminates only those that it opened
//! ```
//!
//! `api` is what a service of your own would look like, `server` how it is put together. `provider` is the payment
//! gateway, a server with a ledger of its own; the rest plays tricks on them.

#![expect(clippy::print_stdout, reason = "it talks to the person who runs it")]

mod api;
mod client;
mod demo;
mod gateway;
mod intent;
mod process;
mod provider;
pub(crate) mod scenarios;
pub(crate) mod server;
pub(crate) mod world;

use std::{env, net::SocketAddr, time::Duration};

use clap::Parser;
use idem::BoxError;
use idem_test_support::Postgres;
use tokio::{io::AsyncReadExt as _, process::Command};

use process::READY;
use provider::Provider;
use server::Setup;
use world::{Database, Outage};

/// A small payment API with idempotency keys.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Where keys are kept: a postgres:// URL; in memory without one
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Start a throw-away Postgres and keep keys there; uses the server programs of this machine, or Docker
    #[arg(long, conflicts_with = "store")]
    postgres: bool,
    /// Play requests and crashes, print what came back, and fail if anything is not as it must be
    #[arg(long)]
    demo: bool,
    /// Where to serve
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How long a key stays claimed after its process has died, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 90_000)]
    lease: u64,
    /// For the demo's server processes: the gateway to use; it also makes the server end with its standard input
    #[arg(long, hide = true)]
    gateway: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    run(Arguments::parse()).await
}

/// Serves, or plays the demo.
pub(crate) async fn run(mut arguments: Arguments) -> Result<(), BoxError> {
    if let Some(gateway) = arguments.gateway {
        return serve_for_the_demo(arguments.setup(gateway)).await;
    }
    let postgres = if arguments.postgres { Some(own_postgres().await) } else { None };
    arguments.store = arguments.store.or(postgres.as_ref().map(Postgres::url));
    if arguments.demo {
        let outage = postgres.map_or(Outage::Terminate, Outage::Restart);
        return demo::play(arguments.store.map(|url| Database { url, outage, command })).await;
    }
    let provider = Provider::open().await?;
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    server::serve(arguments.setup(provider.address), print_what_to_try, interrupted).await
}

impl Arguments {
    fn setup(self, gateway: SocketAddr) -> Setup {
        let lease = Duration::from_millis(self.lease);
        Setup { store: self.store, gateway, listen: self.listen, lease }
    }
}

impl Setup {
    /// The arguments that mean this setup.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--gateway={}", self.gateway),
            format!("--listen={}", self.listen),
            format!("--lease={}", self.lease.as_millis()),
        ];
        arguments.extend(self.store.iter().map(|url| format!("--store={url}")));
        arguments
    }
}

/// This program again, as a server.
fn command(setup: &Setup) -> Result<Command, BoxError> {
    let mut command = Command::new(env::current_exe()?);
    command.args(setup.arguments());
    Ok(command)
}

/// Serves until whoever started this process closes its standard input, or dies.
async fn serve_for_the_demo(setup: Setup) -> Result<(), BoxError> {
    let closed = async { drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await) };
    server::serve(setup, |address| println!("{READY}{address}"), closed).await
}

/// A throw-away server that is set up like one to be trusted.
pub(crate) async fn own_postgres() -> Postgres {
    Postgres::builder().setting("fsync", "on").start().await
}

fn print_what_to_try(address: SocketAddr) {
    println!(
        r#"{READY}{address}

Charge; then send it again, then with another amount, then as "Bearer eight", then without a key:

curl -i http://{address}/charges -H 'authorization: Bearer seven' -H 'idempotency-key: a3f7b9d1' \
     -H 'content-type: application/json' -d '{{"reference":"order 42","amount":1000,"currency":"usd"}}'
"#
    );
}
