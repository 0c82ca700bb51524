//! Gathers the parts of a request and digests them, version 1.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::{Fingerprint, Fingerprints};
use crate::canonical::{canonical_json, canonical_pairs};

/// The version that [`FingerprintBuilder::finish`] writes.
const VERSION: u8 = 1;

/// Opens every version 1 message, so that a digest made here equals none that was made for another purpose.
const DOMAIN: &[u8] = b"idem fingerprint 1";

/// The parts of a request that make it this request and no other. Starts with [`Fingerprint::of`].
///
/// Put in what changes the meaning: the method, the path with its parameters, the query, the tenant, the body.
/// Leave out what an honest retry may change: dates, trace ids, credentials, the idempotency key itself. For a
/// fingerprint of selected values only, give those as [`field`](Self::field)s and no body.
///
/// Every part counts, an empty one too: `body(b"")` differs from no body. The order of calls counts only between
/// parts of one method and one name (two `field("tag", …)`, two `body(…)`): swapping two lines of a handler does
/// not turn the retries of yesterday's requests into mismatches.
///
/// # The digest of version 1
///
/// Frozen; any change is a new version. Lengths are eight bytes, big-endian; SHA-256 throughout.
///
/// ```text
/// digest = H( "idem fingerprint 1" | length of kind | kind | part … )     H is SHA-256, or HMAC with the pepper
/// part   = tag | length of name | name | SHA-256(content)                 sorted by tag, then name
/// tag    = 'b' exact body   'c' content type   'f' field   'j' canonical JSON   'q' query   'w' form body
/// ```
///
/// Name is empty except for fields. No two lists of parts make one message: everything is of fixed length or
/// carries its length, and the tag tells a canonical body from an exact one.
///
/// # Examples
///
/// ```
/// use idem_core::Fingerprint;
///
/// let charge = |query: &str, body: &[u8]| {
///     let parts = Fingerprint::of("http").field("method", "POST").field("path", "/charges");
///     parts.query(query).content(Some("application/json"), body).finish()
/// };
/// let first = charge("a=1&b=2", br#"{"amount": 10, "currency": "EUR"}"#);
/// let retry = charge("b=2&a=1", br#"{"currency":"EUR","amount":10.0}"#);
/// let other = charge("a=1&b=2", br#"{"amount": 11, "currency": "EUR"}"#);
///
/// assert!(first.accepts(retry.current()));
/// assert!(!first.accepts(other.current()));
/// ```
#[must_use = "a fingerprint is made by `finish`"]
pub struct FingerprintBuilder {
    kind: String,
    parts: Vec<Part>,
    keyed: Option<Hmac<Sha256>>,
}

/// Sorted by tag and name only; the sort is stable, so equal ones keep the order they were given in.
struct Part {
    tag: Tag,
    name: String,
    digest: [u8; 32],
}

/// The discriminant is the byte that is hashed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Tag {
    Exact = b'b',
    ContentType = b'c',
    Field = b'f',
    Json = b'j',
    Query = b'q',
    Form = b'w',
}

