//! What makes two requests the same: a versioned digest, and the set of digests a rolling deploy still accepts.

use std::fmt;

use hmac::{Hmac, digest::CtOutput};
use sha2::Sha256;

mod builder;
#[cfg(test)]
mod tests;

pub use builder::FingerprintBuilder;

/// What makes two requests the same: a version byte and a 32-byte SHA-256 digest.
///
/// The version names the rules by which the digest was made: the normal forms and the layout of what is hashed.
/// They are frozen; a change of any of them is a new version. Fingerprints of two versions cannot be compared,
/// which is not the same as being different: see [`Sameness::NotComparable`].
///
/// Made with [`Fingerprint::of`]. `Debug` shows the version only, never the digest: whoever knows the digest of a
/// short body can guess the body.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Starts the fingerprint of a request. `kind` says what sort of request it is (`"http"`, `"queue payouts"`):
    /// two kinds never share a fingerprint, whatever their parts.
    pub fn of(kind: &str) -> FingerprintBuilder {
        FingerprintBuilder::new(kind)
    }

    /// The version byte, then the digest: the form that stores keep.
    pub fn to_bytes(self) -> [u8; 33] {
        let mut bytes = [0; 33];
        let [version, digest @ ..] = &mut bytes;
        *version = self.version;
        *digest = self.digest;
        bytes
    }

    /// Takes back what [`to_bytes`](Self::to_bytes) gave. Every 33 bytes are a fingerprint; an unknown version is
    /// kept as it is and compares as [`Sameness::NotComparable`].
    pub fn from_bytes([version, digest @ ..]: [u8; 33]) -> Self {
        Self { version, digest }
    }

    /// Which rules made the digest.
    pub fn version(self) -> u8 {
        self.version
    }

    /// Compares in time that does not depend on where two digests part.
    fn same_digest(self, other: Self) -> bool {
        let constant_time = |digest: [u8; 32]| CtOutput::<Hmac<Sha256>>::new(digest.into());
        constant_time(self.digest) == constant_time(other.digest)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint(v{})", self.version)
    }
}

/// One request under every version of the rules that its record may have been written with.
///
/// A new record gets the [`current`](Self::current) fingerprint. An old one is compared with the fingerprint of
/// *its own* version, so that a deploy which changes the rules does not turn honest retries into mismatches. Roll
/// out readers of a new version before the first writer: until then a record of it is
/// [`Sameness::NotComparable`] to the old processes.
///
/// # Examples
///
/// ```
/// use idem_core::{Fingerprint, Sameness};
///
/// let request = || Fingerprint::of("queue payouts").field("tenant", "acme").body(b"pay 10");
/// let recorded = request().finish().current();
///
/// assert!(request().finish().accepts(recorded));
/// assert_eq!(request().field("dry", "1").finish().compare(recorded), Sameness::Different);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    current: Fingerprint,
    older: Vec<Fingerprint>,
}

impl Fingerprints {
    /// Accepts records of this fingerprint's version only.
    pub fn new(current: Fingerprint) -> Self {
        Self { current, older: Vec::new() }
    }

    /// Accepts records with one more fingerprint: of an older version of the rules, or of this version under an older
    /// pepper or an older rule of your own.
    #[must_use]
    pub fn accept(mut self, older: Fingerprint) -> Self {
        if !self.accepts(older) {
            self.older.push(older);
        }
        self
    }

    /// The one that a new record is written with.
    pub fn current(&self) -> Fingerprint {
        self.current
    }

    /// Every fingerprint carried: the current one, then the older ones in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = Fingerprint> {
        std::iter::once(self.current).chain(self.older.iter().copied())
    }

    /// Compares a record's fingerprint with those of this request that are of the same version.
    pub fn compare(&self, recorded: Fingerprint) -> Sameness {
        let mut own = self.iter().filter(|own| own.version == recorded.version).peekable();
        if own.peek().is_none() {
            return Sameness::NotComparable;
        }
        if own.any(|own| own.same_digest(recorded)) { Sameness::Same } else { Sameness::Different }
    }

    /// Whether the record was made by this request: [`compare`](Self::compare) says [`Sameness::Same`].
    pub fn accepts(&self, recorded: Fingerprint) -> bool {
        self.compare(recorded) == Sameness::Same
    }
}

/// How a request's fingerprints compare with the one of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    /// The same request: a retry.
    Same,
    /// Another request under the same key: refused in every state of the record.
    Different,
    /// The record was made by rules that this process does not carry, so nobody can tell. Neither a mismatch nor
    /// a replay is right; the claim is answered as unavailable, and the client tries the same key again.
    NotComparable,
}
