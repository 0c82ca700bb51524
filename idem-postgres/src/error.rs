//! What an error of the driver means: was it done?

use std::borrow::Cow;

use idem_core::{StoreError, StoreErrorKind};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Why a statement has no rows to show.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Definitely not done, and worth sending again at once: a conflict of transactions.
    Again(sqlx::Error),
    /// Definitely not done: what this connection had prepared no longer fits. Worth sending again on another one.
    Outdated(sqlx::Error),
    /// Definitely not done: somebody else held the row for longer than the lock timeout.
    Locked(sqlx::Error),
    /// Anything else.
    Is(StoreErrorKind, sqlx::Error),
}

impl Failure {
    /// Whether the same statement may well be answered when it is sent again at once.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Again(_) | Self::Outdated(_) => true,
            Self::Locked(_) | Self::Is(..) => false,
        }
    }

    /// Whether its connection is as good as before.
    pub(crate) fn spares_connection(&self) -> bool {
        match self {
            Self::Again(_) | Self::Locked(_) => true,
            Self::Outdated(_) => false,
            Self::Is(kind, _) => *kind != StoreErrorKind::Unknown,
        }
    }

    /// The error that the caller gets if the call does not go on.
    pub(crate) fn into_error(self, operation: &'static str) -> StoreError {
        let (kind, source) = match self {
            Self::Again(source) | Self::Outdated(source) | Self::Locked(source) => {
                (StoreErrorKind::Unavailable, source)
            }
            Self::Is(kind, source) => (kind, source),
        };
        described(kind, operation, source)
    }
}

/// The error with what a person needs to act on it: the server's code, or that there was no connection.
fn described(kind: StoreErrorKind, operation: &'static str, source: sqlx::Error) -> StoreError {
    let error = StoreError::new(kind, operation);
    match Refusal::of(&source) {
        Some(refusal) => {
            error.because(format!("the server answered sqlstate {}", refusal.code)).with_source(refusal)
        }
        None if matches!(source, sqlx::Error::Configuration(_)) => {
            error.because("what was given is not a url of postgres").with_source(source)
        }
        None if kind == StoreErrorKind::Unavailable => {
            error.because("there was no connection").with_source(source)
        }
        None => error.with_source(source),
    }
}

/// Judges why no first connection could be made.
pub(crate) fn connecting(error: sqlx::Error) -> StoreError {
    let code =
        error.as_database_error().and_then(|answer| answer.code().map(Cow::into_owned)).unwrap_or_default();
    // Wrong credentials, no such database or schema, a URL that is none: the same again next time.
    let is_wrong =
        matches!(error, sqlx::Error::Configuration(_)) || matches!(code.get(..2), Some("28" | "3D" | "3F"));
    let kind = if is_wrong { StoreErrorKind::Invalid } else { StoreErrorKind::Unavailable };
    described(kind, "connect", error)
}

/// What the server said, without its DETAIL: that line quotes whole rows, keys and answers included.
#[derive(Debug, thiserror::Error)]
#[error("{message} (SQLSTATE {code})")]
struct Refusal {
    code: String,
    message: String,
}

impl Refusal {
    fn of(error: &sqlx::Error) -> Option<Self> {
        let answer = error.as_database_error()?;
        let code = answer.code().unwrap_or_default().into_owned();
        Some(Self { code, message: answer.message().to_owned() })
    }
}

/// Judges an error that came *after* a statement was sent.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not understood may have been done")]
pub(crate) fn after_sending(error: sqlx::Error) -> Failure {
    let kind = match &error {
        sqlx::Error::Database(answer) => match answer.try_downcast_ref::<PgDatabaseError>() {
            Some(answer) if answer.routine() == Some(CACHED_PLAN) => return Failure::Outdated(error),
            Some(answer) => match of_code(answer.code(), is_error(answer.severity())) {
                Verdict::Again => return Failure::Again(error),
                Verdict::Outdated => return Failure::Outdated(error),
                Verdict::Locked => return Failure::Locked(error),
                Verdict::Is(kind) => kind,
            },
            None => StoreErrorKind::Unknown,
        },
        // It was done, or read, and what came back makes no sense.
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::TypeNotFound { .. } => StoreErrorKind::Corrupt,
        // Refused by the driver before anything was sent.
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => StoreErrorKind::Invalid,
        // I/O, TLS, protocol, a pool's worker, and whatever the driver adds.
        _ => StoreErrorKind::Unknown,
    };
    Failure::Is(kind, error)
}

/// Where Postgres says that a prepared statement's result has changed; its SQLSTATE, 0A000, is shared by much else.
const CACHED_PLAN: &str = "RevalidateCachedQuery";

/// What the server's answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Again,
    Outdated,
    Locked,
    Is(StoreErrorKind),
}

fn is_error(severity: PgSeverity) -> bool {
    match severity {
        PgSeverity::Panic | PgSeverity::Fatal => false,
        PgSeverity::Error
        | PgSeverity::Warning
        | PgSeverity::Notice
        | PgSeverity::Debug
        | PgSeverity::Info
        | PgSeverity::Log => true,
    }
}

