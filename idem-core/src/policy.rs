//! How long keys hold, and whether a handler may run again from the top.

use std::time::Duration;

use crate::{Invalid, MAX_SPAN};

/// How long a claim holds unrenewed: above the 99th percentile of most handlers, short enough to wait for.
pub const LEASE: Duration = Duration::from_secs(90);
/// How long an ended record is kept, counted from its end: every legitimate retry has happened by then.
pub const RETENTION: Duration = Duration::from_hours(24);
/// How long a run may renew its lease: a handler that hangs must not hold its key for ever.
pub const MAX_EXECUTION: Duration = Duration::from_mins(15);
/// How long an unknown outcome is re-issued before the caller is told that it is unknown.
pub const SETTLE_WITHIN: Duration = Duration::from_secs(10);
/// How long after its mark was sent a call to a provider may start.
pub const CALL_WITHIN: Duration = Duration::from_secs(10);
/// How long a call may be under way before it arrives at its provider: above the time-out of most HTTP clients.
pub const PROVIDER_MAX_DELAY: Duration = Duration::from_mins(1);
/// The largest answer that is stored, in bytes of body and headers.
pub const MAX_RESPONSE: usize = 1 << 20;

/// The shortest lease that an engine accepts: a third of it must be long enough for a renewal.
const MIN_ENGINE_LEASE: Duration = Duration::from_millis(300);

/// How long keys hold, and whether a handler may run again from the top.
///
/// There is no default, since the second question has none: [`Policy::resumable`] or [`Policy::opaque`].
///
/// ```
/// use std::time::Duration;
/// use idem_core::Policy;
///
/// let policy = Policy::resumable().lease(Duration::from_secs(30)).retention(Duration::from_hours(48));
/// assert!(policy.check().is_ok());
/// assert!(policy.retention(Duration::from_secs(1)).check().is_err(), "shorter than a lease and its settling");
/// ```
///
/// ```compile_fail,E0599
/// let policy = idem_core::Policy::default();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    opaque: bool,
    lease: Duration,
    retention: Duration,
    max_execution: Duration,
    settle_within: Duration,
    wait: Duration,
    call_within: Duration,
    provider_max_delay: Duration,
    max_response: usize,
}

impl Policy {
    /// The handler touches nothing but the database, or calls the outside world through
    /// [`Operation::effect`](crate::Operation::effect).
    ///
    /// A crash, a panic and an answer that tells the client to try again (5xx, 408, 425, 429) are no ending: the next
    /// request with the key runs the handler again. What its effects gave before is given back to it.
    pub const fn resumable() -> Self {
        Self::new(false)
    }

    /// The handler is a black box that may have called the outside world.
    ///
    /// It is marked before it starts and never runs twice: every answer it gives is stored, a 500 too, and after a
    /// crash, a panic or an `Err` of its work the operation is in doubt until somebody decides with
    /// [`Maintain::resolve`](crate::Maintain::resolve). So a handler that got no answer from the outside world does not
    /// answer as if it knew: it returns its error (in axum `Problem::outcome_unknown()`).
    pub const fn opaque() -> Self {
        Self::new(true)
    }

    const fn new(opaque: bool) -> Self {
        Self {
            opaque,
            lease: LEASE,
            retention: RETENTION,
            max_execution: MAX_EXECUTION,
            settle_within: SETTLE_WITHIN,
            wait: Duration::ZERO,
            call_within: CALL_WITHIN,
            provider_max_delay: PROVIDER_MAX_DELAY,
            max_response: MAX_RESPONSE,
        }
    }

    /// How long a claim holds unrenewed; default [`LEASE`], at least 300 ms. It is renewed at a third of this.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long an ended record is kept, counted from its end; default [`RETENTION`].
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How long a run renews its lease; default [`MAX_EXECUTION`]. Then `Operation::lost` fires and renewals stop.
    #[must_use]
    pub const fn max_execution(mut self, max_execution: Duration) -> Self {
        self.max_execution = max_execution;
        self
    }

    /// How long an unknown outcome is re-issued; default [`SETTLE_WITHIN`].
    #[must_use]
    pub const fn settle_within(mut self, settle_within: Duration) -> Self {
        self.settle_within = settle_within;
        self
    }

    /// How long a duplicate may wait for the owner's result instead of being told at once; default not at all.
    ///
    /// It polls with growing pauses and holds no connection between two polls.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long after its mark was sent a call to a provider may start; default [`CALL_WITHIN`]. A later one is marked again.
    #[must_use]
    pub const fn call_within(mut self, call_within: Duration) -> Self {
        self.call_within = call_within;
        self
    }

