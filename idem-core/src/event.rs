//! One event per decision: a line of telemetry and a metric.
//!
//! Metrics go through the [`metrics`] facade, lines through [`tracing`]. Labels are closed sets; a record is named by
//! 8 hex digits of a digest, so no key, body or fingerprint leaves the process this way.
//!
//! | metric | kind | labels | counts |
//! |---|---|---|---|
//! | `idem_claims_total` | counter | `outcome`: `new` `expired` `reissued` `retried` `taken_over` `replayed` `in_progress` `in_doubt` `mismatch` `unavailable` `unknown` `corrupt` `invalid` | what claims were answered |
//! | `idem_ends_total` | counter | `end`: `completed` `not_kept` `released` `handed_on` `left` | how runs ended |
//! | `idem_claims_lost_total` | counter | `at`: `renew` `checkpoint` `complete` `release` `lease` | runs that found another owner, or outlived their lease |
//! | `idem_unknown_total` | counter | `operation` | calls whose outcome was not known at first |
//! | `idem_unsettled_total` | counter | `operation` | calls whose outcome was still not known at the deadline |
//! | `idem_corrupt_total` | counter | `operation` | records that could not be trusted |
//! | `idem_renewals_failed_total` | counter | | renewals that failed and were tried again |
//! | `idem_diverged_total` | counter | | works that returned another answer than the committed one |
//! | `idem_panics_total` | counter | | works that panicked |
//! | `idem_reconciled_total` | counter | `outcome`: `settled` `unsettled` `left` | what became of records in doubt that were looked up |
//! | `idem_completer_total` | counter | `outcome`: `settled` `unsettled` `left` | what became of abandoned operations that were taken up |
//! | `idem_swept_total` | counter | | records deleted by sweeping |
//! | `idem_run_seconds` | histogram | | time from a claim to its end |
//! | `idem_run_lease_ratio` | histogram | | the same as a share of the lease |
//! | `idem_stuck` `idem_in_doubt` | gauge | | records in progress past their lease, of which a pass of a sweeper looks at the 1000 oldest; those of them that wait for a decision |
//! | `idem_stuck_oldest_seconds` | gauge | | for how long the longest has been stuck |

use std::{error::Error, time::Duration};

use metrics::{counter, gauge, histogram};
use tracing::{
    Span, debug, error,
    field::{Empty, display},
    info, info_span, warn,
};

use crate::{Claim, ClaimOutcome, KeyId, Origin, StoreError, StoreErrorKind, Stuck};

/// The share of its lease from which a run is reported as slow.
const SLOW: f64 = 0.5;

/// The span of one run; its fields are filled once the claim is answered.
pub(crate) fn span(id: &KeyId) -> Span {
    info_span!("idem", key = %id, operation = Empty, token = Empty, outcome = Empty)
}

pub(crate) fn claimed(id: &KeyId, outcome: Result<&ClaimOutcome, &StoreError>) {
    let name = match outcome {
        Ok(ClaimOutcome::Claimed(claim)) => match claim.origin() {
            Origin::New => "new",
            Origin::Expired => "expired",
            Origin::Reissued => "reissued",
            Origin::Retried => "retried",
            Origin::TakenOver => "taken_over",
        },
        Ok(ClaimOutcome::Completed(_)) => "replayed",
        Ok(ClaimOutcome::InProgress { .. }) => "in_progress",
        Ok(ClaimOutcome::InDoubt { .. }) => "in_doubt",
        Ok(ClaimOutcome::Mismatch) => "mismatch",
        Err(error) => error.kind().name(),
    };
    counter!("idem_claims_total", "outcome" => name).increment(1);
    Span::current().record("outcome", name);
    match outcome {
        Ok(ClaimOutcome::Claimed(claim)) => {
            let fence = claim.fence();
            Span::current().record("operation", display(fence.operation));
            Span::current().record("token", fence.token);
            if claim.origin() == Origin::TakenOver {
                warn!(key = %id, token = fence.token, "took over a stale claim");
            } else {
                debug!(key = %id, token = fence.token, origin = name, "claimed");
            }
        }
        Ok(ClaimOutcome::InDoubt { .. }) => warn!(key = %id, "in doubt: waits for a decision"),
        Ok(ClaimOutcome::Mismatch) => info!(key = %id, "key reused for another request"),
        Ok(ClaimOutcome::Completed(_) | ClaimOutcome::InProgress { .. }) => {
            debug!(key = %id, outcome = name, "not run");
        }
        Err(failed) => failure(id, failed),
    }
}

