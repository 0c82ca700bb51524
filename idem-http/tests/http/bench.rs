//! What every test needs: a store that goes wrong on demand, a layer over it, requests and their answers.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, Response, StatusCode, request::Builder},
    response::IntoResponse,
    routing::post,
};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use idem_conformance::Faulty;
use idem_core::{Engine, KeyId, Maintain as _, Policy, Record, Scope, State};
use idem_http::{IdempotencyLayer, Rejection};
use idem_memory::{ManualClock, MemoryStore};
use tokio::time::timeout;
use tower::{Service, ServiceExt as _};

/// Who is asking, as an authentication layer further out would say.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) &'static str);

/// No request of a test takes longer, in the tests' own time.
const BOUND: Duration = Duration::from_hours(1);

/// More than the default lease.
pub(crate) const PAST_LEASE: Duration = Duration::from_secs(91);

#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) clock: ManualClock,
    pub(crate) store: Faulty,
    pub(crate) engine: Engine,
    runs: Arc<AtomicUsize>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = Faulty::new(Arc::new(MemoryStore::with_clock(clock.clone())));
        Self { clock, engine: Engine::new(store.clone()), store, runs: Arc::default() }
    }

    pub(crate) fn layer(&self, policy: Policy) -> IdempotencyLayer {
        IdempotencyLayer::new(self.engine.clone(), policy, |parts| {
            Scope::new(parts.extensions.get::<Caller>()?.0).ok()
        })
    }

    pub(crate) fn resumable(&self) -> IdempotencyLayer {
        self.layer(Policy::resumable())
    }

    pub(crate) fn opaque(&self) -> IdempotencyLayer {
        self.layer(Policy::opaque())
    }

    /// How often a handler of this bench ran.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Counts a run; the number of this one.
    pub(crate) fn run(&self) -> usize {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// One route, `/charges`, whose handler counts its runs and gives this answer.
    pub(crate) fn app<A>(
        &self,
        layer: IdempotencyLayer,
        answer: impl Fn(usize) -> A + Clone + Send + Sync + 'static,
    ) -> Router
    where
        A: IntoResponse + Send,
    {
        let bench = self.clone();
        let handler = async move || answer(bench.run());
        Router::new().route(
            "/charges",
            post(handler.clone()).patch(handler.clone()).put(handler.clone()).get(handler).layer(layer),
        )
    }

    /// The record of a key of the usual caller.
    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        let id = KeyId::new(Scope::new("acme").expect("valid"), key.parse().expect("valid"));
        self.store.find(&id).await.expect("no fault is planned")
    }

    pub(crate) async fn state(&self, key: &str) -> &'static str {
        match self.record(key).await.map(|record| record.state) {
            None => "none",
            Some(State::InProgress) => "in_progress",
            Some(State::Completed { .. }) => "completed",
            Some(State::Failed { .. }) => "failed",
        }
    }
}

/// `POST /charges` by the usual caller, without a key.
pub(crate) fn charge() -> Builder {
    Request::post("/charges").extension(Caller("acme"))
}

/// `POST /charges` with a key and a body.
pub(crate) fn keyed(key: &str) -> Request<Body> {
    charge().header("idempotency-key", key).body("{}".into()).expect("a request")
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) rejection: Option<Rejection>,
    /// What came of the body, and whether it ended well.
    pub(crate) body: Bytes,
    pub(crate) whole: bool,
}

impl Got {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|marker| marker == "true")
    }

    /// The last part of the problem's type.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let document: serde_json::Value = serde_json::from_slice(&self.body).expect("json");
        assert_eq!(document["status"], self.status);
        let kind = document["type"].as_str().expect("text");
        kind.strip_prefix("urn:idem:problem:").expect("our own").to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }
}

pub(crate) async fn send<S, C>(app: &S, request: Request<Body>) -> Got
where
    S: Service<Request<Body>, Response = Response<C>, Error = Infallible> + Clone,
    C: http_body::Body<Data = Bytes> + Unpin,
{
    let answered = async { read(app.clone().oneshot(request).await.expect("infallible")).await };
    timeout(BOUND, answered).await.expect("answered in time")
}

pub(crate) async fn read<C: http_body::Body<Data = Bytes> + Unpin>(response: Response<C>) -> Got {
    let (parts, mut body) = response.into_parts();
    let (mut bytes, mut whole) = (Vec::new(), true);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
            Err(_) => whole = false,
        }
    }
    Got {
        status: parts.status.as_u16(),
        headers: parts.headers,
        rejection: parts.extensions.get().cloned(),
        body: bytes.into(),
        whole,
    }
}

/// Polls once, and says how that went.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// A status as an answer, for tables.
pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}
