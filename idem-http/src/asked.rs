//! A request as it is stored with its claim, and back.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Request, Uri, header::HeaderMap, request::Parts};
use idem_core::{BoxError, Invalid, StoredRequest};

use crate::sameness::original_uri;

/// Method, path with query, headers, body; each but the last with its length before it.
const V1: u8 = 1;

/// Stored unless told otherwise: what says how the body is read, and how the answer is to be written.
const ALLOWED: [&str; 5] =
    ["accept", "accept-language", "content-encoding", "content-language", "content-type"];

/// Never stored, whatever is configured: what proves who a caller is, and what belongs to one connection.
const DENIED: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "dpop",
    "host",
    "proxy-authorization",
    "signature",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Parts of names that secrets go by.
const SECRET: [&str; 8] = ["api-key", "apikey", "auth", "csrf", "password", "secret", "session", "token"];

/// What a layer stores of a request; nothing without a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) route: Option<String>,
    /// Stored beside those that always are.
    pub(crate) headers: Vec<HeaderName>,
}

impl Asked {
    /// What goes with the claim; nothing if it is larger than a claim can carry.
    ///
    /// # Errors
    /// [`Invalid`] if the route's name is none.
    pub(crate) fn of(&self, parts: &Parts, body: &Bytes) -> Result<Option<StoredRequest>, Invalid> {
        let Some(route) = self.route.as_deref() else { return Ok(None) };
        let fits = |data: &Bytes| data.len() <= StoredRequest::MAX_DATA;
        let data = fits(body).then(|| self.encode(parts, body)).filter(fits);
        let is_kept = data.is_some();
        let request = StoredRequest::new(route, data.unwrap_or_default())?;
        Ok(is_kept.then_some(request))
    }

    fn encode(&self, parts: &Parts, body: &Bytes) -> Bytes {
        let uri = original_uri(parts).path_and_query().map_or("/", |path| path.as_str());
        let headers: Vec<_> = parts.headers.iter().filter(|(name, _)| self.keeps(name)).collect();
        let mut out = BytesMut::with_capacity(uri.len() + body.len() + 256);
        out.put_u8(V1);
        put(&mut out, parts.method.as_str().as_bytes());
        put(&mut out, uri.as_bytes());
        out.put_u32(u32::try_from(headers.len()).unwrap_or(u32::MAX));
        for (name, value) in headers {
            put(&mut out, name.as_str().as_bytes());
            put(&mut out, value.as_bytes());
        }
        out.put_slice(body);
        out.freeze()
    }

    fn keeps(&self, name: &HeaderName) -> bool {
        let is_secret =
            DENIED.contains(&name.as_str()) || SECRET.iter().any(|part| name.as_str().contains(part));
        !is_secret && (ALLOWED.contains(&name.as_str()) || self.headers.contains(name))
    }
}

fn put(out: &mut BytesMut, part: &[u8]) {
    // A head is bounded far below 4 GiB by every HTTP implementation.
    out.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
    out.put_slice(part);
}

/// The request that was stored.
///
/// # Errors
/// If it is of another version, or not whole: then nobody guesses.
pub(crate) fn decode(data: Bytes) -> Result<Request<Bytes>, BoxError> {
    let mut left = data;
    if left.try_get_u8()? != V1 {
        return Err("the stored request is of another version".into());
    }
    let method = Method::from_bytes(&take(&mut left)?)?;
    let uri = Uri::try_from(&*take(&mut left)?)?;
    let mut headers = HeaderMap::new();
    for _ in 0..left.try_get_u32()? {
        let name = HeaderName::from_bytes(&take(&mut left)?)?;
        headers.append(name, HeaderValue::from_maybe_shared(take(&mut left)?)?);
    }
    let mut request = Request::new(left);
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Ok(request)
}

fn take(left: &mut Bytes) -> Result<Bytes, BoxError> {
    let length = left.try_get_u32()? as usize;
    if length > left.len() {
        return Err("the stored request is cut short".into());
    }
    Ok(left.split_to(length))
}

#[cfg(test)]
mod tests {
    use http::header;
    use proptest::prelude::*;

    use super::*;

