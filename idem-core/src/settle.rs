//! Re-issues a call whose outcome is not known until it is, within a deadline.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout_at};

use crate::{ClaimOutcome, ClaimRequest, KeyStore, StoreError, StoreErrorKind, event};

/// The pause before the first re-issue; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Sends the same write until its outcome is definite or `within` is over.
///
/// # Errors
/// The store's definite answer; `Unknown` if one attempt may have been done, else `Unavailable`, once the time is over.
pub(crate) async fn settle<F, Fut>(within: Duration, name: &'static str, call: F) -> Result<(), StoreError>
where
    F: Fn() -> Fut + Send,
    Fut: Future<Output = Result<(), StoreError>> + Send,
{
    let mut reissue = Reissue::within(within);
    loop {
        match timeout_at(reissue.deadline, caught(name, call())).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => reissue.after(error).await?,
            Err(_) => reissue.after(StoreError::new(StoreErrorKind::Unknown, name)).await?,
        }
    }
}

/// Sends the same claim until its outcome is definite, and says when the answered one was sent: the owner counts its
/// lease from there.
///
/// `Unavailable` is retried only if an earlier attempt may have been done: else there is nothing to find out, and the
/// caller's own retry is cheaper than a connection held for it.
///
/// # Errors
/// As [`settle`].
pub(crate) async fn settle_claim(
    store: &dyn KeyStore,
    request: &ClaimRequest,
    within: Duration,
) -> Result<(ClaimOutcome, Instant), StoreError> {
    claim_within(store, request, Reissue::within(within)).await
}

/// As [`settle_claim`], for a claim that this caller has had: whether something of it was done is to be found out.
///
/// # Errors
/// As [`settle`].
pub(crate) async fn settle_own(
    store: &dyn KeyStore,
    request: &ClaimRequest,
    within: Duration,
) -> Result<(ClaimOutcome, Instant), StoreError> {
    claim_within(store, request, Reissue { unknown: true, ..Reissue::within(within) }).await
}

async fn claim_within(
    store: &dyn KeyStore,
    request: &ClaimRequest,
    mut reissue: Reissue,
) -> Result<(ClaimOutcome, Instant), StoreError> {
    loop {
        let sent = Instant::now();
        match timeout_at(reissue.deadline, caught("claim", store.claim(request))).await {
            Ok(Ok(outcome)) => return Ok((outcome, sent)),
            Ok(Err(error)) if error.kind() == StoreErrorKind::Unavailable && !reissue.unknown => {
                return Err(error);
            }
            Ok(Err(error)) => reissue.after(error).await?,
            Err(_) => reissue.after(StoreError::new(StoreErrorKind::Unknown, "claim")).await?,
        }
    }
}

/// A call in which the store panics is a doubt, like one whose answer was lost.
pub(crate) async fn caught<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, StoreError>> + Send,
) -> Result<T, StoreError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
        Err(StoreError::new(StoreErrorKind::Unknown, operation).because("the store panicked"))
    })
}

struct Reissue {
    deadline: Instant,
    pause: Duration,
    unknown: bool,
}

impl Reissue {
    fn within(within: Duration) -> Self {
        Self { deadline: Instant::now() + within, pause: FIRST_PAUSE, unknown: false }
    }

    /// Waits before the next attempt, or returns the error that ends it.
    #[expect(clippy::disallowed_methods, reason = "the engine's pause between two attempts")]
    async fn after(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error.kind() {
            StoreErrorKind::Unknown => {
                self.unknown = true;
                event::unknown(error.operation());
            }
            StoreErrorKind::Unavailable => {}
            StoreErrorKind::ClaimLost
            | StoreErrorKind::TooLate
            | StoreErrorKind::Corrupt
            | StoreErrorKind::Invalid => return Err(error),
        }
        if Instant::now() + self.pause >= self.deadline {
            if self.unknown && error.kind() != StoreErrorKind::Unknown {
                return Err(StoreError::new(StoreErrorKind::Unknown, error.operation()).with_source(error));
            }
            return Err(error);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
