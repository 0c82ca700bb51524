//! The answers that are given without the handler's: one per cause.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Response, StatusCode};
use idem_core::{ErrorKind, Invalid};
use metrics::counter;

use crate::{Problem, style::Style};

/// How long a client waits before it asks a store again that did not answer.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a client waits where the outcome is not known: the record is likely to hold its lease for a while.
const UNKNOWN_RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a client waits where a person or a reconciler has to decide.
const IN_DOUBT_RETRY_AFTER: Duration = Duration::from_mins(2);

/// An answer of the library's own, given in place of the handler's.
///
/// It is in the extensions of the response for layers further out. It is never stored and never carries the replay
/// marker. Each cause has a stable type URI, `urn:idem:problem:` and [`Rejection::name`].
///
/// **Source:** draft-ietf-httpapi-idempotency-key-header, section 2.7; RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// 400: the route needs a key.
    #[error("the request carries no idempotency key")]
    MissingKey,
    /// 400: what was sent is not a key.
    #[error("the idempotency key is malformed: {0}")]
    MalformedKey(Invalid),
    /// 400: the request's body ended before its time. Nothing was claimed.
    #[error("the request body is incomplete")]
    IncompleteBody,
    /// 413: the request's body is larger than the layer takes. Nothing was claimed.
    #[error("the request body is too large")]
    BodyTooLarge {
        /// The layer's limit in bytes, or nothing if a layer further out found it too large.
        limit: Option<usize>,
    },
    /// 425: the request came as TLS early data, which an attacker may have repeated. Nothing was claimed.
    #[error("the request was sent as early data")]
    EarlyData,
    /// 409: somebody is at work on this key.
    #[error("a request with this key is in progress")]
    InProgress {
        /// How long to wait before asking again.
        retry_after: Duration,
    },
    /// 409: an effect may have happened, and a person or a reconciler decides.
    #[error("the outcome of an earlier request with this key waits for a decision")]
    InDoubt {
        /// Since when, by the store's clock; it is not sent.
        since: SystemTime,
    },
    /// 422 unless the layer says otherwise: the key stands for another request.
    #[error("the key was used for another request")]
    Mismatch,
    /// 503: the store did not answer, or takes nothing on. The handler did not run.
    #[error("the record of keys is unavailable")]
    StoreUnavailable,
    /// 503: a service that the handler needs did not take its call on. Nothing of it was done.
    #[error("a call of the handler was not done")]
    EffectNotDone,
    /// 503: the transaction that was to end the request was rolled back. Nothing of it is there; earlier parts may be.
    #[error("the transaction was rolled back")]
    RolledBack,
    /// 503: the handler ran, and whether its answer is recorded is not known.
    #[error("the outcome could not be settled in time")]
    OutcomeUnknown,
    /// 500: the handler panicked; nothing was recorded, and the same key runs it again.
    #[error("the handler panicked")]
    HandlerPanicked,
    /// 500: a handler that must not run twice panicked; its key waits for a decision.
    #[error("the handler panicked, and its effect is not known")]
    EffectUnknown,
    /// 500: the record cannot be trusted. A person has to look.
    #[error("the record of this key is corrupt")]
    Corrupt,
    /// 500, a wiring fault: no scope for this request. An authentication layer belongs outside this one.
    #[error("no scope for this request: put authentication outside the idempotency layer")]
    NoScope,
    /// 500, a wiring fault: two idempotency layers cover this request.
    #[error("two idempotency layers cover this request")]
    LayeredTwice,
    /// 500, a wiring fault: a handler takes an operation, and no idempotency layer covers its method and route.
    #[error("no idempotency layer covers this method and route")]
    NotLayered,
    /// 500, a wiring fault: the operation of this request was taken before.
    #[error("the operation of this request was taken twice")]
    TakenTwice,
    /// 500, a wiring fault: a setting or a call is invalid; the log says which.
    #[error("a setting is invalid")]
    Misconfigured,
}

impl Rejection {
    /// What an error of the engine means to a client.
    pub(crate) fn of(error: &idem_core::Error) -> Self {
        match error.kind() {
            ErrorKind::ClaimLost => Self::InProgress { retry_after: Duration::from_secs(1) },
            ErrorKind::Unavailable => Self::StoreUnavailable,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Invalid => {
                tracing::error!(%error, "refused as invalid");
                Self::Misconfigured
            }
            ErrorKind::EffectNotDone => Self::EffectNotDone,
            ErrorKind::RolledBack => Self::RolledBack,
            // Of a kind that this version does not know, nothing may be promised either.
            ErrorKind::Unknown | ErrorKind::TooLate | ErrorKind::EffectUnknown | _ => Self::OutcomeUnknown,
        }
    }

