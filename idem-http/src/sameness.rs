//! What makes two requests the same, unless a route says otherwise.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Uri, header, request::Parts};
use idem_core::{Fingerprint, Fingerprints};

/// A route's own rule: the head of the request and its body.
pub(crate) type Custom = Arc<dyn Fn(&Parts, &Bytes) -> Fingerprints + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Sameness {
    pub(crate) custom: Option<Custom>,
    pub(crate) ignored_query: Vec<String>,
    pub(crate) pepper: Option<Vec<u8>>,
}

impl Sameness {
    /// Method, path, normalised query, type of the content, canonical body.
    pub(crate) fn of(&self, parts: &Parts, body: &Bytes) -> Fingerprints {
        if let Some(custom) = &self.custom {
            return custom(parts, body);
        }
        let uri = original_uri(parts);
        let ignored: Vec<&str> = self.ignored_query.iter().map(String::as_str).collect();
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let request = Fingerprint::of("http")
            .field("method", parts.method.as_str())
            .field("path", uri.path())
            .query_ignoring(uri.query().unwrap_or_default(), &ignored)
            .content(content_type, body);
        match &self.pepper {
            Some(pepper) => request.pepper(pepper).finish(),
            None => request.finish(),
        }
    }
}

/// Shows what is set, never the pepper.
impl fmt::Debug for Sameness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sameness")
            .field("custom", &self.custom.is_some())
            .field("ignored_query", &self.ignored_query)
            .field("peppered", &self.pepper.is_some())
            .finish()
    }
}

/// The URI as the client sent it: inside axum's `nest`, `/v1/charges` and `/v2/charges` both show as `/charges`.
pub(crate) fn original_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri;
    }
    &parts.uri
}
