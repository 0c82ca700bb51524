//! One server process: a store, an engine over it, the routes, and a sweeper.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use idem::{BoxError, Engine, KeyStore, Maintain, MemoryStore, PostgresStore, Sweeper};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::net::TcpListener;

use super::{api, gateway::Gateway};

/// How the database lists our connections.
pub(crate) const APPLICATION: &str = "idem-example-charges";

/// What a server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// A `postgres://` URL; without one, keys are kept in this process's memory.
    pub(crate) store: Option<String>,
    pub(crate) gateway: SocketAddr,
    pub(crate) listen: SocketAddr,
    /// How long a key stays claimed after its process has died.
    pub(crate) lease: Duration,
}

/// Opens the store, and refuses one that could not keep what it promises.
pub(crate) async fn open(url: Option<&str>) -> Result<Arc<dyn Maintain>, BoxError> {
    let Some(url) = url else { return Ok(Arc::new(MemoryStore::new())) };
    let options = url.parse::<PgConnectOptions>()?.application_name(APPLICATION);
    let store = PostgresStore::new(PgPoolOptions::new().max_connections(10).connect_with(options).await?);
    store.migrate().await?;
    store.check().await?;
    Ok(Arc::new(store))
}

/// Serves until `stop`, then lets the work under way end. `ready` hears the address.
///
/// # Errors
/// If the store does not open or the port is taken.
pub(crate) async fn serve(
    setup: Setup,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let store = open(setup.store.as_deref()).await?;
    let engine = Engine::new(Arc::clone(&store) as Arc<dyn KeyStore>);
    let routes = api::routes(engine.clone(), Gateway { address: setup.gateway }, setup.lease);
    let listener = TcpListener::bind(setup.listen).await?;
    ready(listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, routes).with_graceful_shutdown(stop) => served?,
        () = Sweeper::new(store).run() => {}
    }
    let left = engine.drain(Duration::from_secs(10)).await;
    if left > 0 {
        return Err(format!("{left} operations were left to their leases").into());
    }
    Ok(())
}
