//! The layer and its settings.

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Uri, header, request::Parts};
use idem_core::{Engine, Fingerprints, Policy, Scope};
use tower::Layer;

use crate::{
    Idempotency, MismatchStatus, Mode, asked::Asked, header::KeyHeader, keep::keep_rule,
    replay::IDEMPOTENT_REPLAYED, sameness::Sameness, service::Around, style::Style,
};

/// The largest request body that a keyed request may have, unless told otherwise: it is read before the claim.
pub const MAX_REQUEST: usize = 1 << 20;

/// How long an answer's body is waited for before it is sent unrecorded, unless told otherwise.
pub const BUFFER_WITHIN: Duration = Duration::from_secs(30);

/// Runs each keyed request once and answers its retries from the record.
///
/// A tower layer for any service of HTTP requests. Cheap to clone: a clone with another [`policy`](Self::policy) is how
/// one route differs from the next.
///
/// ```
/// use axum::{Router, http::Request, routing::post};
/// use idem_core::{Engine, Policy, Scope};
/// use idem_http::IdempotencyLayer;
/// use idem_memory::MemoryStore;
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// #[derive(Clone)]
/// struct Caller(u64); // put into the extensions by authentication, further out
///
/// let engine = Engine::new(MemoryStore::new());
/// let idem = IdempotencyLayer::new(engine, Policy::resumable(), |parts| {
///     Scope::new(parts.extensions.get::<Caller>()?.0).ok()
/// });
/// let app: Router = Router::new().route("/charges", post(async || "charged").layer(idem));
///
/// let request = || {
///     let request = Request::post("/charges").header("idempotency-key", "\"a3f7b9d1\"").extension(Caller(42));
///     request.body(axum::body::Body::empty())
/// };
/// let first = app.clone().oneshot(request()?).await?;
/// let again = app.oneshot(request()?).await?;
/// assert!(!first.headers().contains_key("idempotent-replayed"));
/// assert_eq!(again.headers()["idempotent-replayed"], "true");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A layer needs a scope and a policy; there is no default of either:
///
/// ```compile_fail,E0061
/// # use idem_core::{Engine, Policy};
/// # fn layer(engine: Engine) {
/// let idem = idem_http::IdempotencyLayer::new(engine, Policy::resumable());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    engine: Engine,
    settings: Arc<Settings>,
}

type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) scope: ScopeOf,
    pub(crate) methods: Vec<Method>,
    pub(crate) required: bool,
    pub(crate) key: KeyHeader,
    pub(crate) echo_key: bool,
    pub(crate) same: Sameness,
    pub(crate) max_request: usize,
    pub(crate) buffer_within: Duration,
    pub(crate) kept_headers: Vec<HeaderName>,
    pub(crate) marker: HeaderName,
    pub(crate) style: Style,
    pub(crate) asked: Asked,
}

impl IdempotencyLayer {
    /// A layer over an engine.
    ///
    /// `scope` says whose request it is, from what an authentication layer *further out* left in the request's
    /// extensions: a stable account id, not a credential that may be rotated between two retries. To let each endpoint
    /// have its own keys, join method and path to it with [`Scope::join`]. Where it has no answer, nothing runs and the
    /// request is answered with 500.
    pub fn new<F>(engine: Engine, policy: Policy, scope: F) -> Self
    where
        F: Fn(&Parts) -> Option<Scope> + Send + Sync + 'static,
    {
        let settings = Settings {
            policy,
            scope: Arc::new(scope),
            methods: vec![Method::POST, Method::PATCH],
            required: false,
            key: KeyHeader::default(),
            echo_key: false,
            same: Sameness::default(),
            max_request: MAX_REQUEST,
            buffer_within: BUFFER_WITHIN,
            kept_headers: Vec::new(),
            marker: IDEMPOTENT_REPLAYED,
            style: Style::default(),
            asked: Asked::default(),
        };
        Self { engine, settings: Arc::new(settings) }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Another policy, for the routes that this clone is put on. It is checked with every request: one that contradicts
    /// itself answers 500 and nothing runs.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        self.set(|settings| settings.policy = policy)
    }

    /// Refuses requests without a key, as a handler that takes `Idempotent` does by itself.
    #[must_use]
    pub fn required(self) -> Self {
        self.set(|settings| settings.required = true)
    }

