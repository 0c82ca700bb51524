//! Servers come when asked for and go when done, in whatever way "done" comes.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail like the test itself")]

use std::{
    env, fs,
    net::TcpStream,
    path::Path,
    process::{Command, Output},
    thread,
    time::Duration,
};

use idem_test_support::{Postgres, postgres};
use sqlx::{Connection, PgConnection};

async fn setting(server: &Postgres, name: &str) -> String {
    let mut connection = PgConnection::connect_with(&server.options()).await.unwrap();
    sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(&mut connection).await.unwrap()
}

/// For what another process does in its own time; a minute is no measurement, only a bound.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it never came true that {what}");
}

fn answers(addr: &str) -> bool {
    TcpStream::connect(addr).is_ok()
}

#[tokio::test]
async fn each_database_is_fresh_and_goes_with_its_value() {
    let (one, other) = tokio::join!(postgres().database(), postgres().database());
    assert_ne!(one.name(), other.name());
    for database in [&one, &other] {
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        sqlx::query("CREATE TABLE same ()").execute(&mut connection).await.unwrap();
    }
    let still_open = one.pool(1).await;
    let name = one.name().to_owned();
    drop(one);
    let mut admin = PgConnection::connect_with(&postgres().options()).await.unwrap();
    let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_database WHERE datname = $1");
    assert_eq!(left.bind(name).fetch_one(&mut admin).await.unwrap(), 0);
    assert!(sqlx::query("SELECT 1").execute(&still_open).await.is_err());
}

#[tokio::test]
async fn a_server_of_ones_own_has_the_settings_given_and_a_log() {
    let server = Postgres::builder().setting("fsync", "on").setting("log_statement", "all").start().await;
    assert_eq!(setting(&server, "fsync").await, "on");
    assert_eq!(setting(&server, "synchronous_commit").await, "on");
    assert_eq!(server.log().matches("current_setting").count(), 2);
}

#[tokio::test]
async fn what_was_committed_survives_a_kill_and_the_address_stays() {
    let server = Postgres::builder().start().await;
    let addr = server.addr();
    let database = server.database().await;
    let pool = database.pool(1).await;
    sqlx::query("CREATE TABLE kept AS SELECT 7 AS seven").execute(&pool).await.unwrap();
    for crash in [true, false] {
        if crash {
            server.kill().await;
        } else {
            server.stop().await;
        }
        assert!(!answers(&addr), "it is really down");
        server.start().await;
        assert_eq!(server.addr(), addr);
        let kept: i32 = sqlx::query_scalar("SELECT seven FROM kept").fetch_one(&pool).await.unwrap();
        assert_eq!(kept, 7);
    }
    server.restart().await;
    assert_eq!(setting(&server, "fsync").await, "off");
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = Postgres::builder().start().await;
    let addr = server.addr();
    assert!(answers(&addr));
    drop(server);
    assert!(!answers(&addr));
}

fn with_postgres(script: &str, temp: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_with-postgres"))
        .args(["sh", "-c", script])
        .env_remove("IDEM_TEST_POSTGRES_URL")
        .env("TMPDIR", temp)
        .output()
        .unwrap()
}

/// A folder that the server's own user can pass through.
fn temp(name: &str) -> std::path::PathBuf {
    let temp = env::temp_dir().join(format!("idem-{name}-{}", std::process::id()));
    fs::create_dir(&temp).unwrap();
    temp
}

fn port_in(url: &str) -> String {
    let (_, rest) = url.trim().split_once('@').unwrap();
    rest.split('/').next().unwrap().replace("localhost", "127.0.0.1")
}

#[test]
fn with_postgres_passes_url_and_status_on_and_leaves_nothing() {
    let temp = temp("passes");
    let output = with_postgres("echo $IDEM_TEST_POSTGRES_URL; exit 7", &temp);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let addr = port_in(&String::from_utf8(output.stdout).unwrap());
    assert!(!answers(&addr), "stopped before it returned");
    fs::remove_dir(&temp).unwrap(); // fails on anything left inside
}

#[test]
fn a_server_does_not_outlive_a_killed_test_process() {
    let temp = temp("killed");
    let output = with_postgres("echo $IDEM_TEST_POSTGRES_URL; kill -KILL $PPID", &temp);
    assert_eq!(output.status.code(), None, "it was killed: {output:?}");
    let addr = port_in(&String::from_utf8(output.stdout).unwrap());
    eventually("the watchdog has stopped the server", || !answers(&addr));
    eventually("its folder is gone", || fs::remove_dir(&temp).is_ok());
}

#[test]
fn without_any_server_the_failure_says_how_to_get_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_with-postgres"))
        .arg("true")
        .env_remove("IDEM_TEST_POSTGRES_URL")
        .env("IDEM_TEST_SERVERS", "programs")
        .env("IDEM_PG_BIN", "/nowhere")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("apt-get install -y --no-install-recommends postgresql"), "{said}");
    assert!(said.contains("IDEM_TEST_POSTGRES_URL"), "{said}");
}
