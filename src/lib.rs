//! Idempotency keys for backends that move money: the work happens once, every retry gets the same answer.
//!
//! A client sends `POST /charges`, the answer is lost, it sends it again. Without a key the card is charged twice. With
//! the code that most articles show it is charged once and the client gets a 500; with a handler that was cancelled by a
//! hang-up, a crash between the charge and the commit, or a cache that was trusted, it is charged twice after all. Here
//! both requests get the same answer, byte for byte, and the work happens once, while processes die, connections drop
//! at COMMIT and clients hang up.
//!
//! ```
//! use axum::{Router, body::Body, extract::Request, http::header::AUTHORIZATION, routing::post};
//! use idem::{Engine, IdempotencyLayer, MemoryStore, Policy, Scope};
//! use tower::ServiceExt as _;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let engine = Engine::new(MemoryStore::new());
//! let idem = IdempotencyLayer::new(engine, Policy::resumable(), |parts| {
//!     // Whose key it is: a real server takes this from what its authentication layer found.
//!     Scope::new(parts.headers.get(AUTHORIZATION)?.to_str().ok()?).ok()
//! });
//! let app: Router = Router::new().route("/charges", post(async || "charged").layer(idem));
//!
//! let charge = || Request::post("/charges").header(AUTHORIZATION, "tenant 7").header("idempotency-key", "a3f7");
//! let first = app.clone().oneshot(charge().body(Body::empty())?).await?;
//! let retry = app.oneshot(charge().body(Body::empty())?).await?;
//! assert_eq!((first.status().as_u16(), retry.status().as_u16()), (200, 200));
//! assert_eq!(retry.headers()["idempotent-replayed"], "true");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which crate when
//!
//! | feature | crate | for |
//! |---|---|---|
//! | | `idem-core` | the state machine, the [`KeyStore`] seam, the [`Engine`]; always there |
//! | `memory` (default) | `idem-memory` | tests, examples, single processes that may forget |
//! | `postgres` | `idem-postgres` | the record of truth; transactions that carry an operation, outbox, relay, inbox |
//! | `jetstream` | `idem-postgres` | a publisher that sends its messages to NATS |
//! | `http` | `idem-http` | the tower layer |
//! | `axum` | `idem-http` | the extractor and answer types for axum 0.8 |
//! | `conformance` | `idem-conformance` | judging a store of your own |
//! | `full` | all of them | |
//!
//! # What is not promised
//!
//! * Exactly-once effects outside one database. A handler that calls the outside world declares each call with
//!   [`Operation::effect`], or is [`Policy::opaque`] as a whole: it starts at most once. After a crash in a call that may not be
//!   repeated the operation is *in doubt* until somebody decides.
//! * Anything past the retention: after it the same key is a new request.
//! * Anything that the record's store forgets: a restored backup, an asynchronous standby that was promoted.
//!
//! ARCHITECTURE.md walks through a request and through writing a store; CONTRACT.md lists what a store must do.

pub use idem_core::*;

#[cfg(feature = "conformance")]
pub use idem_conformance as conformance;
#[cfg(feature = "http")]
pub use idem_http::*;
#[cfg(feature = "memory")]
pub use idem_memory::*;
#[cfg(feature = "postgres")]
pub use idem_postgres::*;

/// The README's server compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
