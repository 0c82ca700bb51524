//! What a handler that ends its operation returns.

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use idem_core::{Completed, Error, Invalid, Released, StoredResponse};

use crate::slot::Proof;

/// The answer of a handler that ended its operation itself.
///
/// Made from the proof of an end only, so a handler that returns `Result<Reply, Problem>` cannot answer with something
/// that is not committed:
///
/// ```compile_fail,E0277
/// # use idem_http::{Idempotent, Problem, Reply};
/// async fn charge(Idempotent(op): Idempotent) -> Result<Reply, Problem> {
///     Ok("charged".into())
/// }
/// ```
///
/// From [`Completed`] it stands for the answer that was committed, which the layer sends: its status, headers and bytes.
/// Headers that are never stored, such as a cookie, are added as with any other answer: `([("set-cookie", …)], reply)`.
#[derive(Debug)]
#[must_use = "return it: it is the answer"]
pub struct Reply(Response);

impl Reply {
    /// The answer of a handler that released its operation: `meanwhile` is sent, nothing is kept, and the same key runs
    /// the handler again.
    pub fn released(released: Released, meanwhile: impl IntoResponse) -> Self {
        Self::with(released.into(), meanwhile.into_response())
    }

    fn with(proof: Proof, mut response: Response) -> Self {
        response.extensions_mut().insert(proof);
        Self(response)
    }
}

impl From<Completed> for Reply {
    fn from(completed: Completed) -> Self {
        Self::with(completed.into(), Response::default())
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        self.0
    }
}

/// An axum answer as one that can be stored: `op.complete(stored((StatusCode::CREATED, Html(page)))?)`.
///
/// The body must be in memory already. For JSON, [`StoredResponse::json`] is shorter.
///
/// # Errors
/// `Invalid` for a stream, and for a status 500: axum turns a value that does not serialise into one, and stored it would
/// be the answer for ever. To end with a 500 on purpose, build it with [`StoredResponse::new`].
pub fn stored(answer: impl IntoResponse) -> Result<StoredResponse, Error> {
    let (parts, body) = answer.into_response().into_parts();
    if parts.status == StatusCode::INTERNAL_SERVER_ERROR {
        return Err(Invalid::new("the answer", "other than a 500, which a failed serialisation makes").into());
    }
    let in_memory = || Invalid::new("the answer's body", "in memory, not a stream");
    body.size_hint().exact().ok_or_else(in_memory)?;
    let body = body.collect().now_or_never().and_then(Result::ok).ok_or_else(in_memory)?.to_bytes();
    let stored = StoredResponse::new(parts.status.as_u16(), body)?;
    Ok(parts.headers.iter().fold(stored, |stored, (name, value)| {
        stored.header(name, bytes::Bytes::copy_from_slice(value.as_bytes()))
    }))
}
