//! Finishing stored requests: the service inside the layer, without a client.

use std::{future::poll_fn, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idem_core::{BoxError, Ending, Handler, KeepHeaders, Operation};
use tower::Service;

use crate::{IdempotencyLayer, asked::decode, keep::keep_rule, run::Judge, slot::Slot};

impl IdempotencyLayer {
    /// How a [`Completer`](idem_core::Completer) finishes the requests of a [`completable`](Self::completable) route: by
    /// `service`, which is what stands *inside* this layer on that route.
    ///
    /// The request is built anew with its method, path and query, those headers that were stored, and its body. The
    /// operation is where the layer leaves it, for `Idempotent` or [`take_operation`](crate::take_operation). Its answer is
    /// judged, and stored, as the layer does it, so that a late client gets it as if it had waited.
    ///
    /// What layers further out put into the extensions is *not* there, above all who the caller is: a handler takes that
    /// from [`Operation::id`], whose scope was made of it, or from the body. Rights were looked at when the request came in.
    /// An axum handler that reads path parameters needs its router: give both the same routes, and only one of them the
    /// layer, and say which body it takes, since it takes any. Where `service` does not know the path, its 404 is an answer
    /// like any other, and is stored.
    ///
    /// ```
    /// use axum::{Router, body::Body, routing::post};
    /// use idem_core::{Completer, Engine, Maintain, Policy, Scope, StoredResponse};
    /// use idem_http::{Idempotent, IdempotencyLayer, Problem, Reply};
    ///
    /// async fn charge(Idempotent(op): Idempotent, order: String) -> Result<Reply, Problem> {
    ///     let account = op.id().scope().as_str().to_owned();
    ///     Ok(op.complete(StoredResponse::json(201, &(account, order))?).await?.into())
    /// }
    ///
    /// fn start(store: impl Maintain + Clone) -> Router {
    ///     let engine = Engine::new(store.clone());
    ///     let idem = IdempotencyLayer::new(engine.clone(), Policy::resumable(), |parts| {
    ///         parts.extensions.get::<Scope>().cloned()
    ///     });
    ///     let (idem, routes) = (idem.completable("charges"), Router::new().route("/charges/{id}", post(charge)));
    ///     let completer = Completer::new(store, engine).handle_with("charges", idem.complete_with::<Body, _>(routes.clone()));
    ///     tokio::spawn(completer.run());
    ///     routes.route_layer(idem)
    /// }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async { start(idem_memory::MemoryStore::new()) });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn complete_with<B, C>(
        &self,
        service: impl Service<Request<B>, Response = Response<C>, Future: Send, Error: Into<BoxError> + Send>
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Handler
    where
        B: From<Bytes> + Send + 'static,
        C: Body<Data = Bytes> + Send + Unpin + 'static,
        C::Error: Into<BoxError> + Send,
    {
        let settings = Arc::clone(self.settings());
        let keep = keep_rule(&settings.kept_headers, &settings.marker);
        let kept = KeepHeaders::clone(&keep);
        let work = move |operation, request: Request<Bytes>| {
            let judge = Judge::of(&settings, &kept, request.method());
            work(service.clone(), judge, operation, request)
        };
        Handler::decoding(self.settings().policy.clone(), decode, work).keep_headers(keep)
    }
}

async fn work<S, B, C>(
    mut service: S,
    judge: Judge,
    operation: Operation,
    request: Request<Bytes>,
) -> Result<Ending, BoxError>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Error: Into<BoxError>,
    B: From<Bytes>,
    C: Body<Data = Bytes> + Unpin,
    C::Error: Into<BoxError>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let mut request = request.map(B::from);
    request.extensions_mut().insert(Slot::holding(operation));
    let response = service.call(request).await.map_err(Into::into)?;
    // Nobody waits for the response; what is not kept of it is not read.
    let (ending, _unsent) = judge.ending(response).await;
    ending.ok_or_else(|| "the service answered with a rejection".into())
}
