//! Which headers of an answer are stored, and so replayed.

use std::sync::Arc;

use http::HeaderName;
use idem_core::KeepHeaders;

/// Stored unless told otherwise: what describes the body, and where the result is.
///
/// A replayed 201 without its `Location` is not the same answer.
const ALLOWED: [&str; 8] = [
    "content-type",
    "content-language",
    "content-encoding",
    "location",
    "content-location",
    "etag",
    "last-modified",
    "link",
];

/// Never stored, whatever is configured: they belong to one connection, one exchange or one caller.
const DENIED: [&str; 27] = [
    // Connection and framing: RFC 9110, section 7.6.1. The length is counted anew.
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // The moment and the path of one exchange.
    "age",
    "date",
    "retry-after",
    "server",
    "via",
    // Credentials and challenges.
    "authentication-info",
    "authorization",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    // Names of one request.
    "correlation-id",
    "request-id",
    "traceparent",
    "tracestate",
    "x-correlation-id",
    "x-request-id",
];

/// Families that are never stored: limits as of one moment, and permissions of one origin.
const DENIED_PREFIXES: [&str; 4] = ["access-control-", "ratelimit", "x-ratelimit", "x-rate-limit"];

/// Headers that a message without that body, or with another one, must not carry over from it.
pub(crate) const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "trailer"];

/// The rule of a layer: `more` are its own names, `marker` is the replay marker, which is never stored.
pub(crate) fn keep_rule(more: &[HeaderName], marker: &HeaderName) -> KeepHeaders {
    let more = more.to_vec();
    let marker = marker.clone();
    Arc::new(move |name| {
        !is_denied(name)
            && name != marker
            && (ALLOWED.contains(&name) || more.iter().any(|more| more == name))
    })
}

fn is_denied(name: &str) -> bool {
    DENIED.contains(&name) || DENIED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(more: &[&'static str]) -> KeepHeaders {
        let more: Vec<_> = more.iter().map(|name| HeaderName::from_static(name)).collect();
        keep_rule(&more, &HeaderName::from_static("idempotent-replayed"))
    }

    #[test]
    fn r04_what_describes_the_answer_is_stored() {
        let keep = rule(&["x-total-count"]);
        for name in ALLOWED.into_iter().chain(["x-total-count"]) {
            assert!(keep(name), "{name}");
        }
        for name in ["x-other", "cache-control", "vary", ""] {
            assert!(!keep(name), "{name}");
        }
    }

    #[test]
    fn b044_the_deny_list_beats_what_is_configured() {
        let families = [
            "access-control-allow-origin",
            "ratelimit-limit",
            "ratelimit",
            "x-ratelimit-reset",
            "x-rate-limit",
        ];
        let denied: Vec<_> = DENIED.into_iter().chain(families).chain(["idempotent-replayed"]).collect();
        let keep = rule(&denied);
        for name in denied {
            assert!(!keep(name), "{name}");
        }
    }
}
