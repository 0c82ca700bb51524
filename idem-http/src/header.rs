//! The request header that carries the key.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use idem_core::{Invalid, Key};

mod string;

/// The header that carries the key, unless told otherwise.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Which spellings of a key are accepted.
///
/// The specification makes the value a quoted string; most clients send it bare. A value that is malformed under the
/// chosen mode is refused, never taken for "no key": that would run the request unprotected.
///
/// **Source:** draft-ietf-httpapi-idempotency-key-header, section 2.1; RFC 9651, section 4.2.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `"key"` only, with the two escapes `\"` and `\\`.
    Strict,
    /// `"key"`, or the bare key; both are the same key. A bare one has no quote, backslash, comma, semicolon, question
    /// mark, apostrophe or space in it, so that a mistake in quoting is caught and not stored.
    #[default]
    Tolerant,
    /// The whole value is the key, quotes included.
    RawOnly,
}

/// A rule of the service's own about keys, such as "a UUID".
pub(crate) type Format = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Where the key is looked for and what it may look like.
#[derive(Clone)]
pub(crate) struct KeyHeader {
    pub(crate) name: HeaderName,
    pub(crate) aliases: Vec<HeaderName>,
    pub(crate) mode: Mode,
    pub(crate) length: RangeInclusive<usize>,
    pub(crate) format: Option<Format>,
}

impl Default for KeyHeader {
    fn default() -> Self {
        Self {
            name: IDEMPOTENCY_KEY,
            aliases: Vec::new(),
            mode: Mode::default(),
            length: 1..=Key::MAX,
            format: None,
        }
    }
}

impl KeyHeader {
    /// The key, or nothing if no line carries one.
    ///
    /// # Errors
    /// [`Invalid`] if there is more than one line, under any of the names, or the value is not a key.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Result<Option<Key>, Invalid> {
        let names = std::iter::once(&self.name).chain(&self.aliases);
        let mut lines = names.flat_map(|name| headers.get_all(name));
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(Invalid::new("key", "sent in one header line").seen(2 + lines.count()));
        }
        let text = self.mode.decode(line.as_bytes())?;
        if !self.length.contains(&text.len()) {
            let allowed = format!("{} to {} characters", self.length.start(), self.length.end());
            return Err(Invalid::new("key", allowed).seen(text.len()));
        }
        if self.format.as_ref().is_some_and(|accepts| !accepts(&text)) {
            return Err(Invalid::new("key", "in the format that this service publishes").seen(text.len()));
        }
        text.parse().map(Some)
    }

    /// The key as the value of this header: a legal structured field String, whatever the mode.
    pub(crate) fn echo(key: &Key) -> Option<HeaderValue> {
        string::serialise(key.as_str()).try_into().ok()
    }
}

impl fmt::Debug for KeyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHeader")
            .field("name", &self.name)
            .field("aliases", &self.aliases)
            .field("mode", &self.mode)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Mode {
    fn decode(self, value: &[u8]) -> Result<String, Invalid> {
        let quoted = value.trim_ascii_start().first() == Some(&b'"');
        let text = match self {
            Self::Strict => string::parse(value),
            Self::Tolerant if quoted => string::parse(value),
            Self::Tolerant => raw(value).filter(|text| text.bytes().all(is_bare)),
            Self::RawOnly => raw(value),
        };
        text.ok_or_else(|| Invalid::new("key", self.allowed()).seen(value.len()))
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Strict => "a quoted string of RFC 9651",
            Self::Tolerant => {
                "a quoted string of RFC 9651, or bare without quotes, commas, semicolons and spaces"
            }
            Self::RawOnly => "visible ascii characters",
        }
    }
}

/// The value without the spaces around it, if the rest is visible ASCII and spaces.
fn raw(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim_matches(' ');
    text.bytes().all(|byte| matches!(byte, b' '..=b'~')).then(|| text.to_owned())
}

/// The characters of tokens, of base64 and of what else is seen in keys, without those that hint at broken quoting.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~:/+=@!#$%&*^|{}()<>[]".contains(&byte)
}

#[cfg(test)]
mod tests;
