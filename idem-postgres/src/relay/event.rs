//! What a relay tells of itself; topics are no labels, since there may be any number of them.

use metrics::{counter, gauge};
use tracing::{debug, error, warn};

use super::Relayed;
use crate::{Depth, MessageId};

pub(super) fn batch(report: Relayed) {
    counter!("idem_outbox_published_total").increment(report.published);
    counter!("idem_outbox_failed_total").increment(report.failed);
    counter!("idem_outbox_parked_total").increment(report.parked);
    counter!("idem_outbox_lost_total").increment(report.lost);
    if report.parked > 0 {
        error!(messages = report.parked, "parked: they wait for a person");
    }
    if report.lost > 0 {
        warn!(messages = report.lost, "another relay took over before it was marked what became of them");
    }
    debug!(claimed = report.claimed, published = report.published, "relayed");
}

pub(super) fn failed(id: MessageId, tries: u32, error: &str) {
    warn!(message = %id, tries, error, "not published");
}

#[expect(clippy::cast_precision_loss, reason = "gauges of bounded counts")]
pub(super) fn depth(depth: Depth) {
    gauge!("idem_outbox_waiting").set(depth.waiting as f64);
    gauge!("idem_outbox_parked").set(depth.parked as f64);
    gauge!("idem_outbox_oldest_seconds").set(depth.oldest.as_secs_f64());
}
