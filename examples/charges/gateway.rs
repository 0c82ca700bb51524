//! How this API talks to its payment gateway.

use std::{net::SocketAddr, time::Duration};

use http::Request;
use idem::BoxError;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::client;

/// What is to be charged. Amounts are whole cents; `reference` is our own, by which a charge can be looked up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) reference: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
}

/// What the gateway booked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: String,
    pub(crate) reference: String,
    pub(crate) amount: u64,
}

/// The gateway, as seen from here.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
}

/// Why there is no charge to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    /// It said no before it did anything.
    #[error("the gateway is closed")]
    Closed,
    /// It may have charged.
    #[error("the gateway did not answer")]
    Lost(#[source] BoxError),
}

impl Gateway {
    /// Charges. With a key of the gateway's own, a second call with the same key charges nothing and answers the same.
    ///
    /// # Errors
    /// [`GatewayError`] says whether the money may have moved.
    pub(crate) async fn charge(&self, order: &Order, key: Option<&str>) -> Result<Charge, GatewayError> {
        let lost = GatewayError::Lost;
        let request =
            Request::post("/charges").header("host", "gateway").header("content-type", "application/json");
        let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
        let body = serde_json::to_vec(order).map_err(|error| lost(error.into()))?;
        let request = request.body(body.into()).map_err(|error| lost(error.into()))?;
        let answer = timeout(Duration::from_secs(30), client::send(self.address, request)).await;
        let answer = answer.map_err(|late| lost(late.into()))?.map_err(lost)?;
        match answer.status {
            201 => serde_json::from_slice(&answer.body).map_err(|error| lost(error.into())),
            503 => Err(GatewayError::Closed),
            status => Err(lost(format!("status {status}").into())),
        }
    }
}
