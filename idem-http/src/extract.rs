//! The operation as an argument of an axum handler.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;
use idem_core::Operation;

use crate::{
    Rejection,
    slot::{Slot, take_operation},
};

/// The operation of this request; taking it makes the key required.
///
/// `Option<Idempotent>` does not: it is `None` for a request without a key, and for a method that the layer does not
/// cover. The operation can be taken once.
///
/// A request without a key is answered with 400; without a layer over the route, or taken twice, with 500.
///
/// ```
/// use idem_core::StoredResponse;
/// use idem_http::{Idempotent, Problem, Reply};
///
/// async fn charge(Idempotent(op): Idempotent) -> Result<Reply, Problem> {
///     let answer = StoredResponse::json(201, "charged")?.header("location", "/charges/7");
///     Ok(op.complete(answer).await?.into())
/// }
/// # axum::Router::<()>::new().route("/charges", axum::routing::post(charge));
/// ```
#[derive(Debug)]
pub struct Idempotent(pub Operation);

impl<S: Send + Sync> FromRequestParts<S> for Idempotent {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        take_operation(&parts.extensions)?.map(Self).ok_or(Rejection::MissingKey)
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Idempotent {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Rejection> {
        if parts.extensions.get::<Slot>().is_some_and(|slot| !slot.is_covered()) {
            return Ok(None);
        }
        Ok(take_operation(&parts.extensions)?.map(Self))
    }
}