    fn asked(headers: &[&'static str]) -> Asked {
        let headers = headers.iter().map(|name| HeaderName::from_static(name)).collect();
        Asked { route: Some("charges".to_owned()), headers }
    }

    fn stored(asked: &Asked, request: Request<Bytes>) -> Option<StoredRequest> {
        let (parts, body) = request.into_parts();
        asked.of(&parts, &body).expect("a route")
    }

    fn through(asked: &Asked, request: Request<Bytes>) -> Request<Bytes> {
        decode(stored(asked, request).expect("small").data().clone()).expect("decodes")
    }

    #[test]
    fn t19_no_secret_is_stored_whatever_is_configured() {
        let secrets = [
            "authorization",
            "cookie",
            "proxy-authorization",
            "x-api-key",
            "x-amz-security-token",
            "x-session-id",
            "x-csrf",
            "x-auth-request-user",
            "signature",
            "x-client-secret",
        ];
        let request = secrets.iter().chain(&ALLOWED).chain(&["x-version", "x-other"]);
        let request = request.fold(Request::post("/charges"), |request, name| request.header(*name, "v"));
        let request = request.body(Bytes::from("body")).expect("a request");
        let names: Vec<_> = secrets.into_iter().chain(["x-version"]).collect();
        let again = through(&asked(&names), request);
        let mut kept: Vec<_> = again.headers().keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(
            kept,
            [
                "accept",
                "accept-language",
                "content-encoding",
                "content-language",
                "content-type",
                "x-version"
            ]
        );
    }

    #[test]
    fn t19_a_stored_request_of_version_1_still_decodes() {
        let head = [&[1, 0, 0, 0, 4][..], b"POST", &[0, 0, 0, 6], b"/c?d=1", &[0, 0, 0, 1]].concat();
        let header = [&[0, 0, 0, 12][..], b"content-type", &[0, 0, 0, 2], b"a\xe9"].concat();
        let golden = [&head[..], &header, b"\0\xff"].concat();
        let request = decode(golden.clone().into()).expect("golden row");
        assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::POST, "/c?d=1"));
        assert_eq!(request.headers()[header::CONTENT_TYPE].as_bytes(), b"a\xe9");
        assert_eq!(request.body(), &b"\0\xff"[..]);
        assert_eq!(stored(&asked(&[]), request).expect("small").data(), &golden);
        for cut in 0..head.len() + header.len() {
            assert!(decode(Bytes::copy_from_slice(&golden[..cut])).is_err(), "cut after {cut} bytes");
        }
        assert!(decode(Bytes::from_static(&[2])).is_err(), "of a newer version");
    }

    #[test]
    fn t19_what_is_too_large_is_not_stored_and_a_route_without_a_name_is_refused() {
        let body = |length| Request::post("/").body(Bytes::from(vec![0; length])).expect("a request");
        assert!(stored(&asked(&[]), body(StoredRequest::MAX_DATA - 18)).is_some());
        assert!(stored(&asked(&[]), body(StoredRequest::MAX_DATA - 17)).is_none());
        let nameless = Asked { route: Some(String::new()), ..asked(&[]) };
        for length in [0, StoredRequest::MAX_DATA] {
            let (parts, body) = body(length).into_parts();
            assert!(nameless.of(&parts, &body).is_err());
        }
    }

    #[test]
    fn t19_of_the_uri_the_path_and_query_are_stored() {
        let request =
            Request::post("https://user@shop.test:8443/charges/7?x=%20").body(Bytes::new()).expect("valid");
        assert_eq!(through(&asked(&[]), request).uri(), "/charges/7?x=%20");
    }

    proptest! {
        #[test]
        fn t11_what_was_sent_comes_back_byte_for_byte(
            lines in prop::collection::vec(("[a-z]{1,9}", "[ -~\u{e9}]{0,20}"), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let asked = Asked { route: Some("r".to_owned()), headers: lines.iter().filter_map(|(name, _)| name.parse().ok()).collect() };
            let mut request = Request::patch("/a/b?c=d").body(Bytes::from(body)).expect("valid");
            for (name, value) in lines {
                let (name, value) = (HeaderName::try_from(name).expect("a name"), HeaderValue::try_from(value).expect("a value"));
                if asked.keeps(&name) {
                    request.headers_mut().append(name, value);
                }
            }
            let again = through(&asked, request.clone());
            prop_assert_eq!(again.method(), request.method());
            prop_assert_eq!(again.headers(), request.headers());
            prop_assert_eq!(again.body(), request.body());
        }

        #[test]
        fn decoding_never_panics(data in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(data.into());
        }
    }
}
