//! A payment provider over TCP that stops at a point of a call, and keeps the books.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use sqlx::PgPool;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, spawn},
};

use crate::shop::Kind;

/// Where the first call stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Connected, nothing sent.
    Connected,
    /// Half of the request sent.
    HalfSent,
    /// Charged, nothing answered.
    Charged,
    /// Half of the answer sent.
    HalfAnswered,
}

impl Stop {
    pub(crate) const ALL: [Self; 4] = [Self::Connected, Self::HalfSent, Self::Charged, Self::HalfAnswered];
}

/// A call as its provider saw it arrive.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: String,
    /// What the operation's record said at that moment: its status, and until when it may be run again.
    pub(crate) record: (String, String),
}

#[derive(Debug, Default)]
struct Books {
    calls: Vec<Call>,
    /// The charges in order; where the provider knows a repeat by its key, by that.
    charges: Vec<String>,
    by_key: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    books: Arc<Mutex<Books>>,
    stopped: watch::Receiver<bool>,
    serving: AbortHandle,
}

impl Provider {
    /// One whose first call stops there, if anywhere; `records` are looked at as each call arrives.
    pub(crate) async fn start(kind: Kind, stop: Option<Stop>, records: PgPool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let books = Arc::new(Mutex::new(Books::default()));
        let (tell, stopped) = watch::channel(false);
        let mut desk = Desk { kind, stop, records, books: Arc::clone(&books), tell };
        let serving = spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Whoever calls may be killed on the way.
                drop(desk.serve(client).await);
                desk.stop = None;
            }
        });
        Self { address, books, stopped, serving: serving.abort_handle() }
    }

    /// Waits until a call stands where it was to stop.
    pub(crate) async fn stopped(&self) {
        self.stopped.clone().wait_for(|stopped| *stopped).await.expect("the provider serves");
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.books().calls.clone()
    }

    pub(crate) fn charges(&self) -> Vec<String> {
        self.books().charges.clone()
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Desk {
    kind: Kind,
    stop: Option<Stop>,
    records: PgPool,
    books: Arc<Mutex<Books>>,
    tell: watch::Sender<bool>,
}

impl Desk {
    async fn serve(&self, client: TcpStream) -> io::Result<()> {
        let mut client = BufReader::new(client);
        self.pause(Stop::Connected, &mut client).await?;
        client.write_all(b"welcome\n").await?;
        let key = line(&mut client).await?;
        let record = sqlx::query_as("SELECT status, rerun_until::text FROM idempotency_key")
            .fetch_one(&self.records)
            .await
            .map_err(io::Error::other)?;
        self.lock().calls.push(Call { key: key.clone(), record });
        self.pause(Stop::HalfSent, &mut client).await?;
        client.write_all(b"go on\n").await?;
        assert_eq!(line(&mut client).await?, "charge");
        let number = self.charge(&key);
        self.pause(Stop::Charged, &mut client).await?;
        client.write_all(b"charge ").await?;
        self.pause(Stop::HalfAnswered, &mut client).await?;
        client.write_all(format!("{number}\n").as_bytes()).await
    }

    /// Stays until the caller is gone, if this is where it is to stop.
    async fn pause(&self, here: Stop, client: &mut BufReader<TcpStream>) -> io::Result<()> {
        if self.stop == Some(here) {
            self.tell.send_replace(true);
            line(client).await?;
        }
        Ok(())
    }

    fn charge(&self, key: &str) -> usize {
        let mut books = self.lock();
        if let (Kind::Keyed, Some(number)) = (self.kind, books.by_key.get(key)) {
            return *number;
        }
        books.charges.push(key.to_owned());
        let number = books.charges.len();
        books.by_key.insert(key.to_owned(), number);
        number
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Charges once: what the shop calls.
pub(crate) async fn charge(provider: SocketAddr, key: &str) -> io::Result<u64> {
    let mut provider = BufReader::new(TcpStream::connect(provider).await?);
    line(&mut provider).await?;
    provider.write_all(format!("{key}\n").as_bytes()).await?;
    line(&mut provider).await?;
    provider.write_all(b"charge\n").await?;
    let answer = line(&mut provider).await?;
    answer.trim_start_matches("charge ").parse().map_err(io::Error::other)
}

async fn line(peer: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if peer.read_line(&mut line).await? == 0 || !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
