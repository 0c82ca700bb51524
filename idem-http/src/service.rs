//! The service around a handler.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use idem_core::{BoxError, Engine, KeepHeaders, Key, KeyId};
use tower::Service;

use crate::{
    Rejection, ResponseBody, buffer::read_request, header::KeyHeader, layer::Settings, run::run, slot::Slot,
};

/// The service that [`IdempotencyLayer`](crate::IdempotencyLayer) makes.
///
/// Its response body is a [`ResponseBody`]; its error is the inner service's.
///
/// # Cancel safety
///
/// Dropping the response's future before the claim is sent leaves nothing behind. Later the inner service's work goes on
/// to its end: a client that hangs up does not stop a charge half-way. Work that an answer's *body* does after the
/// handler returned is not protected.
#[derive(Clone, Debug)]
pub struct Idempotency<S> {
    inner: S,
    around: Around,
}

/// All but the service: what its calls share.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) engine: Engine,
    pub(crate) settings: Arc<Settings>,
    pub(crate) keep: KeepHeaders,
}

impl<S> Idempotency<S> {
    pub(crate) fn new(inner: S, around: Around) -> Self {
        Self { inner, around }
    }
}

impl<S, B, C> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
    C: Body<Data = Bytes> + Send + Unpin + 'static,
    C::Error: Into<BoxError> + Send,
{
    type Response = Response<ResponseBody<C>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Readiness belongs to the instance that was polled: that one is called, and a clone takes its place.
        let next = self.inner.clone();
        let ready = mem::replace(&mut self.inner, next);
        Box::pin(self.around.clone().respond(ready, request))
    }
}

/// What becomes of a request, by its head alone.
enum Admitted {
    NotCovered,
    NoKey,
    Keyed(KeyId),
}

impl Around {
    async fn respond<S, B, C>(
        self,
        mut service: S,
        request: Request<B>,
    ) -> Result<Response<ResponseBody<C>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<C>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: Body + From<Bytes> + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError> + Send,
        C: Body<Data = Bytes> + Send + Unpin + 'static,
        C::Error: Into<BoxError> + Send,
    {
        let (mut parts, body) = request.into_parts();
        let id = match self.settings.admit(&parts) {
            Ok(Admitted::Keyed(id)) => id,
            Ok(Admitted::NotCovered) => {
                // An outer layer that covers this method has left its slot already.
                if parts.extensions.get::<Slot>().is_none() {
                    parts.extensions.insert(Slot::not_covered());
                }
                let response = service.call(Request::from_parts(parts, body)).await?;
                return Ok(response.map(ResponseBody::untouched));
            }
            Ok(Admitted::NoKey) => {
                parts.extensions.insert(Slot::no_key());
                let mut response = service.call(Request::from_parts(parts, body)).await?;
                if response.extensions().get::<Rejection>().is_some() {
                    self.settings.style.describe(response.headers_mut());
                }
                return Ok(response.map(ResponseBody::untouched));
            }
            Err(rejection) => return Ok(rejection.response(&self.settings.style)),
        };
        let key = id.key().clone();
        let answer = match read_request(body, self.settings.max_request).await {
            Ok(bytes) => {
                let same = self.settings.same.of(&parts, &bytes);
                match self.settings.asked.of(&parts, &bytes) {
                    Ok(asked) => {
                        let keyed = (id, same, asked);
                        let request = Request::from_parts(parts, B::from(bytes));
                        run(&self.engine, &self.settings, &self.keep, keyed, service, request).await?
                    }
                    Err(nameless) => Err(Rejection::of(&nameless.into())),
                }
            }
            Err(rejection) => Err(rejection),
        };
        Ok(self.sent(&key, answer))
    }

    fn sent<C>(
        &self,
        key: &Key,
        answer: Result<Response<ResponseBody<C>>, Rejection>,
    ) -> Response<ResponseBody<C>> {
        let mut response = answer.unwrap_or_else(|rejection| rejection.response(&self.settings.style));
        if self.settings.echo_key
            && let Some(echo) = KeyHeader::echo(key)
        {
            response.headers_mut().insert(self.settings.key.name.clone(), echo);
        }
        response
    }
}

impl Settings {
    /// Decides by the head of the request, in the order of the rules; nothing is read or claimed yet.
    fn admit(&self, parts: &Parts) -> Result<Admitted, Rejection> {
        if !self.methods.contains(&parts.method) {
            return Ok(Admitted::NotCovered);
        }
        if parts.extensions.get::<Slot>().is_some_and(Slot::is_covered) {
            return Err(Rejection::LayeredTwice);
        }
        if !parts.method.is_safe() && parts.headers.get("early-data").is_some_and(|value| value == "1") {
            return Err(Rejection::EarlyData);
        }
        let Some(key) = self.key.read(&parts.headers).map_err(Rejection::MalformedKey)? else {
            return if self.required { Err(Rejection::MissingKey) } else { Ok(Admitted::NoKey) };
        };
        self.policy.check().map_err(|invalid| Rejection::of(&invalid.into()))?;
        let scope = (self.scope)(parts).ok_or(Rejection::NoScope)?;
        Ok(Admitted::Keyed(KeyId::new(scope, key)))
    }
}

impl std::fmt::Debug for Around {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around")
            .field("engine", &self.engine)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
