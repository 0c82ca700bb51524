//! A small payment API with idempotency keys, and a demo that tries to make it charge twice.
//!
//! ```text
//! cargo run --example charges                                  serves, with keys in memory; prints curl lines to try
//! cargo run --example charges -- --demo                        plays requests over TCP and says what came back
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
mod provider;
pub(crate) mod scenarios;
mod server;
pub(crate) mod world;

use std::{net::SocketAddr, time::Duration};

use clap::Parser;
use idem::BoxError;

use provider::Provider;
use server::Setup;

/// A small payment API with idempotency keys.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Play requests, print what came back, and fail if anything is not as it must be
    #[arg(long)]
    demo: bool,
    /// Where to serve
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How long a key stays claimed after its process has died, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 90_000)]
    lease: u64,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    run(Arguments::parse()).await
}

/// Serves, or plays the demo.
async fn run(arguments: Arguments) -> Result<(), BoxError> {
    if arguments.demo {
        return demo::play().await;
    }
    let provider = Provider::open().await?;
    let lease = Duration::from_millis(arguments.lease);
    let setup = Setup { gateway: provider.address, listen: arguments.listen, lease };
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    server::serve(setup, print_what_to_try, interrupted).await
}

fn print_what_to_try(address: SocketAddr) {
    println!(
        r#"listening on {address}

Charge; then send it again, then with another amount, then as "Bearer eight", then without a key:

curl -i http://{address}/charges -H 'authorization: Bearer seven' -H 'idempotency-key: a3f7b9d1' \
     -H 'content-type: application/json' -d '{{"reference":"order 42","amount":1000,"currency":"usd"}}'
"#
    );
}
