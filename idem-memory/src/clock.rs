//! The clock that judges leases: the system's, or one that tests move.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// A clock that stands still until it is moved; clones show the same time.
///
/// ```
/// use std::time::Duration;
/// use idem_memory::ManualClock;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now(), before + Duration::from_secs(90));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<SystemTime>>);

impl ManualClock {
    /// A clock that shows 2001-09-09 01:46:40 UTC.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))))
    }

    /// The time it shows.
    pub fn now(&self) -> SystemTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Moves it back, as a store's clock may jump.
    pub fn step_back(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= by;
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System,
    Manual(ManualClock),
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the store's clock, the one place that reads the time of day"
    )]
    pub(crate) fn now(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::Manual(clock) => clock.now(),
        }
    }
}
