//! Errors as problem documents.

use std::{borrow::Cow, error::Error as StdError, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::Rejection;

/// The longest `Retry-After` that is sent: a client that was told an hour is a client that was lost.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

/// An error as `application/problem+json`.
///
/// Made by `?` from every type that implements `Error`: this project's keep their meaning ("try again with the same
/// key", "somebody else has it"), any other is logged and becomes a bare 500 that says nothing of its cause. A refusal
/// that the client is to read is made with [`Problem::new`]. It is never cached.
///
/// As a handler's answer a problem is judged like any other. Under a resumable policy a 4xx ends the operation and is
/// replayed, a 5xx does not end it. Under an *opaque* one every answer is final, the bare 500 of a foreign error too:
/// where the outside world gave no answer and it may have happened, answer with [`Problem::outcome_unknown`].
///
/// **Source:** RFC 9457.
///
/// ```
/// use http::StatusCode;
/// use idem_http::Problem;
///
/// let sold_out = Problem::new(StatusCode::CONFLICT, "Sold out").kind("https://shop.example/problems/sold-out");
/// let response = sold_out.response::<bytes::Bytes>();
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
///
/// let leaky: Problem = std::io::Error::other("password=hunter2").into();
/// assert!(!format!("{:?}", leaky.response::<bytes::Bytes>().body()).contains("hunter2"));
/// ```
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    kind: Cow<'static, str>,
    title: Cow<'static, str>,
    detail: Option<Cow<'static, str>>,
    retry_after: Option<Duration>,
    rejection: Option<Rejection>,
}

impl Problem {
    /// 503: it may have happened, and this handler cannot find out. It is no answer that is kept.
    ///
    /// Under an opaque policy the operation is left and will be in doubt until somebody decides; under a resumable one
    /// the next request with the key runs the handler again.
    pub fn outcome_unknown() -> Self {
        Rejection::OutcomeUnknown.problem()
    }

    pub(crate) fn of(self, rejection: Rejection) -> Self {
        Self { rejection: Some(rejection), ..self }
    }

    /// A problem of type `about:blank`.
    pub fn new(status: StatusCode, title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            kind: "about:blank".into(),
            title: title.into(),
            detail: None,
            retry_after: None,
            rejection: None,
        }
    }

    /// The URI that names this kind of problem for programs; default `about:blank`.
    #[must_use]
    pub fn kind(mut self, uri: impl Into<Cow<'static, str>>) -> Self {
        self.kind = uri.into();
        self
    }

    /// What a person can do about this occurrence. It is sent: no key, body or secret belongs here.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Sends `Retry-After`: whole seconds, rounded up, at least 1 and at most [`MAX_RETRY_AFTER`].
    ///
    /// **Source:** RFC 9110, section 10.2.3.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The problem as an answer.
    pub fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut document = json!({ "type": self.kind, "title": self.title, "status": self.status.as_u16() });
        if let (Some(detail), Some(members)) = (&self.detail, document.as_object_mut()) {
            members.insert("detail".to_owned(), json!(detail));
        }
        let mut response = Response::new(B::from(document.to_string().into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, delay_seconds(wait).into());
        }
        if let Some(rejection) = &self.rejection {
            // The layer sees that this is no answer of the handler's to be kept.
            response.extensions_mut().insert(rejection.clone());
        }
        response
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        let any: &(dyn StdError + 'static) = &error;
        if let Some(rejection) = any.downcast_ref::<Rejection>() {
            return rejection.problem();
        }
        if let Some(error) = any.downcast_ref::<idem_core::Error>() {
            return Rejection::of(error).problem();
        }
        tracing::error!(error = any, "answered with a bare 500");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.response()
    }
}

fn delay_seconds(wait: Duration) -> u64 {
    let rounded_up = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    rounded_up.clamp(1, MAX_RETRY_AFTER.as_secs())
}

#[cfg(test)]
mod tests {
    use idem_core::{StoreError, StoreErrorKind};

    use super::*;

    #[test]
    fn e09_retry_after_is_whole_seconds_rounded_up_at_least_one_and_capped() {
        let table =
            [(0, 1), (1, 1), (200, 1), (1_000, 1), (1_001, 2), (89_999, 90), (300_000, 300), (u64::MAX, 300)];
        for (millis, seconds) in table {
            assert_eq!(delay_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
        }
        assert_eq!(delay_seconds(Duration::MAX), 300);
    }

    #[test]
    fn e04_a_problem_is_a_document_with_its_status_and_is_never_cached() {
        let problem = Problem::new(StatusCode::GONE, "Gone").kind("urn:x:gone").detail("for good");
        let response: Response<Bytes> = problem.response();
        let document: serde_json::Value = serde_json::from_slice(response.body()).expect("json");
        assert_eq!(
            document,
            json!({ "type": "urn:x:gone", "title": "Gone", "status": 410, "detail": "for good" })
        );
        assert_eq!(response.status(), StatusCode::GONE);
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn a_foreign_error_is_a_bare_500() {
        let response: Response<Bytes> = Problem::from(std::io::Error::other("secret")).response();
        let body = std::str::from_utf8(response.body()).expect("text");
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!body.contains("secret"), "{body}");
    }

    #[test]
    fn an_error_of_this_project_keeps_its_meaning() {
        let unavailable = StoreError::new(StoreErrorKind::Unavailable, "claim");
        let problem = Problem::from(idem_core::Error::from(unavailable));
        assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.response::<Bytes>().headers().contains_key(header::RETRY_AFTER));
        assert_eq!(Problem::from(Rejection::Mismatch).status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
}
