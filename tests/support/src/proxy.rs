//! A TCP proxy in front of a Postgres that loses, keeps and delays exactly what a test says.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgSslMode},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{self, Runtime},
    sync::watch,
};

use crate::{
    Database, Fault, Strike,
    connection::{Connection, Weather},
    database,
    plan::{Plan, SharedPlan},
};

/// Listens on loopback and forwards to one server, on a thread of its own: it works while the test's runtime is
/// blocked or its clock is stopped.
///
/// Faults are planned by SQL text. A prepared statement is recognised each time it *runs*; preparing it is not
/// struck. A request for TLS is declined, so what passes can be read. Dropping it cuts all connections.
///
/// A client behind it that asks for a lost answer sees a closed connection, not an error message of the server.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    plan: SharedPlan,
    weather: watch::Sender<Weather>,
    open: Arc<AtomicUsize>,
    /// `Some` until dropped.
    runtime: Option<Runtime>,
    handle: runtime::Handle,
}

impl Proxy {
    /// Starts one in front of `target` (`host:port`, as [`Postgres::addr`](crate::Postgres::addr) gives it).
    ///
    /// # Panics
    ///
    /// If it cannot listen on loopback.
    pub async fn to(target: impl Into<String>) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime for a proxy: {error}"));
        let handle = runtime.handle().clone();
        let listening = handle.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            Ok((listener.local_addr()?, listener))
        });
        let listening: std::io::Result<_> = listening.await.unwrap_or_else(|panic| panic!("{panic}"));
        let (addr, listener) = listening.unwrap_or_else(|error| panic!("a proxy cannot listen: {error}"));
        let plan = SharedPlan::default();
        let weather = watch::Sender::new(Weather::default());
        let open = Arc::new(AtomicUsize::new(0));
        let accept = Accept {
            target: target.into(),
            plan: Arc::clone(&plan),
            weather: weather.subscribe(),
            open: Arc::clone(&open),
        };
        handle.spawn(accept.run(listener));
        Self { addr, plan, weather, open, runtime: Some(runtime), handle }
    }

    /// Where it listens, as `host:port`.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// How to connect to `database` through it.
    pub fn options(&self, database: &Database) -> PgConnectOptions {
        let options = database.options().host(&self.addr.ip().to_string()).port(self.addr.port());
        options.ssl_mode(PgSslMode::Disable)
    }

    /// The URL of `database` through it.
    pub fn url(&self, database: &Database) -> String {
        database::url(&self.options(database))
    }

    /// A pool of at most `max_connections` connections to `database` through it.
    ///
    /// # Panics
    ///
    /// If no connection can be made.
    pub async fn pool(&self, database: &Database, max_connections: u32) -> PgPool {
        database::pool(self.options(database), max_connections).await
    }

    /// Strikes the next statement that matches, on whatever connection, and no other.
    pub fn next(&self, matches: impl Fn(&str) -> bool + Send + Sync + 'static, fault: Fault) -> Strike {
        self.nth(1, matches, fault)
    }

    /// Strikes the `nth` statement from now that matches, counted from 1, and no other.
    pub fn nth(
        &self,
        nth: usize,
        matches: impl Fn(&str) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) -> Strike {
        self.plan.add(matches, (nth.saturating_sub(1), true), fault, &self.handle)
    }

    /// Strikes every statement that matches, until [`clear`](Self::clear).
    pub fn every(&self, matches: impl Fn(&str) -> bool + Send + Sync + 'static, fault: Fault) -> Strike {
        self.plan.add(matches, (0, false), fault, &self.handle)
    }

    /// Forgets all faults that have not struck yet. What is held stays held.
    pub fn clear(&self) {
        self.plan.clear();
    }

    /// The SQL of every statement that clients have run so far, struck ones included, in the order of arrival.
    pub fn statements(&self) -> Vec<String> {
        self.plan.seen()
    }

    /// How many of these statements match.
    pub fn count(&self, matches: impl Fn(&str) -> bool) -> usize {
        self.statements().iter().filter(|sql| matches(sql)).count()
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Closes all connections, on both sides, with whatever is on its way in them.
    pub fn cut_all(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// While `true`, new connections are closed at once; open ones live on.
    pub fn refuse(&self, refuse: bool) {
        self.weather.send_modify(|weather| weather.refuse = refuse);
    }

    /// While `true`, nothing moves in either direction and no connection is closed, as with a cable pulled. When
    /// it heals, what is on its way arrives, from clients that have given up too, as TCP does it.
    pub fn black_hole(&self, frozen: bool) {
        self.weather.send_modify(|weather| weather.frozen = frozen);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What accepts a proxy's connections.
struct Accept {
    target: String,
    plan: Arc<Plan>,
    weather: watch::Receiver<Weather>,
    open: Arc<AtomicUsize>,
}

impl Accept {
    async fn run(self, listener: TcpListener) {
        // Accepting fails for want of file descriptors only; then the test fails for the same reason.
        while let Ok((client, _)) = listener.accept().await {
            let Weather { refuse, cuts, .. } = *self.weather.borrow();
            if refuse {
                continue;
            }
            let open = Open::one_more(&self.open);
            let (target, plan, weather) = (self.target.clone(), Arc::clone(&self.plan), self.weather.clone());
            runtime::Handle::current().spawn(async move {
                let _open = open;
                // A server that is not there and a broken connection look alike to the client: closed.
                if let Ok(server) = TcpStream::connect(target).await {
                    Connection::new(client, server, plan, weather, cuts).run().await;
                }
            });
        }
    }
}

/// Counts one open connection until dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn one_more(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
