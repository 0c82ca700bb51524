use std::{io, path::PathBuf};

/// Why there is no server. Every text says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No way of getting a server worked.
    #[error(
        "no Postgres to test against, and a test that cannot run fails.\n\
         Install one:      apt-get install -y --no-install-recommends postgresql\n\
         or point at one:  export IDEM_TEST_POSTGRES_URL=postgres://user:password@host:5432/postgres\n\
         Tried: {tried}"
    )]
    NoServer {
        /// What was tried, and how each attempt ended.
        tried: String,
    },
    /// There is no NATS server.
    #[error(
        "no NATS to test against, and a test that cannot run fails.\n\
         Install one:      apt-get install -y --no-install-recommends nats-server\n\
         or point at one:  export IDEM_TEST_NATS_URL=nats://host:4222 (with JetStream)"
    )]
    NoNats,
    /// `IDEM_TEST_POSTGRES_URL` is not a usable URL.
    #[error("IDEM_TEST_POSTGRES_URL cannot be used: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// `IDEM_TEST_SERVERS` names no known way.
    #[error("IDEM_TEST_SERVERS is {seen:?}; it can be programs or docker")]
    Servers {
        /// The value found.
        seen: String,
    },
    /// There are no server programs where they were looked for.
    #[error("no usable server programs: {looked}")]
    NoPrograms {
        /// The folders that were looked at.
        looked: String,
    },
    /// A server program ended with an error, or did not do its work in time.
    #[error("{program} failed: {output}")]
    Program {
        /// Which program.
        program: &'static str,
        /// The end of its output.
        output: String,
    },
    /// A file, a folder or a process of the server could not be made.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which path.
        path: PathBuf,
        /// Why it did not work.
        source: io::Error,
    },
    /// The container could not be run.
    #[error("the container: {reason}")]
    Container {
        /// What Docker or the server in it said.
        reason: String,
    },
    /// The server belongs to somebody else.
    #[error(
        "the server behind IDEM_TEST_POSTGRES_URL is not ours to {action}; use Postgres::builder().start()"
    )]
    NotOurs {
        /// What was asked for.
        action: &'static str,
    },
}
