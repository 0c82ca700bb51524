//! The payment API: two ways to charge, and what each of them can promise.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{AUTHORIZATION, LOCATION},
    },
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::post,
};
use idem::{Engine, IdempotencyLayer, Idempotent, Policy, Problem, Reply, Scope, StoredResponse};

use super::gateway::{Charge, Gateway, GatewayError, Order};

/// Who calls, as authentication found out. Its account is what keys belong to: two callers never share one.
#[derive(Clone, Copy, Debug)]
struct Caller {
    account: u64,
}

/// All routes. Authentication is further out than the layer: a replay is subject to today's rights.
pub(crate) fn routes(engine: Engine, gateway: Gateway, lease: Duration) -> Router {
    let once = IdempotencyLayer::new(engine, Policy::opaque().lease(lease), |parts| {
        Scope::new(parts.extensions.get::<Caller>()?.account).ok()
    })
    .required();
    let again = once.clone().policy(Policy::resumable().lease(lease));
    Router::new()
        .route("/charges", post(charge).layer(once))
        .route("/keyed-charges", post(keyed_charge).layer(again))
        .layer(middleware::from_fn(authenticate))
        .with_state(gateway)
}

/// Charges through a gateway that takes no keys. An ordinary handler: it knows nothing of idempotency.
///
/// Its policy is *opaque*, so it is started at most once per key. Every answer that it gives is final, an error too,
/// but "outcome unknown": then, as after a crash in it, nobody here knows whether the gateway charged, and retries get
/// 409 `in-doubt` until somebody has looked into the gateway's ledger and decided.
async fn charge(State(gateway): State<Gateway>, Json(order): Json<Order>) -> Result<Response, Problem> {
    let charge = gateway.charge(&order, None).await.map_err(|error| unavailable(&error))?;
    Ok((StatusCode::CREATED, [(LOCATION, location(&charge))], Json(charge)).into_response())
}

/// Charges through a gateway that takes keys of its own.
///
/// Its policy is *resumable*: after a crash or a 5xx the next request with the key runs it again from the top. What keeps
/// the money right is the gateway, which charges once per key of its own and only for as long as it remembers that key.
/// So that key is derived from the caller's account and the client's key, and is the same in every run.
async fn keyed_charge(
    State(gateway): State<Gateway>,
    Idempotent(op): Idempotent,
    Json(order): Json<Order>,
) -> Result<Reply, Problem> {
    // Both parts, since two callers may choose one key. An account is a number, so the colon cannot mislead.
    let gateway_key = format!("{}:{}", op.id().scope().as_str(), op.id().key().as_str());
    let charge = gateway.charge(&order, Some(&gateway_key)).await.map_err(|error| unavailable(&error))?;
    Ok(op.complete(created(&charge)?).await?.into())
}

/// The answer to a charge, also for whoever settles one by hand.
pub(crate) fn created(charge: &Charge) -> Result<StoredResponse, idem::Error> {
    Ok(StoredResponse::json(201, charge)?.header("location", location(charge)))
}

fn location(charge: &Charge) -> String {
    format!("/charges/{}", charge.id)
}

fn unavailable(error: &GatewayError) -> Problem {
    match error {
        GatewayError::Closed => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "The payment gateway is not available")
                .detail("Nothing was charged.")
        }
        // The card may have been charged: no answer to keep, somebody has to look.
        GatewayError::Lost(_) => Problem::outcome_unknown(),
    }
}

/// Stands for an API's authentication: it says who calls, or nothing runs.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let account = match request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes) {
        Some(b"Bearer seven") => 7,
        Some(b"Bearer eight") => 8,
        _ => return Problem::new(StatusCode::UNAUTHORIZED, "Say who you are").into_response(),
    };
    request.extensions_mut().insert(Caller { account });
    next.run(request).await
}
