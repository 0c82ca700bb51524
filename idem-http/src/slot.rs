//! Where the layer leaves the operation of a request for its handler.

use std::sync::{Arc, Mutex, PoisonError};

use idem_core::{Completed, Ending, Operation, Released};

use crate::Rejection;

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

    /// The operation, or nothing if the request has no key.
    ///
    /// # Errors
    /// [`Rejection::NotLayered`] if no layer covers the request; [`Rejection::TakenTwice`].
    #[cfg_attr(not(feature = "axum"), expect(dead_code, reason = "taken by the axum extractor"))]
    pub(crate) fn take(&self) -> Result<Option<Operation>, Rejection> {
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

impl From<Completed> for Proof {
    fn from(completed: Completed) -> Self {
        Self { ending: Arc::new(Mutex::new(Some(completed.into()))), is_placeholder: true }
    }
}

impl From<Released> for Proof {
    fn from(released: Released) -> Self {
        Self { ending: Arc::new(Mutex::new(Some(released.into()))), is_placeholder: false }
    }
}
