//! What may be done about a call to the outside world when nobody knows whether it happened.

use std::{error, time::Duration};

use crate::{BoxError, MAX_SPAN, Policy, error::Invalid};

/// How a call to a system outside the database may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect(pub(crate) Repeat);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Always,
    Within(Duration),
    Never,
}

impl Effect {
    /// May be repeated any number of times: setting a value, or sending what is better doubled than lost.
    ///
    /// No mark is committed before it.
    pub const fn natural() -> Self {
        Self(Repeat::Always)
    }

    /// The provider knows a repeat by its key, for `window` after it first saw it.
    ///
    /// Marked before each call. Called again only while the window, counted from the first mark, has room for a call that is
    /// under way; past that the operation is in doubt.
    pub const fn keyed(window: Duration) -> Self {
        Self(Repeat::Within(window))
    }

    /// Better lost than doubled: after any doubt it is never called again, and the operation is in doubt.
    pub const fn at_most_once() -> Self {
        Self(Repeat::Never)
    }

    /// # Errors
    /// [`Invalid`] if the window leaves less room for repeats than the policy's margin takes.
    pub(crate) fn check(self, policy: &Policy) -> Result<(), Invalid> {
        match self.0 {
            Repeat::Within(window) if policy.margin().saturating_mul(2) > window => Err(Invalid::new(
                "window",
                "at least twice call_within + provider_max_delay of the policy, in ms",
            )
            .seen(window.as_millis())),
            Repeat::Within(window) if window > MAX_SPAN => {
                Err(Invalid::new("window", "at most 10 years, in ms").seen(window.as_millis()))
            }
            Repeat::Always | Repeat::Within(_) | Repeat::Never => Ok(()),
        }
    }
}

/// Why an effect has no result.
///
/// Not an error itself, so that `?` turns any error into [`Fault::Unknown`]: the short form is the safe form. A definite
/// refusal, as of a declined card, is neither: it is a value of the effect, recorded like any other.
#[derive(Debug)]
pub enum Fault {
    /// It was definitely not done: nothing was sent.
    NotDone(BoxError),
    /// It may have been done.
    Unknown(BoxError),
}

impl Fault {
    /// It was definitely not done: nothing was sent.
    pub fn not_done(error: impl Into<BoxError>) -> Self {
        Self::NotDone(error.into())
    }
}

impl<E: error::Error + Send + Sync + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Unknown(Box::new(error))
    }
}
