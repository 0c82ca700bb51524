//! An answer, kept as bytes.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Invalid};

/// An answer as it will be given now and on every retry, byte for byte.
///
/// A status from 200 to 599, headers in order with their repetitions, and the body's bytes. Nothing is parsed,
/// re-encoded or re-ordered on the way to the store and back. A 200 without bytes, a 200 with the body `null` and a
/// 204 are three different answers.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    status: u16,
    headers: Vec<(String, Bytes)>,
    body: Bytes,
}

/// The version byte of [`StoredResponse::encode_headers`].
const HEADERS_V1: u8 = 1;

impl StoredResponse {
    /// An answer with a status and a body.
    ///
    /// # Errors
    /// [`Invalid`] if `status` is not a final status, 200 to 599.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Result<Self, Invalid> {
        if !(200..=599).contains(&status) {
            return Err(Invalid::new("status", "200 to 599").seen(status));
        }
        Ok(Self { status, headers: Vec::new(), body: body.into() })
    }

    /// An answer whose body is `value` as JSON, serialised here and never again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the status is not 200 to 599 or the value does not serialise.
    pub fn json<T: Serialize + ?Sized>(status: u16, value: &T) -> Result<Self, Error> {
        let body = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the answer does not serialise as json").with_source(error)
        })?;
        Ok(Self::new(status, body)?.header("content-type", "application/json"))
    }

    /// Adds a header line; lines of one name keep their order. The name is kept in lower case.
    ///
    /// A line that no HTTP message can carry is refused when an operation is completed with it.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<str>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.as_ref().to_ascii_lowercase(), value.into()));
        self
    }

    /// The same answer with only those header lines whose name `keep` accepts.
    #[must_use]
    pub fn retain_headers(mut self, mut keep: impl FnMut(&str) -> bool) -> Self {
        self.headers.retain(|(name, _)| keep(name));
        self
    }

    /// Refuses a header line that no HTTP message can carry: a name that is no token, control characters in a value.
    ///
    /// **Source:** RFC 9110, sections 5.5 and 5.6.2.
    pub(crate) fn check_headers(&self) -> Result<(), Invalid> {
        for (name, value) in &self.headers {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Invalid::new("header name", "1 or more characters of a token").seen(name.len()));
            }
            if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
                return Err(Invalid::new("header value", "without control characters").seen(value.len()));
            }
        }
        Ok(())
    }

    /// The answer that is stored in place of one that cannot be: too large, endless, or broken off.
    ///
    /// A problem document with status 409, type `response-not-kept` and the original status as a member. It is an
    /// ordinary answer: the operation has ended, and a retry learns that its result is not kept.
    pub fn not_kept(status: u16) -> Self {
        let body = format!(
            r#"{{"type":"urn:idem:problem:response-not-kept","title":"The response was not kept","status":409,"detail":"The request was carried out once; its response was too large or could not be recorded.","original_status":{status}}}"#
        );
        Self { status: 409, headers: Vec::new(), body: body.into() }
            .header("content-type", "application/problem+json")
            .header("cache-control", "no-store")
    }

    /// The status code, 200 to 599.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The header lines: names in lower case, values as bytes.
    pub fn headers(&self) -> &[(String, Bytes)] {
        &self.headers
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the body is not JSON of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "the stored answer does not decode").with_source(error)
        })
    }

    /// The size that limits are compared with, in bytes: body, header names and header values.
    pub fn size(&self) -> usize {
        self.headers.iter().fold(self.body.len(), |sum, (name, value)| sum + name.len() + value.len())
    }

    /// The header lines as one value for a store's column: a version byte, then length-prefixed names and values.
    pub fn encode_headers(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(1 + self.size() - self.body.len() + 8 * self.headers.len());
        out.put_u8(HEADERS_V1);
        for (name, value) in &self.headers {
            for part in [name.as_bytes(), value] {
                // A header block is bounded far below 4 GiB by every HTTP implementation.
                out.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
                out.put_slice(part);
            }
        }
        out.freeze()
    }

    /// Builds an answer from a store's columns, the inverse of [`StoredResponse::encode_headers`].
    ///
    /// # Errors
    /// [`Invalid`] if the status is impossible or the header block is of an unknown version or cut short; a store
    /// reports that as `Corrupt`.
    pub fn from_columns(
        status: u16,
        headers: impl Into<Bytes>,
        body: impl Into<Bytes>,
    ) -> Result<Self, Invalid> {
        let mut response = Self::new(status, body)?;
        let mut block = headers.into();
        let bad =
            |block: &Bytes| Invalid::new("stored headers", "a complete block of version 1").seen(block.len());
        if block.is_empty() || block.get_u8() != HEADERS_V1 {
            return Err(bad(&block));
        }
        let part = |block: &mut Bytes| {
            let size = block.try_get_u32().ok()? as usize;
            (size <= block.len()).then(|| block.split_to(size))
        };
        while block.has_remaining() {
            let (Some(name), Some(value)) = (part(&mut block), part(&mut block)) else {
                return Err(bad(&block));
            };
            let name = String::from_utf8(name.to_vec()).map_err(|_| bad(&block))?;
            response.headers.push((name, value));
        }
        Ok(response)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Shows sizes, never contents.
impl fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r20_a_stored_header_block_of_version_1_still_decodes() {
        let golden = [&[1, 0, 0, 0, 4][..], b"link", &[0, 0, 0, 2], b"<a"].concat();
        let response = StoredResponse::from_columns(201, golden.clone(), "x").expect("golden row");
        assert_eq!(response.headers(), [("link".to_owned(), Bytes::from("<a"))]);
        assert_eq!(response.encode_headers(), golden);
    }

    #[test]
    fn b168_an_unknown_version_or_a_cut_block_is_an_error() {
        for block in [&[][..], &[2], &[1, 0, 0, 0, 9, b'a'], &[1, 0], &[1, 0, 0, 0, 1, b'a']] {
            assert!(StoredResponse::from_columns(200, block.to_vec(), "").is_err(), "{block:?}");
        }
    }

    #[test]
    fn r03_no_body_empty_body_and_null_differ() {
        let answers = [(204, ""), (200, ""), (200, "null")]
            .map(|(status, body)| StoredResponse::new(status, body).expect("valid"));
        assert!(answers[0] != answers[1] && answers[1] != answers[2] && answers[0] != answers[2]);
    }

    #[test]
    fn v04_debug_shows_no_content() {
        let response = StoredResponse::new(200, "body-secret").expect("valid").header("x-a", "header-secret");
        assert!(!format!("{response:?}").contains("secret"));
    }

    #[test]
    fn status_is_200_to_599() {
        for status in [0, 100, 199, 600, u16::MAX] {
            assert!(StoredResponse::new(status, "").is_err(), "{status}");
        }
    }

    proptest! {
        #[test]
        fn r07_headers_keep_order_count_and_bytes(
            status in 200_u16..=599,
            headers in prop::collection::vec(("[a-z-]{0,12}", prop::collection::vec(any::<u8>(), 0..20)), 0..6),
            body in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let response = headers.into_iter().fold(StoredResponse::new(status, body).expect("valid"), |r, (n, v)| r.header(n, v));
            let again = StoredResponse::from_columns(status, response.encode_headers(), response.body().clone());
            prop_assert_eq!(again.expect("decodes"), response);
        }

        #[test]
        fn decoding_never_panics(block in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = StoredResponse::from_columns(200, block, "");
        }
    }
}