    /// The methods that are covered; default POST and PATCH. All others pass through untouched, key or not.
    ///
    /// PUT and DELETE are idempotent by definition; they gain a replay of the first answer, not safety.
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.set(|settings| settings.methods = methods.into_iter().collect())
    }

    /// The header that carries the key; default `Idempotency-Key`.
    #[must_use]
    pub fn header(self, name: HeaderName) -> Self {
        self.set(|settings| settings.key.name = name)
    }

    /// Another name of that header. A request that carries a key under two names is refused.
    #[must_use]
    pub fn header_alias(self, name: HeaderName) -> Self {
        self.set(|settings| settings.key.aliases.push(name))
    }

    /// Which spellings of a key are accepted; default [`Mode::Tolerant`].
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|settings| settings.key.mode = mode)
    }

    /// How long a decoded key may be, in characters; default 1 to 255, and never above. Publish a minimum before
    /// enforcing it.
    #[must_use]
    pub fn key_length(self, length: RangeInclusive<usize>) -> Self {
        self.set(|settings| settings.key.length = length)
    }

    /// What a decoded key must look like, such as a UUID. Publish it before enforcing it.
    #[must_use]
    pub fn key_format(self, accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.key.format = Some(Arc::new(accepts)))
    }

    /// Sends the key back with every answer to a keyed request, as a quoted string; default not.
    #[must_use]
    pub fn echo_key(self) -> Self {
        self.set(|settings| settings.echo_key = true)
    }

    /// Parameters of the query that a retry may change, such as a trace id; default none.
    #[must_use]
    pub fn ignore_query(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.set(|settings| settings.same.ignored_query = names)
    }

    /// A route's own rule of what makes two requests the same, in place of method, path, query, content type and body.
    ///
    /// Carry the older versions of your own rule along (see [`Fingerprints::accept`]), or a deploy that changes it turns
    /// honest retries into mismatches.
    #[must_use]
    pub fn fingerprint<F>(self, of: F) -> Self
    where
        F: Fn(&Parts, &Bytes) -> Fingerprints + Send + Sync + 'static,
    {
        self.set(|settings| settings.same.custom = Some(Arc::new(of)))
    }

    /// Keys the fingerprint with a secret of the service's, so that nobody who reads the table finds a short body by
    /// hashing guesses. A custom [`fingerprint`](Self::fingerprint) sees to that itself.
    #[must_use]
    pub fn pepper(self, secret: impl Into<Vec<u8>>) -> Self {
        self.set(|settings| settings.same.pepper = Some(secret.into()))
    }

    /// The largest body of a keyed request, in bytes; default [`MAX_REQUEST`]. A larger one is answered with 413 before
    /// anything is claimed.
    #[must_use]
    pub fn max_request(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_request = bytes)
    }

    /// How long an answer's body is waited for; default [`BUFFER_WITHIN`]. A slower one is sent whole to its caller and
    /// is not kept for retries, as one above the policy's `max_response`.
    #[must_use]
    pub fn buffer_within(self, within: Duration) -> Self {
        self.set(|settings| settings.buffer_within = within)
    }

    /// Stores each request with its claim, so that a [`Completer`](idem_core::Completer) can finish what its client abandons;
    /// default not. `route` is the name that the completer finds its handler by: see [`complete_with`](Self::complete_with).
    ///
    /// What is stored: the method, the path and query as the client sent them, the headers `Accept`, `Accept-Language`,
    /// `Content-Encoding`, `Content-Language` and `Content-Type`, and the body. Kept until the answer is there; of a released
    /// key as long as its record. The header that carried the key is not among them, since the operation knows it.
    ///
    /// A request above [`StoredRequest::MAX_DATA`](idem_core::StoredRequest::MAX_DATA) bytes in all runs as ever, and is
    /// not stored: abandoned, it is only reported. A name that is none is a wiring fault: 500 and nothing runs.
    #[must_use]
    pub fn completable(self, route: impl Into<String>) -> Self {
        self.set(|settings| settings.asked.route = Some(route.into()))
    }

    /// Stores one more header of the requests of a [`completable`](Self::completable) route, such as that of an API's version.
    ///
    /// `Authorization`, `Cookie` and all whose name sounds like a secret (`X-Api-Key`, `X-Session-Token` and the like) are
    /// never stored, whatever is set here.
    #[must_use]
    pub fn complete_header(self, name: HeaderName) -> Self {
        self.set(|settings| settings.asked.headers.push(name))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Stores and replays one more header. Those that belong to one exchange or one caller (`Set-Cookie`, `Date`, request
    /// ids and the like) are never stored, whatever is set here.
    #[must_use]
    pub fn keep_header(self, name: HeaderName) -> Self {
        self.set(|settings| settings.kept_headers.push(name))
    }

    /// The header that says "this answer is a replay"; default `Idempotent-Replayed`. It says `true` on replays and is
    /// absent from first answers.
    #[must_use]
    pub fn marker(self, name: HeaderName) -> Self {
        self.set(|settings| settings.marker = name)
    }

    /// The status of a key that was reused for another request; default 422.
    #[must_use]
    pub fn mismatch_status(self, status: MismatchStatus) -> Self {
        self.set(|settings| settings.style.mismatch = status)
    }

    /// Adds `Link: <docs>; rel="describedby"` to rejections: the page that tells clients how keys are used here, and
    /// for how long.
    #[must_use]
    pub fn described_by(self, docs: &Uri) -> Self {
        let link = HeaderValue::try_from(format!("<{docs}>; rel=\"describedby\"")).ok();
        self.set(|settings| settings.style.described_by = link)
    }

    /// For how long a retry gets the first answer, counted from its end: what a service has to publish.
    ///
    /// **Source:** draft-ietf-httpapi-idempotency-key-header, sections 2.3 and 2.5.2.
    pub fn retention(&self) -> Duration {
        self.settings.policy.retention_span()
    }

    /// The response headers that a browser's script needs to see: list them in a CORS layer's exposed headers.
    pub fn exposed_headers(&self) -> Vec<HeaderName> {
        let echoed = self.settings.echo_key.then(|| self.settings.key.name.clone());
        [self.settings.marker.clone(), header::RETRY_AFTER].into_iter().chain(echoed).collect()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        let keep = keep_rule(&self.settings.kept_headers, &self.settings.marker);
        let around = Around { engine: self.engine.clone(), settings: Arc::clone(&self.settings), keep };
        Idempotency::new(inner, around)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("policy", &self.policy)
            .field("methods", &self.methods)
            .field("required", &self.required)
            .field("key", &self.key)
            .field("same", &self.same)
            .field("max_request", &self.max_request)
            .finish_non_exhaustive()
    }
}