impl FingerprintBuilder {
    pub(super) fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), parts: Vec::new(), keyed: None }
    }

    /// A named value, byte for byte.
    pub fn field(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.named(Tag::Field, name, value.as_ref())
    }

    /// A query string without its `?`; no query is the empty one.
    ///
    /// Names and values are percent-decoded once (`+` is a space) and sorted by name; equal names keep their order.
    /// So `a=1&b=2` is `b=2&a=1`, but `a=1&a=2` is not `a=2&a=1`. `a` and `a=` differ. A broken escape is compared
    /// as it was written.
    pub fn query(self, query: &str) -> Self {
        self.query_ignoring(query, &[])
    }

    /// [`query`](Self::query) without the parameters named in `ignored`, which a retry may change (a cache buster,
    /// a trace id). Names are compared after decoding, case matters.
    pub fn query_ignoring(self, query: &str, ignored: &[&str]) -> Self {
        self.part(Tag::Query, &canonical_pairs(query.as_bytes(), ignored))
    }

    /// A body, byte for byte. Right for everything that has no normal form here, multipart included: its boundary is
    /// part of the bytes, so a retry must send the same bytes again.
    pub fn body(self, body: &[u8]) -> Self {
        self.part(Tag::Exact, body)
    }

    /// A JSON body by its value: member order, white space, escapes and the spelling of numbers do not matter, see
    /// [`canonical_json`]. A body without a certain value (broken, too deep, a member named twice) is compared byte
    /// for byte, as by [`body`](Self::body); telling the client what is wrong with it is the handler's business.
    pub fn json_body(self, body: &[u8]) -> Self {
        match canonical_json(body) {
            Ok(canonical) => self.part(Tag::Json, &canonical),
            Err(_) => self.body(body),
        }
    }

    /// A body of type `application/x-www-form-urlencoded`, by the rules of [`query`](Self::query).
    pub fn form_body(self, body: &[u8]) -> Self {
        self.part(Tag::Form, &canonical_pairs(body, &[]))
    }

    /// A body with its content type, which picks the rules: [`json_body`](Self::json_body) for `application/json`
    /// and every type that ends in `+json`, [`form_body`](Self::form_body) for
    /// `application/x-www-form-urlencoded`, [`body`](Self::body) for all others and for none.
    ///
    /// The type itself is a part as well, in lower case and without its parameters: a retry may say
    /// `; charset=utf-8` where the first call did not, but a JSON patch never equals a merge patch of the same bytes.
    /// No type and an empty one are the same.
    ///
    /// `body` is the body after any `Content-Encoding` was undone; otherwise a client that compresses its retry gets
    /// a mismatch.
    pub fn content(self, content_type: Option<&str>, body: &[u8]) -> Self {
        let media_type = content_type.and_then(|full| full.split(';').next()).unwrap_or_default();
        let media_type = media_type.trim().to_ascii_lowercase();
        let typed = self.part(Tag::ContentType, media_type.as_bytes());
        match media_type.as_str() {
            "application/x-www-form-urlencoded" => typed.form_body(body),
            json if json == "application/json" || json.ends_with("+json") => typed.json_body(body),
            _ => typed.body(body),
        }
    }

    /// Makes the digest an HMAC with this secret, so that whoever reads the table cannot find a short body (a card
    /// number, a one-time code) by hashing guesses. The place in the chain does not matter; a second pepper replaces
    /// the first.
    ///
    /// All processes share one pepper. To change it, let every process [accept](Fingerprints::accept) the fingerprint
    /// under the old one for a retention: the version byte tells rules apart, not secrets. An empty pepper keeps no
    /// secret.
    pub fn pepper(mut self, pepper: &[u8]) -> Self {
        self.keyed = Some(keyed(pepper));
        self
    }

    /// The fingerprint under every version of the rules there is; today that is version 1 alone.
    pub fn finish(mut self) -> Fingerprints {
        self.parts.sort_by(|one, other| (one.tag, &one.name).cmp(&(other.tag, &other.name)));
        let mut message = DOMAIN.to_vec();
        push_counted(self.kind.as_bytes(), &mut message);
        for part in &self.parts {
            message.push(part.tag as u8);
            push_counted(part.name.as_bytes(), &mut message);
            message.extend_from_slice(&part.digest);
        }
        let digest = match self.keyed {
            Some(keyed) => keyed.chain_update(&message).finalize().into_bytes().into(),
            None => Sha256::digest(&message).into(),
        };
        Fingerprints::new(Fingerprint { version: VERSION, digest })
    }

    fn part(self, tag: Tag, content: &[u8]) -> Self {
        self.named(tag, "", content)
    }

    fn named(mut self, tag: Tag, name: &str, content: &[u8]) -> Self {
        self.parts.push(Part { tag, name: name.to_owned(), digest: Sha256::digest(content).into() });
        self
    }
}

/// Shows how much was gathered, never what.
impl fmt::Debug for FingerprintBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FingerprintBuilder")
            .field("parts", &self.parts.len())
            .field("peppered", &self.keyed.is_some())
            .finish_non_exhaustive()
    }
}

fn push_counted(bytes: &[u8], message: &mut Vec<u8>) {
    message.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    message.extend_from_slice(bytes);
}

#[expect(clippy::expect_used, reason = "RFC 2104 defines HMAC for keys of every length")]
fn keyed(pepper: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(pepper).expect("HMAC takes keys of every length")
}
