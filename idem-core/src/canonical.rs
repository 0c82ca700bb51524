//! The normal forms behind a fingerprint: two spellings of one value become the same bytes, two values never do.
//!
//! A fingerprint decides whether a retry gets the stored answer or a refusal, so a normal form may err in one
//! direction only. Calling two spellings of a request different costs one honest 422; calling two *values*
//! equal replays the answer of another payment. Everything here is therefore lossless, and what has no certain
//! reading is not normalised at all: the caller falls back to the exact bytes.
//!
//! | file | does |
//! |---|---|
//! | `scan.rs` | raw text to values; every refusal is made here |
//! | `write.rs` | values to the one canonical text |
//! | `number.rs` | a number's exact decimal value, without a float |
//! | `pairs.rs` | query strings and form bodies |

mod number;
mod pairs;
mod scan;
mod write;

#[cfg(test)]
mod json_model;
#[cfg(test)]
mod json_properties;
#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod pairs_tests;

pub(crate) use pairs::canonical_pairs;

/// How deep arrays and objects may nest before a body is [`NotCanonical::TooDeep`].
///
/// The scanner calls itself once per level, so the bound is what keeps a body of brackets off the stack.
/// `serde_json` stops at about the same depth: a handler built on it refuses such a body anyway.
pub(crate) const MAX_DEPTH: usize = 128;

/// The one canonical text of a JSON document: equal for equal values, different for different ones.
///
/// * Object members are sorted by name, compared as UTF-16 code units. White space is dropped.
/// * Strings are equal when they decode to the same code points: `"\u0041"` is `"A"`, but a decomposed `Å` is
///   not the composed one, since nothing is normalised beyond the escapes.
/// * Numbers are equal when their exact decimal values are: `1`, `1.0`, `1e0` and `10e-1` agree, so do `0` and
///   `-0`; `9007199254740993` and `…992` do not, nor do `0.1` and `0.10000000000000001`. No digit passes
///   through a float and exponents have no bound.
///
/// The result is itself JSON, and its own canonical form. It is not RFC 8785 text: that rule prints numbers as
/// IEEE doubles and so gives two large integers one spelling.
///
/// Time is that of sorting the members; memory is proportional to `raw`, whatever the exponents say.
///
/// # Errors
///
/// [`NotCanonical`] when `raw` has no certain value. Compare such a body by its exact bytes, under a tag that no
/// canonical text carries; [`FingerprintBuilder::json_body`](crate::FingerprintBuilder::json_body) does both.
///
/// # Examples
///
/// ```
/// use idem_core::{NotCanonical, canonical_json};
///
/// let sent = canonical_json(br#"{"currency": "EUR", "amount": 10.00}"#)?;
/// let retried = canonical_json(br#"{"amount":10,"currency":"\u0045UR"}"#)?;
/// assert_eq!(sent, retried);
/// assert_eq!(sent, br#"{"amount":1e1,"currency":"EUR"}"#);
///
/// let twice = canonical_json(br#"{"amount":1,"amount":2}"#);
/// assert!(matches!(twice, Err(NotCanonical::DuplicateName { .. })));
/// # Ok::<(), NotCanonical>(())
/// ```
///
/// **Source:** RFC 8259 (grammar), RFC 7493 (no duplicate names, no lone surrogates), RFC 8785 section 3.2.3
/// (member order) and section 3.2.2.2 (string escapes).
pub fn canonical_json(raw: &[u8]) -> Result<Vec<u8>, NotCanonical> {
    let value = scan::scan(raw)?;
    let mut text = Vec::with_capacity(raw.len());
    write::write(&value, &mut text);
    Ok(text)
}

/// Why a body has no canonical JSON form. It says where, never what: bodies do not belong in a log.
///
/// Offsets count bytes from the start of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCanonical {
    /// The body is not UTF-8.
    #[error("body is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first byte that cannot be read.
        at: usize,
    },
    /// The body is not one JSON text: a byte-order mark, `NaN`, a trailing comma, bytes after the end.
    #[error("body is not JSON at byte {at}")]
    Syntax {
        /// Where the grammar was left.
        at: usize,
    },
    /// A `\u` escape names half of a surrogate pair, which no Unicode string can hold.
    #[error("body holds a lone surrogate at byte {at}")]
    LoneSurrogate {
        /// Just behind the escape.
        at: usize,
    },
    /// An object names one member twice. Readers disagree on which one counts, so neither does.
    #[error("body names an object member twice, in the object that ends at byte {at}")]
    DuplicateName {
        /// Just behind the object.
        at: usize,
    },
    /// Arrays and objects nest more than 128 deep.
    #[error("body nests deeper than {MAX_DEPTH} at byte {at}")]
    TooDeep {
        /// The bracket that went too far.
        at: usize,
    },
}
