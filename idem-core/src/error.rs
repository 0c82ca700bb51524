//! Errors that say what to do next.

use std::{borrow::Cow, error, fmt};

/// Any error of a caller's own, as a source.
pub type BoxError = Box<dyn error::Error + Send + Sync>;

/// A value that was refused before anything was done with it.
///
/// Names the field, what is allowed and the size that was seen, and never the value itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    field: &'static str,
    allowed: Cow<'static, str>,
    seen: Option<u128>,
}

impl Invalid {
    /// `field` must be `allowed`.
    pub fn new(field: &'static str, allowed: impl Into<Cow<'static, str>>) -> Self {
        Self { field, allowed: allowed.into(), seen: None }
    }

    /// The size that was seen, in the unit that the text of `allowed` names.
    #[must_use]
    pub fn seen(mut self, size: impl TryInto<u128>) -> Self {
        self.seen = size.try_into().ok();
        self
    }

    /// Which value was refused.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.allowed)?;
        match self.seen {
            Some(seen) => write!(f, "; seen={seen}"),
            None => Ok(()),
        }
    }
}

impl error::Error for Invalid {}

/// What a caller of a store does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The fence is no longer current or the record has ended; nothing was written. Do not retry.
    ClaimLost,
    /// Not done: the time in which this effect may be repeated is over. In doubt once the lease is over.
    TooLate,
    /// Definitely not done. Retry.
    Unavailable,
    /// May have been done. Re-issue the same call; never look and guess.
    Unknown,
    /// The record cannot be trusted. Nothing ran; a person has to look.
    Corrupt,
    /// The call itself is wrong. Fix and redeploy.
    Invalid,
}

impl StoreErrorKind {
    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaimLost => "claim_lost",
            Self::TooLate => "too_late",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Corrupt => "corrupt",
            Self::Invalid => "invalid",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::ClaimLost => "the claim is lost, or belongs to another store",
            Self::TooLate => "too late to repeat the effect",
            Self::Unavailable => "the store did not do it; retry",
            Self::Unknown => "the store may have done it; re-issue the same call",
            Self::Corrupt => "the record is corrupt; nothing ran",
            Self::Invalid => "the call is invalid",
        }
    }
}

/// Why a store did not answer a call with its outcome.
///
/// Display is lowercase, says what to do, and repeats neither its source nor any key, body or fingerprint.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    operation: &'static str,
    reason: Option<Cow<'static, str>>,
    source: Option<BoxError>,
}

impl StoreError {
    /// An error of `kind` from the method `operation`.
    pub const fn new(kind: StoreErrorKind, operation: &'static str) -> Self {
        Self { kind, operation, reason: None, source: None }
    }

    /// Adds what exactly was wrong. It is printed: no key, body or fingerprint belongs here.
    #[must_use]
    pub fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Adds the error underneath. It is not printed, only returned by `source()`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What to do next.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The trait method that failed.
    pub const fn operation(&self) -> &'static str {
        self.operation
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.kind.advice())?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl error::Error for StoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// What the code that runs an operation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another owner has the key, or the operation has ended. Stop; nothing of yours was kept.
    ClaimLost,
    /// The store did not do it, or takes nothing on now. Retry with the same key.
    Unavailable,
    /// It may have been done and could not be settled in time. Retry with the same key.
    Unknown,
    /// A record or a recorded result cannot be trusted. Nothing ran; a person has to look.
    Corrupt,
    /// The call, a setting or a value is wrong. Fix and redeploy.
    Invalid,
    /// The transaction was rolled back: of what was done in it, nothing is there. Retry with the same key.
    RolledBack,
    /// Too late to repeat an effect; the operation is in doubt once its lease is over.
    TooLate,
    /// The effect was definitely not done. Retry with the same key.
    EffectNotDone,
    /// The effect may have been done. Retry with the same key: it is repeated only as it may be.
    EffectUnknown,
}

/// Why an operation could not go on.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<BoxError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What to do next.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind {
            StoreErrorKind::ClaimLost => ErrorKind::ClaimLost,
            StoreErrorKind::TooLate => ErrorKind::TooLate,
            StoreErrorKind::Unavailable => ErrorKind::Unavailable,
            StoreErrorKind::Unknown => ErrorKind::Unknown,
            StoreErrorKind::Corrupt => ErrorKind::Corrupt,
            StoreErrorKind::Invalid => ErrorKind::Invalid,
        };
        Self::new(kind, format!("the store could not {}", error.operation)).with_source(error)
    }
}

impl From<Invalid> for Error {
    fn from(error: Invalid) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn display_says_what_to_do_and_keeps_the_source_out() {
        let error = StoreError::new(StoreErrorKind::Unknown, "complete").with_source("secret-detail");
        assert_eq!(error.to_string(), "complete: the store may have done it; re-issue the same call");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("secret-detail"));
        let error = Error::from(error);
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Unknown, "the store could not complete")
        );
    }

    #[test]
    fn invalid_names_field_limit_and_size() {
        let error = Invalid::new("key", "1 to 255 characters").seen(300_usize);
        assert_eq!(error.to_string(), "key must be 1 to 255 characters; seen=300");
    }
}