/// The table, by SQLSTATE or its class.
///
/// A statement is one transaction. An answer of severity ERROR says that it was aborted, at its commit too (a deferred
/// constraint, a serialization failure): once the commit record is written the server can only stop, not answer ERROR.
/// FATAL and PANIC end the connection and can come after that record, as while it waits for a standby.
fn of_code(code: &str, error: bool) -> Verdict {
    use StoreErrorKind::{Corrupt, Invalid, Unavailable, Unknown};

    match (code, code.get(..2)) {
        _ if !error => Verdict::Is(Unknown),
        // Said by something between us and the server, about a connection of its own that broke under the statement;
        // the server itself says these as FATAL.
        (_, Some("08")) | ("40003" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05", _) => {
            Verdict::Is(Unknown)
        }
        ("40001" | "40P01", _) => Verdict::Again,
        ("55P03", _) => Verdict::Locked,
        // A prepared statement that a pooler or a DISCARD took away, or whose name somebody else has.
        ("26000" | "42P05", _) => Verdict::Outdated,
        // A statement that was cancelled, and a standby or a primary that was demoted.
        ("57014" | "25006", _) => Verdict::Is(Unavailable),
        // Text that the database's encoding cannot hold.
        ("22021" | "22P05", _) => Verdict::Is(Invalid),
        // Our values are typed and bounded, so it is a stored one that no arithmetic and no cast takes; and broken pages.
        (_, Some("22")) | ("0A000" | "XX001" | "XX002", _) => Verdict::Is(Corrupt),
        // Violated checks, missing tables or rights, bad SQL, values too large for an index: the same again next time.
        (_, Some("23" | "28" | "3D" | "3F" | "42" | "54")) => Verdict::Is(Invalid),
        // Resources, operators, triggers, transactions, the rest.
        _ => Verdict::Is(Unavailable),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use StoreErrorKind::{Corrupt, Invalid, Unavailable, Unknown};

    use super::*;

    fn kind(error: sqlx::Error) -> StoreErrorKind {
        after_sending(error).into_error("claim").kind()
    }

    #[test]
    fn p06_what_is_no_answer_of_the_server_is_unknown() {
        assert_eq!(kind(sqlx::Error::Io(io::ErrorKind::ConnectionReset.into())), Unknown);
        assert_eq!(kind(sqlx::Error::Protocol("cut".into())), Unknown);
        assert_eq!(kind(sqlx::Error::WorkerCrashed), Unknown);
        assert_eq!(kind(sqlx::Error::ColumnNotFound("x".into())), Corrupt);
        assert_eq!(kind(sqlx::Error::Decode("x".into())), Corrupt);
        assert_eq!(kind(sqlx::Error::Encode("x".into())), Invalid);
    }

    #[test]
    fn p06_every_class_of_answer_says_whether_it_was_done() {
        let rows = [
            ("40001", Verdict::Again),
            ("40P01", Verdict::Again),
            ("26000", Verdict::Outdated),
            ("42P05", Verdict::Outdated),
            ("55P03", Verdict::Locked),
            ("08006", Verdict::Is(Unknown)),
            ("08P01", Verdict::Is(Unknown)),
            ("40003", Verdict::Is(Unknown)),
            ("57P01", Verdict::Is(Unknown)),
            ("57P02", Verdict::Is(Unknown)),
            ("57P03", Verdict::Is(Unknown)),
            ("25006", Verdict::Is(Unavailable)),
            ("57014", Verdict::Is(Unavailable)),
            ("53100", Verdict::Is(Unavailable)),
            ("53300", Verdict::Is(Unavailable)),
            ("25P02", Verdict::Is(Unavailable)),
            ("P0001", Verdict::Is(Unavailable)),
            ("XX000", Verdict::Is(Unavailable)),
            ("", Verdict::Is(Unavailable)),
            ("XX001", Verdict::Is(Corrupt)),
            ("0A000", Verdict::Is(Corrupt)),
            ("22003", Verdict::Is(Corrupt)),
            ("22008", Verdict::Is(Corrupt)),
            ("22021", Verdict::Is(Invalid)),
            ("22P05", Verdict::Is(Invalid)),
            ("23514", Verdict::Is(Invalid)),
            ("42P01", Verdict::Is(Invalid)),
            ("42501", Verdict::Is(Invalid)),
            ("54000", Verdict::Is(Invalid)),
        ];
        for (code, expected) in rows {
            assert_eq!(of_code(code, true), expected, "{code}");
            assert_eq!(of_code(code, false), Verdict::Is(Unknown), "{code} as FATAL or PANIC");
        }
    }

    #[test]
    fn p06_only_an_error_that_left_the_connection_up_aborts_for_certain() {
        assert!(is_error(PgSeverity::Error) && !is_error(PgSeverity::Fatal) && !is_error(PgSeverity::Panic));
    }

    #[test]
    fn f01_a_connection_goes_back_only_if_it_can_be_used_again() {
        let error = || sqlx::Error::WorkerCrashed;
        assert!(Failure::Again(error()).spares_connection() && Failure::Locked(error()).spares_connection());
        assert!(Failure::Is(Invalid, error()).spares_connection());
        assert!(!Failure::Is(Unknown, error()).spares_connection());
        assert!(!Failure::Outdated(error()).spares_connection());
    }
}
