//! `with-postgres <command> [argument…]`: runs a command with `IDEM_TEST_POSTGRES_URL` set to a server that is
//! found or started for it, and gone afterwards. The exit status is the command's.

use std::{
    env,
    process::{Command, ExitCode},
};

use idem_test_support::Postgres;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else { return complain("usage: with-postgres <command> [argument…]") };
    let server = Postgres::find().await;
    match Command::new(&program).args(words).env("IDEM_TEST_POSTGRES_URL", server.url()).status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into(),
        Err(error) => complain(&format!("cannot run {}: {error}", program.display())),
    }
}

#[expect(clippy::print_stderr, reason = "a command line program speaks on its standard error")]
fn complain(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}