/// A call that did not come to its outcome.
pub(crate) fn failure(id: &KeyId, failed: &StoreError) {
    match failed.kind() {
        StoreErrorKind::Corrupt => corrupt(id, failed.operation()),
        StoreErrorKind::Unknown => {
            counter!("idem_unsettled_total", "operation" => failed.operation()).increment(1);
            warn!(key = %id, error = %failed, "outcome still unknown");
        }
        StoreErrorKind::Invalid => error!(key = %id, error = %failed, "refused as invalid"),
        StoreErrorKind::ClaimLost | StoreErrorKind::TooLate | StoreErrorKind::Unavailable => {
            warn!(key = %id, error = %failed, "not done");
        }
    }
}

pub(crate) fn corrupt(id: &KeyId, operation: &'static str) {
    counter!("idem_corrupt_total", "operation" => operation).increment(1);
    error!(key = %id, operation, "corrupt record; nothing ran");
}

pub(crate) fn unknown(operation: &'static str) {
    counter!("idem_unknown_total", "operation" => operation).increment(1);
    debug!(operation, "outcome unknown; re-issuing");
}

pub(crate) fn claim_lost(claim: &Claim, at: &'static str) {
    counter!("idem_claims_lost_total", "at" => at).increment(1);
    warn!(key = %claim.id(), token = claim.fence().token, at, "claim lost");
}

pub(crate) fn lease_over(claim: &Claim, at_max_execution: bool) {
    counter!("idem_claims_lost_total", "at" => "lease").increment(1);
    warn!(key = %claim.id(), token = claim.fence().token, at_max_execution, "lease no longer renewed");
}

pub(crate) fn renewal_failed(claim: &Claim, failed: &StoreError) {
    counter!("idem_renewals_failed_total").increment(1);
    warn!(key = %claim.id(), error = %failed, "renewal failed; trying again");
}

pub(crate) fn ended(claim: &Claim, end: &'static str, took: Duration, lease: Duration) {
    let share = took.as_secs_f64() / lease.as_secs_f64();
    counter!("idem_ends_total", "end" => end).increment(1);
    histogram!("idem_run_seconds").record(took.as_secs_f64());
    histogram!("idem_run_lease_ratio").record(share);
    if share > SLOW {
        warn!(key = %claim.id(), ?took, ?lease, "ran for more than half of its lease");
    }
    debug!(key = %claim.id(), token = claim.fence().token, end, "ended");
}

pub(crate) fn diverged(claim: &Claim) {
    counter!("idem_diverged_total").increment(1);
    warn!(key = %claim.id(), "the work returned another answer than the committed one; the committed one is sent");
}

pub(crate) fn panicked(claim: &Claim) {
    counter!("idem_panics_total").increment(1);
    error!(key = %claim.id(), "the work panicked");
}

pub(crate) fn reconciled(id: &KeyId, outcome: &'static str) {
    counter!("idem_reconciled_total", "outcome" => outcome).increment(1);
    debug!(key = %id, outcome, "looked up what is in doubt");
}

pub(crate) fn unsettled(id: &KeyId, why: &(dyn Error + Send + Sync)) {
    reconciled(id, "unsettled");
    warn!(key = %id, error = why.to_string(), "what is in doubt could not be settled; trying again later");
}

pub(crate) fn completed(id: &KeyId, outcome: &'static str) {
    counter!("idem_completer_total", "outcome" => outcome).increment(1);
    debug!(key = %id, outcome, "took up what was abandoned");
}

pub(crate) fn unfinished(id: &KeyId, why: &(dyn Error + Send + Sync)) {
    completed(id, "unsettled");
    warn!(key = %id, error = why.to_string(), "what was abandoned could not be finished; trying again later");
}

pub(crate) fn swept(records: u64) {
    counter!("idem_swept_total").increment(records);
    debug!(records, "swept");
}

#[expect(clippy::cast_precision_loss, reason = "a gauge of a bounded list")]
pub(crate) fn stuck(stuck: &[Stuck]) {
    let in_doubt = stuck.iter().filter(|stuck| stuck.in_doubt).count();
    let oldest = stuck.iter().map(|stuck| stuck.stuck_for).max().unwrap_or_default();
    gauge!("idem_stuck").set(stuck.len() as f64);
    gauge!("idem_in_doubt").set(in_doubt as f64);
    gauge!("idem_stuck_oldest_seconds").set(oldest.as_secs_f64());
}
