//! The key that a provider is shown.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{Fingerprint, KeyId};

/// The idempotency key for an effect's provider: the same at every repeat of the same effect, by whomever.
///
/// Derived from the scope, the key, the fingerprint of the record as it was handed over, and the effect's name; from
/// nothing that a takeover changes. So it still protects when the record is lost, while the fingerprint's version is the same.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey([u8; 16]);

impl ProviderKey {
    /// `fingerprint` is the record's, never the one that this process computed.
    pub(crate) fn new(id: &KeyId, fingerprint: Fingerprint, effect: &str) -> Self {
        let mut digest = Sha256::new_with_prefix(b"idem provider key 1");
        let (scope, key, fingerprint) = (id.scope().as_str(), id.key().as_str(), fingerprint.to_bytes());
        for part in [scope.as_bytes(), key.as_bytes(), &fingerprint, effect.as_bytes()] {
            // Lengths first: no two lists of parts give the same bytes.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] = digest.finalize().into();
        Self(first)
    }

    /// 32 characters `0-9a-f`.
    pub fn hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// The same in the form of a UUID of version 8, for providers that want one: 36 characters, 122 bits of the 128.
    pub fn uuid(&self) -> String {
        uuid::Builder::from_custom_bytes(self.0).into_uuid().to_string()
    }
}

/// The key as 32 characters.
impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

/// Shows nothing of it: whoever has the key can repeat the effect's request.
impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;

    fn key(scope: &str, key: &str, body: &[u8], effect: &str) -> String {
        let id = KeyId::new(Scope::new(scope).expect("valid"), key.parse().expect("valid"));
        ProviderKey::new(&id, Fingerprint::of("test").body(body).finish().current(), effect).hex()
    }

    #[test]
    fn t10_the_key_depends_on_everything_that_names_the_effect() {
        let first = key("a", "b", b"c", "d");
        assert_eq!(first, key("a", "b", b"c", "d"));
        let others = [
            key("x", "b", b"c", "d"),
            key("a", "x", b"c", "d"),
            key("a", "b", b"x", "d"),
            key("a", "b", b"c", "x"),
            key("ab", "b", b"c", "d"),
        ];
        assert!(!others.contains(&first));
    }

    #[test]
    fn t10_the_key_has_two_forms() {
        let key = ProviderKey([0xab; 16]);
        assert_eq!(key.hex(), "ab".repeat(16));
        assert_eq!(key.uuid(), "abababab-abab-8bab-abab-abababababab");
        assert_eq!(format!("{key:?}"), "ProviderKey(..)");
    }
}
