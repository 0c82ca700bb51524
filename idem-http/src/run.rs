//! One keyed request: the inner service as the engine's work, the engine's answer as a response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode, header, response::Parts};
use http_body::Body;
use idem_core::{
    Answer, BoxError, Ending, Engine, Fingerprints, KeepHeaders, KeyId, Operation, RunError, StoredRequest,
    StoredResponse,
};
use tokio::sync::oneshot;
use tower::Service;

use crate::{
    Rejection,
    body::{ResponseBody, Rest},
    buffer::{Buffered, buffer_response},
    layer::Settings,
    replay,
    slot::{Proof, Slot},
};

/// Why the work has no answer that could be stored.
enum Failed<E> {
    /// The service's own error.
    Service(E),
    /// The inner response is a rejection of this library's, which is never stored.
    Rejected,
}

/// What is looked at where an inner response becomes an ending.
pub(crate) struct Judge {
    keep: KeepHeaders,
    marker: HeaderName,
    max_response: usize,
    within: Duration,
    is_head: bool,
}

/// Runs the service for this key, or answers from the record.
///
/// # Errors
/// The service's own error, outside; inside, the rejection that is sent in place of an answer.
///
/// # Cancel safety
/// As `Engine::run`: once the claim is sent, the service's work goes on without its caller.
pub(crate) async fn run<S, B, C>(
    engine: &Engine,
    settings: &Settings,
    keep: &KeepHeaders,
    (id, same, asked): (KeyId, Fingerprints, Option<StoredRequest>),
    mut service: S,
    mut request: Request<B>,
) -> Result<Result<Response<ResponseBody<C>>, Rejection>, S::Error>
where
    S: Service<Request<B>, Response = Response<C>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
    C: Body<Data = Bytes> + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let (hand_over, handed_over) = oneshot::channel();
    let judge = Judge::of(settings, keep, request.method());
    let work = move |operation: Operation| async move {
        request.extensions_mut().insert(Slot::holding(operation));
        let response = service.call(request).await.map_err(Failed::Service)?;
        let (ending, response) = judge.ending(response).await;
        // Nobody may be waiting any more: the client hung up.
        let _ = hand_over.send(response);
        ending.ok_or(Failed::Rejected)
    };
    let prepared = engine.prepare(id, same, &settings.policy).keep_headers(KeepHeaders::clone(keep));
    let answer = prepared.store_request(asked).run(work).await;
    let inner = handed_over.await.ok();
    Ok(match answer {
        Ok(Answer::Executed(stored)) => {
            replay::executed(&stored, inner.map(|response| response.into_parts().0), keep)
        }
        Ok(Answer::Replayed(stored)) => replay::replayed(&stored, &settings.marker),
        Ok(Answer::NotKept | Answer::Released) | Err(RunError::Work(Failed::Rejected)) => {
            answer_of_its_own(inner)
        }
        Ok(Answer::InProgress { retry_after }) => Err(Rejection::InProgress { retry_after }),
        Ok(Answer::InDoubt { since }) => Err(Rejection::InDoubt { since }),
        Ok(Answer::Mismatch) => Err(Rejection::Mismatch),
        Err(RunError::Work(Failed::Service(error))) => return Err(error),
        Err(RunError::Panicked) if settings.policy.is_opaque() => Err(Rejection::EffectUnknown),
        Err(RunError::Panicked) => Err(Rejection::HandlerPanicked),
        Err(RunError::Engine(error)) => Err(Rejection::of(&error)),
    })
}

/// The inner response, unless it only stands for an answer that was committed elsewhere: then the proof that it carries
/// belongs to another operation.
fn answer_of_its_own<C>(
    inner: Option<Response<ResponseBody<C>>>,
) -> Result<Response<ResponseBody<C>>, Rejection> {
    let response = inner.ok_or(Rejection::OutcomeUnknown)?;
    match response.extensions().get::<Proof>() {
        Some(proof) if proof.is_placeholder => Err(Rejection::Misconfigured),
        Some(_) | None => Ok(response),
    }
}

impl Judge {
    /// As a layer with these settings judges.
    pub(crate) fn of(settings: &Settings, keep: &KeepHeaders, method: &Method) -> Self {
        Self {
            keep: KeepHeaders::clone(keep),
            marker: settings.marker.clone(),
            max_response: settings.policy.max_response_bytes(),
            within: settings.buffer_within,
            is_head: *method == Method::HEAD,
        }
    }

    /// What the engine is told of an inner response, nothing if it is a rejection; and the response, still whole.
    pub(crate) async fn ending<C>(&self, response: Response<C>) -> (Option<Ending>, Response<ResponseBody<C>>)
    where
        C: Body<Data = Bytes> + Unpin,
        C::Error: Into<BoxError>,
    {
        let (mut parts, body) = response.into_parts();
        // Only this layer says that an answer is a replay, and this one is not.
        parts.headers.remove(&self.marker);
        // A rejection that the handler turned into a success of its own is an answer like any other.
        if parts.extensions.get::<Rejection>().is_some() && !parts.status.is_success() {
            return (None, Response::from_parts(parts, ResponseBody::untouched(body)));
        }
        if let Some(ending) = parts.extensions.get::<Proof>().and_then(Proof::take) {
            return (Some(ending), Response::from_parts(parts, ResponseBody::untouched(body)));
        }
        let (ending, body) = self.kept(&parts, body).await;
        (Some(ending), Response::from_parts(parts, body))
    }

    async fn kept<C>(&self, parts: &Parts, body: C) -> (Ending, ResponseBody<C>)
    where
        C: Body<Data = Bytes> + Unpin,
        C::Error: Into<BoxError>,
    {
        let not_kept = Ending::NotKept { status: parts.status.as_u16() };
        // A stream of events has no end to wait for.
        if is_event_stream(parts) {
            return (not_kept, ResponseBody::untouched(body));
        }
        // The engine has the last word on the size, with the headers; this bounds what is held in memory.
        match buffer_response(body, self.max_response, self.within).await {
            Buffered::Partial(body) => (not_kept, body),
            Buffered::Whole(bytes) if self.contradicts_its_length(parts, bytes.len()) => {
                let broken = Rest::Broken("the body is not as long as its content-length says".into());
                (not_kept, ResponseBody::of([bytes].into(), broken))
            }
            Buffered::Whole(bytes) => match self.stored(parts, bytes.clone()) {
                Ok(answer) => (answer.into(), bytes.into()),
                // Not a final status: a switch of protocols.
                Err(_) => (not_kept, bytes.into()),
            },
        }
    }

    fn stored(&self, parts: &Parts, body: Bytes) -> Result<StoredResponse, idem_core::Invalid> {
        let answer = StoredResponse::new(parts.status.as_u16(), body)?;
        let kept = parts.headers.iter().filter(|(name, _)| (self.keep)(name.as_str()));
        Ok(kept.fold(answer, |answer, (name, value)| {
            answer.header(name, Bytes::copy_from_slice(value.as_bytes()))
        }))
    }

    /// A body that ended cleanly before its announced end was cut short by something that did not say so.
    fn contradicts_its_length(&self, parts: &Parts, length: usize) -> bool {
        let has_no_body = self.is_head
            || parts.status == StatusCode::NO_CONTENT
            || parts.status == StatusCode::NOT_MODIFIED;
        let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        !has_no_body && announced.is_some_and(|announced| announced.parse() != Ok(length))
    }
}

fn is_event_stream(parts: &Parts) -> bool {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|full| full.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("text/event-stream")
}
