//! Everything a scenario plays in: a gateway, and a server over TCP.

use std::{future, net::SocketAddr, time::Duration};

use idem::BoxError;
use tokio::{sync::oneshot, task::JoinSet};

use super::{
    provider::Provider,
    server::{self, Setup},
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A gateway, and a server that serves until this is dropped.
pub(crate) struct World {
    pub(crate) provider: Provider,
    pub(crate) server: SocketAddr,
    _server: JoinSet<Result<(), BoxError>>,
}

impl World {
    /// A server that keeps its keys in memory.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let provider = Provider::open().await?;
        let setup = Setup { gateway: provider.address, listen: LOOPBACK, lease: Duration::from_secs(30) };
        let (ready, address) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let tell = |address| _ = ready.send(address);
        tasks.spawn(server::serve(setup, tell, future::pending()));
        let server = tokio::select! {
            address = address => address?,
            Some(ended) = tasks.join_next() => return Err(ended?.err().unwrap_or("the server ended".into())),
        };
        Ok(Self { provider, server, _server: tasks })
    }
}
