//! Where the layer leaves the operation of a request for its handler.

use std::sync::{Arc, Mutex, PoisonError};

use http::Extensions;
use idem_core::{Ending, Operation};

use crate::Rejection;

/// The operation of a request, for services that are not axum handlers; nothing if the request has no key.
///
/// It can be taken once. What the service answers after it ended the operation does not matter: the committed answer is
/// sent.
///
/// # Errors
/// [`Rejection::NotLayered`] if no layer covers the request; [`Rejection::TakenTwice`]. Answer with
/// [`Rejection::problem`].
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use idem_core::StoredResponse;
/// use idem_http::{Problem, take_operation};
///
/// type Body = Full<bytes::Bytes>;
///
/// async fn charge(request: &Request<Body>) -> Result<Response<Body>, Problem> {
///     if let Some(op) = take_operation(request.extensions())? {
///         let _committed = op.complete(StoredResponse::json(201, "charged")?).await?;
///     }
///     Ok(Response::default())
/// }
///
/// async fn serve(request: Request<Body>) -> Result<Response<Body>, Infallible> {
///     Ok(charge(&request).await.unwrap_or_else(|problem| problem.response()))
/// }
/// # let _service = tower::service_fn(serve);
/// ```
pub fn take_operation(extensions: &Extensions) -> Result<Option<Operation>, Rejection> {
    extensions.get::<Slot>().ok_or(Rejection::NotLayered)?.take()
}

/// In the extensions of every request that came through a layer.
///
/// An extension must be `Clone` and an operation must not: so it is taken out, once.
#[derive(Clone)]
pub(crate) struct Slot(Arc<Mutex<Content>>);

enum Content {
    /// The layer does not look at requests of this method.
    NotCovered,
    /// The request has no key.
    NoKey,
    Operation(Operation),
    Taken,
}

impl Slot {
    pub(crate) fn not_covered() -> Self {
        Self::of(Content::NotCovered)
    }

    pub(crate) fn no_key() -> Self {
        Self::of(Content::NoKey)
    }

    pub(crate) fn holding(operation: Operation) -> Self {
        Self::of(Content::Operation(operation))
    }

    fn of(content: Content) -> Self {
        Self(Arc::new(Mutex::new(content)))
    }

    /// Whether a layer covers the request that carries this slot.
    pub(crate) fn is_covered(&self) -> bool {
        !matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Content::NotCovered)
    }

    fn take(&self) -> Result<Option<Operation>, Rejection> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*content {
            Content::NotCovered => Err(Rejection::NotLayered),
            Content::NoKey => Ok(None),
            Content::Taken => Err(Rejection::TakenTwice),
            Content::Operation(_) => match std::mem::replace(&mut *content, Content::Taken) {
                Content::Operation(operation) => Ok(Some(operation)),
                Content::NotCovered | Content::NoKey | Content::Taken => Err(Rejection::TakenTwice),
            },
        }
    }
}

/// In the extensions of a response: the proof that its handler ended the operation itself.
#[derive(Clone)]
pub(crate) struct Proof {
    ending: Arc<Mutex<Option<Ending>>>,
    /// The response that carries this stands for the committed answer and is not one itself.
    pub(crate) is_placeholder: bool,
}

impl Proof {
    pub(crate) fn take(&self) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(feature = "axum")]
impl From<idem_core::Completed> for Proof {
    fn from(completed: idem_core::Completed) -> Self {
        Self { ending: Arc::new(Mutex::new(Some(completed.into()))), is_placeholder: true }
    }
}

#[cfg(feature = "axum")]
impl From<idem_core::Released> for Proof {
    fn from(released: idem_core::Released) -> Self {
        Self { ending: Arc::new(Mutex::new(Some(released.into()))), is_placeholder: false }
    }
}
