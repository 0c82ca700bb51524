//! The client's half of the pattern: one key per operation, drawn before the first attempt and kept for every other.

use std::{net::SocketAddr, time::Duration};

use http::Request;
use idem::BoxError;
use tokio::time::{interval, timeout};
use uuid::Uuid;

use super::{
    client::{self, Got},
    gateway::Order,
};

/// What a client wants done. A real one writes this to disk before it sends anything.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    route: &'static str,
    caller: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) order: Order,
}

impl Intent {
    /// A charge of an order of its own.
    pub(crate) fn to(route: &'static str) -> Self {
        let order = Order {
            reference: format!("order {}", Uuid::new_v4()),
            amount: 1000,
            currency: "usd".to_owned(),
        };
        Self { route, caller: "Bearer seven", key: Some(Uuid::new_v4().to_string()), order }
    }

    /// The same request, key included, by another caller.
    pub(crate) fn of_another_caller(&self) -> Self {
        Self { caller: "Bearer eight", ..self.clone() }
    }

    /// One attempt.
    ///
    /// # Errors
    /// If the connection broke: the charge may have been made.
    pub(crate) async fn send(&self, server: SocketAddr) -> Result<Got, BoxError> {
        let request = Request::post(self.route)
            .header("host", server.to_string())
            .header("authorization", self.caller)
            .header("content-type", "application/json");
        let request = self.key.iter().fold(request, |request, key| request.header("idempotency-key", key));
        client::send(server, request.body(serde_json::to_vec(&self.order)?.into())?).await
    }

    /// Attempts until there is an answer that is not to be retried: after a broken connection, a 5xx, 408, 425, 429, and
    /// a 409 that says "in progress". Less patient than a real client, which heeds `Retry-After`.
    ///
    /// # Errors
    /// If there is none within a minute.
    pub(crate) async fn insist(&self, server: SocketAddr) -> Result<Got, BoxError> {
        let mut pause = interval(Duration::from_millis(50));
        let answered = async {
            loop {
                pause.tick().await;
                match self.send(server).await {
                    Ok(got) if !is_try_again(&got) => return got,
                    Ok(_) | Err(_) => {}
                }
            }
        };
        Ok(timeout(Duration::from_mins(1), answered).await?)
    }
}

fn is_try_again(got: &Got) -> bool {
    got.status >= 500
        || matches!(got.status, 408 | 425 | 429)
        || (got.status, got.problem().as_str()) == (409, "in-progress")
}
