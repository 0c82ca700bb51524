//! One server process: a store, an engine over it, the routes, and a sweeper.

use std::{net::SocketAddr, time::Duration};

use idem::{BoxError, Engine, MemoryStore, Sweeper};
use tokio::net::TcpListener;

use super::{api, gateway::Gateway};

/// What a server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) gateway: SocketAddr,
    pub(crate) listen: SocketAddr,
    /// How long a key stays claimed after its process has died.
    pub(crate) lease: Duration,
}

/// Serves until `stop`, then lets the work under way end. `ready` hears the address.
///
/// # Errors
/// If the port is taken.
pub(crate) async fn serve(
    setup: Setup,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
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
