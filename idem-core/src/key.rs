//! Whose key it is, and which: parsed once, compared byte for byte, never printed.

use std::{fmt, str::FromStr, sync::Arc};

use sha2::{Digest, Sha256};

use crate::Invalid;

/// Whose key it is, derived by the server from the authenticated caller.
///
/// Opaque text of 1 to [`Scope::MAX`] bytes without NUL, half of the primary key. There is no default:
/// a shared scope would let one caller read another's stored answer.
///
/// Take a *stable* identity (an account id), not a credential that is rotated between two retries, and
/// nothing that a client may choose, such as a header or an address.
///
/// **Source:** draft-ietf-httpapi-idempotency-key-header, section 5 (composite key).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The longest scope, in bytes: with the longest key it stays well under the 2,704 bytes of a btree entry.
    pub const MAX: usize = 1024;

    /// A scope of one part, such as an account id.
    ///
    /// # Errors
    /// [`Invalid`] if the text is empty, longer than [`Scope::MAX`] bytes, or holds a NUL.
    pub fn new(part: impl fmt::Display) -> Result<Self, Invalid> {
        Self::parse(part.to_string())
    }

    /// A scope of several parts, each length-prefixed, so that `("a:b", "c")` and `("a", "b:c")` differ.
    ///
    /// # Errors
    /// As [`Scope::new`]; also if there is no part or an empty one.
    pub fn join<P: fmt::Display>(parts: impl IntoIterator<Item = P>) -> Result<Self, Invalid> {
        let mut joined = String::new();
        for part in parts {
            let part = part.to_string();
            if part.is_empty() {
                return Err(Invalid::new("scope part", "non-empty text").seen(0_usize));
            }
            joined.extend([part.len().to_string().as_str(), ":", &part]);
        }
        Self::parse(joined)
    }

    fn parse(text: String) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > Self::MAX {
            return Err(Invalid::new("scope", "1 to 1024 bytes of text").seen(text.len()));
        }
        if text.contains('\0') {
            return Err(Invalid::new("scope", "text without NUL").seen(text.len()));
        }
        Ok(Self(text.into()))
    }

    /// The text, for a store's parameters; it does not belong in a log.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", short_digest(&[self.0.as_bytes()]))
    }
}

/// The client's string: 1 to 255 visible ASCII characters.
///
/// The decoded text of the header, compared byte for byte: no trimming, no case folding, no normal form.
/// A space counts as visible, since the header's string form allows it.
///
/// **Source:** draft-ietf-httpapi-idempotency-key-header, section 2.1; RFC 9651, section 3.3.3.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key, in characters.
    pub const MAX: usize = 255;

    /// The text, for a store's parameters; it does not belong in a log.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > Self::MAX {
            return Err(Invalid::new("key", "1 to 255 characters").seen(text.len()));
        }
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(Invalid::new("key", "visible ascii characters").seen(text.len()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", short_digest(&[self.0.as_bytes()]))
    }
}

/// The whole primary key: a key in its scope.
///
/// Display and Debug show 8 hex digits of a digest, the form in which logs name a record.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId {
    scope: Scope,
    key: Key,
}

impl KeyId {
    /// `key` in `scope`.
    pub fn new(scope: Scope, key: Key) -> Self {
        Self { scope, key }
    }

    /// Whose key it is.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The client's string.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_digest(&[self.scope.0.as_bytes(), self.key.0.as_bytes()]))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

fn short_digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(4).fold(String::with_capacity(8), |mut text, byte| {
        text.extend(
            [byte >> 4, byte & 15].map(|nibble| char::from_digit(u32::from(nibble), 16).unwrap_or('0')),
        );
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h10_a_key_is_1_to_255_visible_ascii_characters() {
        assert!("".parse::<Key>().is_err());
        assert!("a".repeat(255).parse::<Key>().is_ok());
        let error = "a".repeat(256).parse::<Key>().expect_err("too long");
        assert_eq!(error.to_string(), "key must be 1 to 255 characters; seen=256");
        for bad in ["a\tb", "a\nb", "a\u{7f}", "\u{e9}", "a\0"] {
            assert!(bad.parse::<Key>().is_err(), "{bad:?}");
        }
        assert_eq!("a b".parse::<Key>().expect("a space is visible").as_str(), "a b");
    }

    #[test]
    fn h12_keys_are_compared_byte_for_byte() {
        assert_ne!("abc".parse::<Key>(), "ABC".parse::<Key>());
        assert_ne!("k".parse::<Key>(), "k ".parse::<Key>());
    }

    #[test]
    fn b082_joined_scopes_do_not_collide() {
        assert_ne!(Scope::join(["a:b", "c"]), Scope::join(["a", "b:c"]));
        assert_ne!(Scope::join(["1:a"]), Scope::join(["1", "a"]));
        assert!(Scope::join(Vec::<String>::new()).is_err());
        assert!(Scope::join(["a", ""]).is_err());
    }

    #[test]
    fn p10_a_scope_has_limits_and_no_nul() {
        assert!(Scope::new("").is_err());
        assert!(Scope::new("a\0b").is_err());
        assert!(Scope::new("x".repeat(Scope::MAX)).is_ok());
        let error = Scope::new("x".repeat(Scope::MAX + 1)).expect_err("too long");
        assert_eq!(error.to_string(), "scope must be 1 to 1024 bytes of text; seen=1025");
        assert_eq!(Scope::new(42).expect("a number is text").as_str(), "42");
    }

    #[test]
    fn v04_nothing_prints_a_scope_or_a_key() {
        let id =
            KeyId::new(Scope::new("tenant-secret").expect("valid"), "key-secret".parse().expect("valid"));
        let printed = format!("{id} {id:?} {:?} {:?}", id.scope(), id.key());
        assert!(!printed.contains("secret"), "{printed}");
        assert_eq!(id.to_string().len(), 8);
    }
}