    /// The cause, as in the type URI and in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MissingKey => "missing-key",
            Self::MalformedKey(_) => "malformed-key",
            Self::IncompleteBody => "incomplete-body",
            Self::BodyTooLarge { .. } => "body-too-large",
            Self::EarlyData => "early-data",
            Self::InProgress { .. } => "in-progress",
            Self::InDoubt { .. } => "in-doubt",
            Self::Mismatch => "mismatch",
            Self::StoreUnavailable => "store-unavailable",
            Self::EffectNotDone => "effect-not-done",
            Self::RolledBack => "rolled-back",
            Self::OutcomeUnknown | Self::EffectUnknown => "outcome-unknown",
            Self::HandlerPanicked => "handler-panicked",
            Self::Corrupt => "corrupt",
            Self::NoScope => "no-scope",
            Self::LayeredTwice => "layered-twice",
            Self::NotLayered => "not-layered",
            Self::TakenTwice => "taken-twice",
            Self::Misconfigured => "misconfigured",
        }
    }

    /// The status, where no layer changes it.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::MissingKey | Self::MalformedKey(_) | Self::IncompleteBody => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::EarlyData => StatusCode::TOO_EARLY,
            Self::InProgress { .. } | Self::InDoubt { .. } => StatusCode::CONFLICT,
            Self::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::StoreUnavailable | Self::EffectNotDone | Self::RolledBack | Self::OutcomeUnknown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::HandlerPanicked
            | Self::EffectUnknown
            | Self::Corrupt
            | Self::NoScope
            | Self::LayeredTwice
            | Self::NotLayered
            | Self::TakenTwice
            | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the service is put together wrongly: no request can help, somebody has to deploy.
    pub const fn is_wiring_fault(&self) -> bool {
        matches!(
            self,
            Self::NoScope | Self::LayeredTwice | Self::NotLayered | Self::TakenTwice | Self::Misconfigured
        )
    }

    /// The document that is sent.
    pub fn problem(&self) -> Problem {
        let (title, detail) = self.text();
        let problem = Problem::new(self.status(), title)
            .kind(format!("urn:idem:problem:{}", self.name()))
            .detail(detail)
            .of(self.clone());
        match self.wait() {
            Some(wait) => problem.retry_after(wait),
            None => problem,
        }
    }

    /// The answer, with this value in its extensions; counted, and logged as an error if it is a wiring fault.
    pub(crate) fn response<B: From<Bytes>>(self, style: &Style) -> Response<B> {
        counter!("idem_rejections_total", "cause" => self.name()).increment(1);
        if self.is_wiring_fault() {
            tracing::error!(cause = self.name(), "wiring fault: {self}");
        } else {
            tracing::debug!(cause = self.name(), "rejected");
        }
        let mut response = self.problem().response();
        style.apply(&self, &mut response);
        response.extensions_mut().insert(self);
        response
    }

    const fn wait(&self) -> Option<Duration> {
        match self {
            Self::InProgress { retry_after } => Some(*retry_after),
            Self::InDoubt { .. } => Some(IN_DOUBT_RETRY_AFTER),
            Self::StoreUnavailable | Self::EffectNotDone | Self::RolledBack => Some(STORE_RETRY_AFTER),
            Self::OutcomeUnknown => Some(UNKNOWN_RETRY_AFTER),
            Self::MissingKey
            | Self::MalformedKey(_)
            | Self::IncompleteBody
            | Self::BodyTooLarge { .. }
            | Self::EarlyData
            | Self::Mismatch
            | Self::HandlerPanicked
            | Self::EffectUnknown
            | Self::Corrupt
            | Self::NoScope
            | Self::LayeredTwice
            | Self::NotLayered
            | Self::TakenTwice
            | Self::Misconfigured => None,
        }
    }

    /// Title and detail; neither tells a client anything of another request or of the service's inside.
    fn text(&self) -> (&'static str, Cow<'static, str>) {
        let (title, detail) = match self {
            Self::MissingKey => (
                "Idempotency key missing",
                "This operation needs an idempotency key; send a fresh one, and the same one with every retry.",
            ),
            Self::MalformedKey(why) => return ("Idempotency key malformed", format!("{why}.").into()),
            Self::IncompleteBody => ("Request body incomplete", "The body ended early; nothing was done."),
            Self::BodyTooLarge { limit: Some(limit) } => {
                return ("Request body too large", format!("The body must be at most {limit} bytes.").into());
            }
            Self::BodyTooLarge { limit: None } => {
                ("Request body too large", "The body is larger than this service takes.")
            }
            Self::EarlyData => ("Too early", "Send the request again outside TLS early data."),
            Self::InProgress { .. } => (
                "Request in progress",
                "A request with this key is being carried out; ask again later with the same key.",
            ),
            Self::InDoubt { .. } => (
                "Outcome in doubt",
                "An earlier request with this key may have taken effect; its outcome is being looked into. Keep the key.",
            ),
            Self::Mismatch => (
                "Idempotency key reused",
                "This key was used for another request; use a fresh key for a new operation.",
            ),
            Self::StoreUnavailable => {
                ("Temporarily unavailable", "Nothing was done; try again with the same key.")
            }
            Self::EffectNotDone => (
                "Temporarily unavailable",
                "A service that this request needs did not take it on; try again with the same key.",
            ),
            Self::RolledBack => (
                "Temporarily unavailable",
                "The last part of it could not be committed, and nothing of that part is there; try again with the same key.",
            ),
            Self::OutcomeUnknown => (
                "Outcome unknown",
                "The request may have been carried out; ask again with the same key to find out.",
            ),
            Self::HandlerPanicked => ("Internal server error", "Try again with the same key."),
            Self::EffectUnknown => (
                "Outcome unknown",
                "The request may have been carried out; its outcome is being looked into. Keep the key.",
            ),
            Self::Corrupt => {
                ("Internal server error", "The record of this key cannot be read; nothing was done now.")
            }
            Self::NoScope
            | Self::LayeredTwice
            | Self::NotLayered
            | Self::TakenTwice
            | Self::Misconfigured => ("Internal server error", "The service is put together wrongly."),
        };
        (title, detail.into())
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Rejection {
    fn into_response(self) -> axum::response::Response {
        self.response(&Style::default())
    }
}

#[cfg(test)]
mod tests;
