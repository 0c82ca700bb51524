//! Where the table is and how long calls may take.

use std::time::Duration;

use idem_core::{Invalid, MAX_SPAN};

/// Where the table is, and how long calls may take.
///
/// ```
/// use idem_postgres::Settings;
///
/// assert!(Settings::new().table("charge_key").is_ok());
/// let error = Settings::new().table("key; DROP TABLE x").unwrap_err();
/// assert_eq!(error.field(), "table");
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) schema: Option<String>,
    pub(crate) table: String,
    pub(crate) lock_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) persistent: bool,
    pub(crate) inbox_retention: Duration,
    pub(crate) redelivery_horizon: Duration,
}

impl Settings {
    /// The table `idempotency_key` in the first schema of the search path, 1 s to wait for a lock, 5 s for a call, 14 days
    /// for an inbox to remember an event that may come again for 7.
    pub fn new() -> Self {
        Self {
            schema: None,
            table: "idempotency_key".to_owned(),
            lock_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(5),
            persistent: true,
            inbox_retention: Duration::from_hours(14 * 24),
            redelivery_horizon: Duration::from_hours(7 * 24),
        }
    }

    /// The schema; default the first of the connection's search path.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 to 48 of `a-z 0-9 _`, no digit first.
    pub fn schema(mut self, schema: &str) -> Result<Self, Invalid> {
        self.schema = Some(identifier("schema", schema)?);
        Ok(self)
    }

    /// The table; default `idempotency_key`.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 to 48 of `a-z 0-9 _`, no digit first.
    pub fn table(mut self, table: &str) -> Result<Self, Invalid> {
        self.table = identifier("table", table)?;
        Ok(self)
    }

    /// How long a statement waits for a row that somebody else holds; default 1 s, for claims and renewals at most a
    /// tenth of their lease. Then nothing was done and the caller is told so.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 ms to 1 hour: zero would switch it off.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Result<Self, Invalid> {
        self.lock_timeout = span("lock_timeout", lock_timeout)?;
        Ok(self)
    }

    /// How long a call may take in all, waiting for a connection included; default 5 s. Then its connection is closed
    /// and its outcome is unknown, if anything was sent. It should be longer than `lock_timeout`.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 ms to 1 hour.
    pub fn call_timeout(mut self, call_timeout: Duration) -> Result<Self, Invalid> {
        self.call_timeout = span("call_timeout", call_timeout)?;
        Ok(self)
    }

    /// Prepares no named statements, for poolers in transaction mode that do not track them.
    ///
    /// Behind such a pooler this is not a choice: a name may belong to a statement that another client prepared, and then
    /// that one runs with the values of this call. Each statement is prepared anew inside a transaction of its own instead,
    /// which takes four round trips rather than one. `PgBouncer` tracks named statements from 1.21 on, with
    /// `max_prepared_statements` above zero: rather leave this off then.
    #[must_use]
    pub fn unnamed_statements(mut self) -> Self {
        self.persistent = false;
        self
    }

    /// How long an [`Inbox`](crate::Inbox) remembers an event, counted from its delivery; default 14 days. It should be longer
    /// than [`redelivery_horizon`](Self::redelivery_horizon).
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 ms to 10 years.
    pub fn inbox_retention(mut self, retention: Duration) -> Result<Self, Invalid> {
        self.inbox_retention = long_span("inbox_retention", retention)?;
        Ok(self)
    }

    /// For how long after its first delivery an event may still be delivered again, by whatever stands between its producer and
    /// you: the broker's retention, a dead-letter queue that somebody empties by hand, a stream that is replayed; default 7
    /// days. [`PostgresStore::check`](crate::PostgresStore::check) warns where the inbox forgets sooner.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 ms to 10 years.
    pub fn redelivery_horizon(mut self, horizon: Duration) -> Result<Self, Invalid> {
        self.redelivery_horizon = long_span("redelivery_horizon", horizon)?;
        Ok(self)
    }

    /// The table's quoted name.
    pub(crate) fn qualified(&self) -> String {
        self.in_schema(&self.table)
    }

    /// The quoted name of a table of ours beside it.
    pub(crate) fn beside(&self, suffix: &str) -> String {
        self.in_schema(&format!("{}_{suffix}", self.table))
    }

    pub(crate) fn in_schema(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{name}\""),
            None => format!("\"{name}\""),
        }
    }

    /// The lock timeout of a claim or renewal of `lease`, as Postgres reads it.
    pub(crate) fn lock_timeout_for(&self, lease: Option<Duration>) -> String {
        let longest = lease.map_or(self.lock_timeout, |lease| self.lock_timeout.min(lease / 10));
        format!("{}ms", longest.as_millis().max(1))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// Names with a suffix of ours stay below Postgres' 63 bytes.
const LONGEST_NAME: usize = 48;

fn identifier(field: &'static str, name: &str) -> Result<String, Invalid> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let all_well = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if starts_well && all_well && name.len() <= LONGEST_NAME {
        return Ok(name.to_owned());
    }
    Err(Invalid::new(field, "1 to 48 of a-z, 0-9 and _, no digit first").seen(name.len()))
}

fn span(field: &'static str, span: Duration) -> Result<Duration, Invalid> {
    if (Duration::from_millis(1)..=Duration::from_hours(1)).contains(&span) {
        return Ok(span);
    }
    Err(Invalid::new(field, "1 ms to 1 hour, in ms").seen(span.as_millis()))
}

fn long_span(field: &'static str, span: Duration) -> Result<Duration, Invalid> {
    if (Duration::from_millis(1)..=MAX_SPAN).contains(&span) {
        return Ok(span);
    }
    Err(Invalid::new(field, "1 ms to 10 years, in ms").seen(span.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v03_only_plain_identifiers_become_sql() {
        for name in ["", "1a", "A", "a b", "a\"b", "a;b", "a.b", "ä", "a\0", &"a".repeat(49)] {
            assert_eq!(
                Settings::new().table(name).map_err(|error| error.field()).err(),
                Some("table"),
                "{name:?}"
            );
            assert_eq!(
                Settings::new().schema(name).map_err(|error| error.field()).err(),
                Some("schema"),
                "{name:?}"
            );
        }
        let settings = Settings::new().schema("shop_1").and_then(|it| it.table("_keys")).expect("plain");
        assert_eq!(settings.qualified(), r#""shop_1"."_keys""#);
    }

    #[test]
    fn b012_a_zero_never_switches_a_timeout_off() {
        for bad in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
            assert!(
                Settings::new().lock_timeout(bad).is_err() && Settings::new().call_timeout(bad).is_err(),
                "{bad:?}"
            );
        }
        let settings = Settings::new();
        assert_eq!(settings.lock_timeout_for(None), "1000ms");
        assert_eq!(settings.lock_timeout_for(Some(Duration::from_secs(2))), "200ms");
        assert_eq!(settings.lock_timeout_for(Some(Duration::from_millis(1))), "1ms");
    }
}
