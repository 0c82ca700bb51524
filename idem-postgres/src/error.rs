//! What an error of the driver means: was it done?

use idem_core::{StoreError, StoreErrorKind};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What a call does after an error.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Definitely not done, and worth sending again at once: a conflict of transactions.
    Again(sqlx::Error),
    /// Definitely not done: somebody else held the row for longer than the lock timeout.
    Locked(sqlx::Error),
    /// Anything else.
    Is(StoreErrorKind, sqlx::Error),
}

impl Failure {
    /// The error that the caller gets if the call does not go on.
    pub(crate) fn into_error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Again(source) | Self::Locked(source) => {
                StoreError::new(StoreErrorKind::Unavailable, operation).with_source(source)
            }
            Self::Is(kind, source) => StoreError::new(kind, operation).with_source(source),
        }
    }
}

/// Judges an error that came *after* a statement was sent.
///
/// A statement of its own is one transaction. An answer of severity ERROR aborted it: not done. FATAL and PANIC end the
/// connection and can come after the commit record was written (57P01 while waiting for a standby): unknown. So is
/// everything that is no answer of the server.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not understood may have been done")]
pub(crate) fn after_sending(error: sqlx::Error) -> Failure {
    let kind = match &error {
        sqlx::Error::Database(answer) => match answer.try_downcast_ref::<PgDatabaseError>() {
            Some(answer) if is_error(answer.severity()) => match answer.code() {
                "40001" | "40P01" | "0A000" => return Failure::Again(error),
                "55P03" => return Failure::Locked(error),
                code => aborted(code),
            },
            Some(_) | None => StoreErrorKind::Unknown,
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

/// Judges an error that came while a connection was asked for: nothing was sent.
pub(crate) fn before_sending(operation: &'static str, error: sqlx::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, operation).with_source(error)
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

/// What to do about an aborted statement, by its SQLSTATE.
fn aborted(code: &str) -> StoreErrorKind {
    match code {
        // Read-only (a standby, or a primary that was demoted), and a statement that was cancelled.
        "25006" | "57014" => StoreErrorKind::Unavailable,
        "XX001" | "XX002" => StoreErrorKind::Corrupt,
        _ => match code.get(..2) {
            // Values that do not fit, violated checks, missing tables or rights, bad SQL: the same again next time.
            Some("22" | "23" | "42" | "3D" | "3F" | "28") => StoreErrorKind::Invalid,
            // Connections, resources, operators' intervention, transactions, the rest.
            _ => StoreErrorKind::Unavailable,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn kind(error: sqlx::Error) -> StoreErrorKind {
        after_sending(error).into_error("claim").kind()
    }

    #[test]
    fn p06_what_is_no_answer_of_the_server_is_unknown() {
        assert_eq!(kind(sqlx::Error::Io(io::ErrorKind::ConnectionReset.into())), StoreErrorKind::Unknown);
        assert_eq!(kind(sqlx::Error::Protocol("cut".into())), StoreErrorKind::Unknown);
        assert_eq!(kind(sqlx::Error::WorkerCrashed), StoreErrorKind::Unknown);
        assert_eq!(kind(sqlx::Error::ColumnNotFound("x".into())), StoreErrorKind::Corrupt);
        assert_eq!(kind(sqlx::Error::Decode("x".into())), StoreErrorKind::Corrupt);
        assert_eq!(kind(sqlx::Error::Encode("x".into())), StoreErrorKind::Invalid);
        assert_eq!(before_sending("claim", sqlx::Error::PoolTimedOut).kind(), StoreErrorKind::Unavailable);
    }

    #[test]
    fn p06_an_aborted_statement_was_not_done() {
        let rows = [
            ("25006", StoreErrorKind::Unavailable),
            ("57014", StoreErrorKind::Unavailable),
            ("53100", StoreErrorKind::Unavailable),
            ("53300", StoreErrorKind::Unavailable),
            ("08006", StoreErrorKind::Unavailable),
            ("57P01", StoreErrorKind::Unavailable),
            ("XX000", StoreErrorKind::Unavailable),
            ("XX001", StoreErrorKind::Corrupt),
            ("22021", StoreErrorKind::Invalid),
            ("23514", StoreErrorKind::Invalid),
            ("42P01", StoreErrorKind::Invalid),
            ("42501", StoreErrorKind::Invalid),
        ];
        for (code, expected) in rows {
            assert_eq!(aborted(code), expected, "{code}");
        }
    }

    #[test]
    fn b170_only_an_error_that_left_the_connection_up_aborts_for_certain() {
        assert!(is_error(PgSeverity::Error) && !is_error(PgSeverity::Fatal) && !is_error(PgSeverity::Panic));
    }
}
