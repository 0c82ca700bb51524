//! HTTP requests that are carried out once: a tower layer, and axum types over it.
//!
//! [`IdempotencyLayer`] reads the key from a request, runs the service inside once for it, stores the answer, and gives
//! every retry that answer: same status, same kept headers, same bytes. It works with any service of HTTP requests. With
//! the feature `axum`, a handler can take the `Idempotent` operation and end it itself; elsewhere, [`take_operation`] gives it.
//!
//! # What it decides, in this order
//!
//! 1. A method that is not covered passes through. Default: POST and PATCH are covered.
//! 2. Two layers that cover one request are a wiring fault: 500.
//! 3. TLS early data (`Early-Data: 1`) with an unsafe method: 425.
//! 4. A malformed key, or two: 400. It is never taken for "no key", which would run the request unprotected.
//! 5. No key: 400 where the layer or the handler requires one, else the request passes through. A policy that contradicts
//!    itself is a wiring fault: 500.
//! 6. No scope is a wiring fault: 500. There is no shared scope to fall back to.
//! 7. The body is read up to a limit: above it 413, broken off 400.
//! 8. The key is claimed. The store does not answer: 503, and the handler does not run. The key stands for another
//!    request: 422, whatever the state of that request; it comes before 409. Somebody is at work: 409 with `Retry-After`.
//!    The outcome waits for a decision: 409 with a longer one. Done: the stored answer, with `Idempotent-Replayed: true`.
//! 9. The service runs, in a task that a client's hanging up does not stop. What its answer means is for the engine to
//!    decide, see [`Policy`](idem_core::Policy): an operation that the handler ended itself stays as it was ended;
//!    else a resumable handler's 5xx, 408, 425, 429 or panic releases the key, or hands it on if an effect is recorded or open, and
//!    every other answer is stored; over an open effect there is none, but 503 `outcome-unknown`.
//! 10. The answer leaves once it is committed, as it was stored, with those headers of the service's response that are
//!     never stored. If it cannot be known to be committed: 503 `outcome-unknown`, never the success.
//! 11. An answer that cannot be kept (above the policy's `max_response`, an event stream, slow without end, broken off,
//!     or with trailers) is sent whole to its caller. Retries get 409 `response-not-kept`; nothing runs twice.
//!
//! Every answer of the library's own is a [`Rejection`]: `application/problem+json` with a type per cause, never stored,
//! never cached, without the replay marker. It is counted in `idem_rejections_total` by its `cause`; a wiring
//! fault is logged as an error.
//!
//! # Without its client
//!
//! A route that is [`completable`](IdempotencyLayer::completable) stores its requests, and
//! [`complete_with`](IdempotencyLayer::complete_with) gives a `Completer` what finishes those that are abandoned.
//!
//! # Where it belongs
//!
//! Authentication and rate limits further out, so that their 401, 403 and 429 are never stored and a replay is subject to
//! *today's* rights. Decompression of requests further out too: the fingerprint is that of the bytes the layer sees, so a
//! retry that is compressed where the first was not would be a mismatch. Compression of answers further out as well: then
//! the stored bytes are plain and each retry is encoded as it asks; further in, the encoding is stored with the bytes and
//! sent to whoever retries. Timeouts further in: one that is further out answers while the work goes on, which a retry
//! finds in progress and later done.
//!
//! ```text
//! authentication | rate limit | (de)compression | idempotency | timeout | handler
//! ```
//!
//! In axum put it on a route, `post(handler).layer(idem)`, or on all that are there with `Router::route_layer`.
//! `Router::layer` also wraps the fallback: an unknown path would be claimed, and its 404 replayed for a day.
//!
//! Work runs in a task of the engine's own: application task-locals are not seen there, the current tracing span is.

mod asked;
mod body;
mod buffer;
mod complete;
#[cfg(feature = "axum")]
mod extract;
mod header;
mod keep;
mod layer;
mod problem;
mod rejection;
mod replay;
#[cfg(feature = "axum")]
mod reply;
mod run;
mod sameness;
mod service;
mod slot;
mod style;

pub use body::ResponseBody;
#[cfg(feature = "axum")]
pub use extract::Idempotent;
pub use header::{IDEMPOTENCY_KEY, Mode};
pub use layer::{BUFFER_WITHIN, IdempotencyLayer, MAX_REQUEST};
pub use problem::{MAX_RETRY_AFTER, Problem};
pub use rejection::Rejection;
pub use replay::IDEMPOTENT_REPLAYED;
#[cfg(feature = "axum")]
pub use reply::{Reply, stored};
pub use service::Idempotency;
pub use slot::take_operation;
pub use style::MismatchStatus;
