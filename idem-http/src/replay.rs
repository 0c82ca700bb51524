//! Stored answers as responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, response::Parts};
use idem_core::{KeepHeaders, StoredResponse};

use crate::{Rejection, keep::FRAMING};

/// Says of an answer that it is an earlier one's, unless told otherwise.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The stored status, headers and bytes, with the marker.
///
/// # Errors
/// [`Rejection::Corrupt`] if what was stored is not an HTTP message.
pub(crate) fn replayed<B: From<Bytes>>(
    stored: &StoredResponse,
    marker: &HeaderName,
) -> Result<Response<B>, Rejection> {
    let mut response = response_of(stored)?;
    response.headers_mut().insert(marker, HeaderValue::from_static("true"));
    Ok(response)
}

/// The stored status, headers and bytes, and of the inner response those headers that are never stored.
///
/// # Errors
/// As [`replayed`].
pub(crate) fn executed<B: From<Bytes>>(
    stored: &StoredResponse,
    inner: Option<Parts>,
    keep: &KeepHeaders,
) -> Result<Response<B>, Rejection> {
    let mut response = response_of(stored)?;
    if let Some(inner) = inner {
        let of_this_exchange = |name: &HeaderName| !keep(name.as_str()) && !FRAMING.contains(&name.as_str());
        for (name, value) in inner.headers.iter().filter(|(name, _)| of_this_exchange(name)) {
            response.headers_mut().append(name, value.clone());
        }
        *response.extensions_mut() = inner.extensions;
    }
    Ok(response)
}

fn response_of<B: From<Bytes>>(stored: &StoredResponse) -> Result<Response<B>, Rejection> {
    let mut response = Response::new(B::from(stored.body().clone()));
    *response.status_mut() = StatusCode::from_u16(stored.status()).map_err(|_| Rejection::Corrupt)?;
    *response.headers_mut() = headers_of(stored).ok_or(Rejection::Corrupt)?;
    Ok(response)
}

fn headers_of(stored: &StoredResponse) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(stored.headers().len());
    for (name, value) in stored.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(value.clone()).ok()?);
    }
    Some(headers)
}
