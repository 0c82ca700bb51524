//! The NATS server that tests get.

use std::{net::TcpStream, process::Command};

use idem_test_support::{Nats, nats};

fn addr(nats: &Nats) -> String {
    nats.url().trim_start_matches("nats://").to_owned()
}

/// What a server says first.
fn greeting(nats: &Nats) -> Option<String> {
    use std::io::{BufRead as _, BufReader};

    let mut line = String::new();
    BufReader::new(TcpStream::connect(addr(nats)).ok()?).read_line(&mut line).ok()?;
    Some(line)
}

#[tokio::test]
async fn a_server_has_jetstream_and_keeps_its_address_over_a_kill() {
    let server = Nats::own().await;
    let addr = addr(&server);
    for _ in 0..2 {
        let said = greeting(&server).expect("it greets");
        assert!(said.starts_with("INFO ") && said.contains("\"jetstream\":true"), "{said}");
        server.kill().await;
        assert!(greeting(&server).is_none(), "it is really down");
        server.start().await;
    }
    assert_eq!(server.url(), format!("nats://{addr}"));
    drop(server);
    assert!(TcpStream::connect(addr).is_err(), "a dropped server is gone");
}

#[test]
fn the_shared_server_is_one() {
    assert_eq!(nats().url(), nats().url());
    assert!(greeting(nats()).is_some());
}

/// Where the next test runs itself again, with nowhere to find a server.
const NOWHERE: &str = "IDEM_TEST_NATS_NOWHERE";

#[test]
fn without_a_server_a_test_fails_with_the_command_that_installs_one() {
    if std::env::var_os(NOWHERE).is_some() {
        nats();
        return;
    }
    let test = "without_a_server_a_test_fails_with_the_command_that_installs_one";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(NOWHERE, "1")
        .env("IDEM_TEST_NATS_PROGRAM", "/nowhere/nats-server")
        .env_remove("IDEM_TEST_NATS_URL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("apt-get install -y --no-install-recommends nats-server"), "{said}");
}
