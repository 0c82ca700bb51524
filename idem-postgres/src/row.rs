//! Rows in and out: a row that no store could have written is corrupt, never guessed at.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use idem_core::{
    AttemptId, Claim, Fence, Fingerprint, Key, KeyId, OperationId, Origin, Record, RecoveryPoint, RerunUntil,
    Scope, State, StoreError, StoreErrorKind, StoredRequest, StoredResponse,
};
use sqlx::{Decode, Postgres, Row as _, Type, postgres::PgRow};
use uuid::Uuid;

/// One row of an answer, read by name.
pub(crate) struct Columns<'r> {
    row: &'r PgRow,
    operation: &'static str,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r PgRow, operation: &'static str) -> Self {
        Self { row, operation }
    }

    pub(crate) fn value<T: Decode<'r, Postgres> + Type<Postgres>>(
        &self,
        name: &'static str,
    ) -> Result<T, StoreError> {
        self.row.try_get(name).map_err(|error| self.corrupt(name).with_source(error))
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> StoreError {
        StoreError::new(StoreErrorKind::Corrupt, self.operation).because(what)
    }

    fn count(&self, name: &'static str) -> Result<u64, StoreError> {
        u64::try_from(self.value::<i64>(name)?).map_err(|_| self.corrupt(name))
    }

    pub(crate) fn time(&self, name: &'static str) -> Result<SystemTime, StoreError> {
        since_1970(self.value(name)?).ok_or_else(|| self.corrupt(name))
    }

    /// A span that was counted in microseconds; at least one, so that "over" is never "no time".
    pub(crate) fn span(&self, name: &'static str) -> Result<Duration, StoreError> {
        Ok(self.elapsed(name)?.max(Duration::from_micros(1)))
    }

    /// A span that was counted in microseconds and may be zero.
    pub(crate) fn elapsed(&self, name: &'static str) -> Result<Duration, StoreError> {
        Ok(Duration::from_micros(u64::try_from(self.value::<i64>(name)?).unwrap_or(0)))
    }

    pub(crate) fn fence(&self) -> Result<Fence, StoreError> {
        let operation = OperationId::from_bytes(self.value::<Uuid>("operation")?.into_bytes());
        Ok(Fence { operation, token: self.count("token")? })
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        let bytes: &[u8] = self.value("fingerprint")?;
        bytes.try_into().map(Fingerprint::from_bytes).map_err(|_| self.corrupt("fingerprint"))
    }

    /// A claim of a new operation.
    pub(crate) fn fresh_claim(&self, id: &KeyId, origin: Origin) -> Result<Claim, StoreError> {
        Ok(Claim::new(id.clone(), self.fence()?, self.fingerprint()?, origin))
    }

    /// A claim of an operation that may have come some way.
    pub(crate) fn claim(&self, id: &KeyId, origin: Origin) -> Result<Claim, StoreError> {
        Ok(self.fresh_claim(id, origin)?.resumed_at(self.count("checkpoint")?, self.point()?))
    }

    fn point(&self) -> Result<Option<RecoveryPoint>, StoreError> {
        let parts: (Option<String>, Option<Vec<u8>>) =
            (self.value("recovery_point")?, self.value("recovery_data")?);
        match parts {
            (None, None) => Ok(None),
            (Some(name), Some(data)) => RecoveryPoint::new(self.count("checkpoint")?, name, data)
                .map(Some)
                .map_err(|error| self.corrupt("recovery_point").with_source(error)),
            (Some(_), None) | (None, Some(_)) => {
                Err(self.corrupt("recovery_point without recovery_data, or the reverse"))
            }
        }
    }

    fn request(&self) -> Result<Option<StoredRequest>, StoreError> {
        let parts: (Option<String>, Option<Vec<u8>>) =
            (self.value("request_route")?, self.value("request_data")?);
        match parts {
            (None, None) => Ok(None),
            (Some(route), Some(data)) => StoredRequest::new(route, data)
                .map(Some)
                .map_err(|error| self.corrupt("request").with_source(error)),
            (Some(_), None) | (None, Some(_)) => {
                Err(self.corrupt("request_route without request_data, or the reverse"))
            }
        }
    }

    pub(crate) fn response(&self) -> Result<StoredResponse, StoreError> {
        let code: Option<i16> = self.value("response_code")?;
        let (headers, body): (Option<Vec<u8>>, Option<Vec<u8>>) =
            (self.value("response_headers")?, self.value("response_body")?);
        let (Some(code), Some(headers), Some(body)) = (code, headers, body) else {
            return Err(self.corrupt("completed without an answer"));
        };
        let code = u16::try_from(code).map_err(|_| self.corrupt("response_code"))?;
        StoredResponse::from_columns(code, headers, Bytes::from(body))
            .map_err(|error| self.corrupt("response").with_source(error))
    }

    pub(crate) fn record(&self) -> Result<Record, StoreError> {
        let scope = Scope::new(self.value::<&str>("scope")?).map_err(|_| self.corrupt("scope"))?;
        let key: Key = self.value::<&str>("key")?.parse().map_err(|_| self.corrupt("key"))?;
        let fence = self.fence()?;
        let rerun_until =
            match (self.value::<bool>("rerun_always")?, self.value::<Option<i64>>("rerun_until")?) {
                (true, _) => RerunUntil::Always,
                (false, None) => RerunUntil::Never,
                (false, Some(micros)) => {
                    RerunUntil::At(since_1970(micros).ok_or_else(|| self.corrupt("rerun_until"))?)
                }
            };
        let ended_at = match self.value::<Option<i64>>("ended_at")? {
            Some(micros) => Some(since_1970(micros).ok_or_else(|| self.corrupt("ended_at"))?),
            None => None,
        };
        let state = match (self.value::<&str>("status")?, ended_at) {
            ("in_progress", None) => State::InProgress,
            ("completed", Some(ended_at)) => State::Completed { response: self.response()?, ended_at },
            ("failed", Some(ended_at)) => State::Failed { ended_at },
            _ => return Err(self.corrupt("an unknown status, or one that contradicts ended_at")),
        };
        let request = self.request()?;
        if request.is_some() && matches!(state, State::Completed { .. }) {
            return Err(self.corrupt("a request beside its answer"));
        }
        Ok(Record {
            id: KeyId::new(scope, key),
            operation: fence.operation,
            attempt: AttemptId::from_bytes(self.value::<Uuid>("attempt")?.into_bytes()),
            token: fence.token,
            fingerprint: self.fingerprint()?,
            state,
            version: self.count("version")?,
            checkpoint: self.count("checkpoint")?,
            locked_at: self.time("locked_at")?,
            lease_until: self.time("lease_until")?,
            rerun_until,
            point: self.point()?,
            request,
            created_at: self.time("created_at")?,
            expires_at: self.time("expires_at")?,
        })
    }
}

fn since_1970(micros: i64) -> Option<SystemTime> {
    let span = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(span)
    }
}

/// A span in microseconds, rounded up: never shorter than was asked for. Callers have checked it against ten years.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

/// A count for a `bigint` column; one that does not fit matches no row.
pub(crate) fn bigint(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b134_spans_are_rounded_up_to_what_postgres_keeps() {
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_millis(1)), 1000);
        assert_eq!(micros(Duration::MAX), i64::MAX);
        assert_eq!((bigint(7), bigint(u64::MAX)), (7, -1));
    }
}
