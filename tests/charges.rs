//! The demo's scenarios, each a test of its own, with keys in memory and in Postgres.

#[path = "../examples/charges/main.rs"]
#[expect(dead_code, reason = "the tests play the demo's scenarios without its printing")]
mod charges;

use std::{env, iter};

use charges::{
    Arguments, scenarios,
    server::Setup,
    world::{Database, Outage, World},
};
use clap::Parser as _;
use idem::BoxError;
use idem_test_support::Postgres;
use tokio::{process::Command, sync::OnceCell};

mod memory {
    use super::*;

    macro_rules! tests {
        ($($scenario:ident)+) => {
            $(#[tokio::test]
            async fn $scenario() {
                let world = World::start(None).await.unwrap();
                scenarios::play(scenarios::$scenario(&world)).await.unwrap();
            })+
        };
    }
    scenarios::on_any_store!(tests);
}

mod postgres {
    use super::*;

    macro_rules! tests {
        ($($scenario:ident)+) => {
            $(#[tokio::test]
            async fn $scenario() {
                let database = server().await.database().await;
                let (url, outage) = (database.url(), Outage::Terminate);
                let world = World::start(Some(Database { url, outage, command })).await.unwrap();
                scenarios::play(scenarios::$scenario(&world)).await.unwrap();
            })+
        };
    }
    scenarios::on_any_store!(tests);
    scenarios::on_a_database!(tests);

    /// One that all of these share, with `fsync` on: the example refuses a server that may forget what it confirmed.
    async fn server() -> &'static Postgres {
        static SERVER: OnceCell<Postgres> = OnceCell::const_new();
        SERVER.get_or_init(charges::own_postgres).await
    }

    #[tokio::test]
    async fn database_restarts_under_load() {
        let postgres = charges::own_postgres().await;
        let (url, outage) = (postgres.url(), Outage::Restart(postgres));
        let world = World::start(Some(Database { url, outage, command })).await.unwrap();
        scenarios::play(scenarios::database_fails_under_load(&world)).await.unwrap();
    }
}

const ARGUMENTS: &str = "CHARGES_ARGUMENTS";

/// This test program again, as a server: its one test that is otherwise ignored.
fn command(setup: &Setup) -> Result<Command, BoxError> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["server_process", "--exact", "--ignored", "--nocapture"]);
    command.env(ARGUMENTS, setup.arguments().join("\n"));
    Ok(command)
}

#[tokio::test]
#[ignore = "the server that the tests of killed servers start in a process of its own"]
async fn server_process() {
    let arguments = env::var(ARGUMENTS).unwrap();
    let arguments = iter::once("charges").chain(arguments.lines());
    charges::run(Arguments::try_parse_from(arguments).unwrap()).await.unwrap();
}