    /// How long a call may be under way before it arrives at its provider; default [`PROVIDER_MAX_DELAY`].
    ///
    /// What is called for the last time in a provider's window has to arrive within it.
    #[must_use]
    pub const fn provider_max_delay(mut self, provider_max_delay: Duration) -> Self {
        self.provider_max_delay = provider_max_delay;
        self
    }

    /// The largest answer that is stored, in bytes of body and headers; default [`MAX_RESPONSE`].
    ///
    /// A larger one is sent whole to its caller; retries get [`StoredResponse::not_kept`](crate::StoredResponse::not_kept).
    #[must_use]
    pub const fn max_response(mut self, bytes: usize) -> Self {
        self.max_response = bytes;
        self
    }

    /// Checks the spans against each other; `Engine::run` and the HTTP layer do it on every run.
    ///
    /// # Errors
    /// [`Invalid`] names the setting, its bounds and the value's size.
    pub fn check(&self) -> Result<(), Invalid> {
        let within = |field, span: Duration, least: Duration, text: &'static str| {
            if (least..=MAX_SPAN).contains(&span) {
                return Ok(());
            }
            Err(Invalid::new(field, text).seen(span.as_millis()))
        };
        within("lease", self.lease, MIN_ENGINE_LEASE, "300 ms to 10 years, in ms")?;
        within("settle_within", self.settle_within, Duration::from_millis(1), "1 ms to 10 years, in ms")?;
        within(
            "max_execution",
            self.max_execution,
            self.lease,
            "at least the lease and at most 10 years, in ms",
        )?;
        within("call_within", self.call_within, Duration::from_millis(1), "1 ms to 10 years, in ms")?;
        within("provider_max_delay", self.provider_max_delay, Duration::ZERO, "at most 10 years, in ms")?;
        within("wait", self.wait, Duration::ZERO, "at most 10 years, in ms")?;
        within(
            "retention",
            self.retention,
            self.lease.saturating_add(self.settle_within),
            "at least lease + settle_within and at most 10 years, in ms",
        )?;
        if self.max_response > i32::MAX as usize {
            return Err(Invalid::new("max_response", "at most 2147483647 bytes").seen(self.max_response));
        }
        Ok(())
    }

    /// Whether the handler is a black box.
    pub const fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// The lease.
    pub const fn lease_span(&self) -> Duration {
        self.lease
    }

    /// The retention, as it may be published to clients.
    pub const fn retention_span(&self) -> Duration {
        self.retention
    }

    pub(crate) const fn max_execution_span(&self) -> Duration {
        self.max_execution
    }

    pub(crate) const fn settle_span(&self) -> Duration {
        self.settle_within
    }

    pub(crate) const fn call_within_span(&self) -> Duration {
        self.call_within
    }

    /// The end of a provider's window in which nothing is called any more.
    pub(crate) fn margin(&self) -> Duration {
        self.call_within.saturating_add(self.provider_max_delay)
    }

    pub(crate) const fn wait_span(&self) -> Duration {
        self.wait
    }

    /// The largest answer that is stored, in bytes.
    pub const fn max_response_bytes(&self) -> usize {
        self.max_response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_spans_that_contradict_each_other_are_refused_by_name() {
        let hour = Duration::from_hours(1);
        let refused = [
            (Policy::resumable().lease(Duration::ZERO), "lease"),
            (Policy::resumable().lease(Duration::MAX), "lease"),
            (Policy::resumable().max_execution(Duration::from_secs(89)), "max_execution"),
            (Policy::opaque().lease(hour).max_execution(hour).retention(hour), "retention"),
            (Policy::opaque().settle_within(Duration::ZERO), "settle_within"),
            (Policy::opaque().wait(Duration::MAX), "wait"),
            (Policy::resumable().call_within(Duration::ZERO), "call_within"),
            (Policy::resumable().provider_max_delay(Duration::MAX), "provider_max_delay"),
            (Policy::opaque().max_response(usize::MAX), "max_response"),
        ];
        for (policy, field) in refused {
            assert_eq!(policy.check().map_err(|error| error.field()), Err(field), "{policy:?}");
        }
        assert!(Policy::resumable().check().is_ok() && Policy::opaque().check().is_ok());
    }

    #[test]
    fn g01_the_defaults_are_ninety_seconds_and_a_day() {
        let policy = Policy::opaque();
        assert_eq!((policy.lease_span().as_secs(), policy.retention_span().as_secs()), (90, 86_400));
    }
}
