//! One batch: claimed, published, marked.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use idem_core::StoreError;
use tokio::time::{Instant, timeout};

use super::{Relay, Relayed, claim::Claim, event};
use crate::{MessageId, Outgoing};

/// The most bytes that are kept of an error.
const LONGEST_ERROR: usize = 1000;

/// What became of the messages of a batch.
#[derive(Default)]
struct Outcomes {
    published: Vec<MessageId>,
    failed: Vec<(MessageId, String)>,
    untried: Vec<MessageId>,
}

/// Claims a batch, publishes it with nothing held, and marks what became of it; `None` if nothing is due.
///
/// Order keys that cannot go on yet are left out and noted: somebody holds a row of theirs.
pub(super) async fn publish(
    relay: &Relay,
    stopped: &mut BTreeSet<String>,
) -> Result<Option<Relayed>, StoreError> {
    let mut claim = Claim::take(relay, stopped).await?;
    if claim.messages.is_empty() && claim.stopped.is_empty() {
        return Ok(None);
    }
    stopped.extend(claim.stopped.drain(..));
    let claimed = claim.messages.len() as u64;
    let lanes = lanes(std::mem::take(&mut claim.messages));
    let until = claim.until;
    let outcomes = stream::iter(lanes)
        .map(|lane| run(relay, lane, until))
        .buffer_unordered(relay.concurrency)
        .fold(Outcomes::default(), async |mut all, lane| {
            all.published.extend(lane.published);
            all.failed.extend(lane.failed);
            all.untried.extend(lane.untried);
            all
        })
        .await;
    // Each by itself: an error of one leaves the others no worse off.
    let marked = claim.mark(&outcomes.published).await;
    let failed = claim.fail(&outcomes.failed).await;
    let given_back = claim.give_back(&outcomes.untried).await;
    let (published, (failed, parked), given_back) = (marked?, failed?, given_back?);
    let tried = (outcomes.published.len() + outcomes.failed.len()) as u64;
    let lost = tried - published - failed;
    let report = Relayed { claimed, published, failed, parked, given_back, lost };
    event::batch(report);
    Ok(Some(report))
}

/// Messages of one order key go one after the other, in their order; every other message goes by itself.
fn lanes(messages: Vec<Outgoing>) -> Vec<Vec<Outgoing>> {
    let (mut lanes, mut by_key): (Vec<Vec<Outgoing>>, BTreeMap<String, usize>) = Default::default();
    for message in messages {
        let lane = message.order_key().map(|key| *by_key.entry(key.to_owned()).or_insert(lanes.len()));
        match lane.and_then(|lane| lanes.get_mut(lane)) {
            Some(lane) => lane.push(message),
            None => lanes.push(vec![message]),
        }
    }
    lanes
}

/// Publishes one after the other up to the first failure, and starts none that might outlive the lease.
async fn run(relay: &Relay, lane: Vec<Outgoing>, until: Instant) -> Outcomes {
    let within = relay.within.min(relay.lease / 2);
    let mut outcomes = Outcomes::default();
    for message in lane {
        let stopped = !outcomes.failed.is_empty() || !outcomes.untried.is_empty();
        if stopped || Instant::now() + within > until {
            outcomes.untried.push(message.id());
            continue;
        }
        match try_once(relay, &message, within).await {
            Ok(()) => outcomes.published.push(message.id()),
            Err(error) => {
                event::failed(message.id(), message.tries() + 1, &error);
                outcomes.failed.push((message.id(), error));
            }
        }
    }
    outcomes
}

async fn try_once(relay: &Relay, message: &Outgoing, within: Duration) -> Result<(), String> {
    // The call itself may panic too, before there is a future.
    let publishing = AssertUnwindSafe(async { relay.publisher.publish(message).await }).catch_unwind();
    match timeout(within, publishing).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(bounded(&error.to_string())),
        Ok(Err(_)) => Err("the publisher panicked".to_owned()),
        Err(_) => Err(format!("not acknowledged within {within:?}")),
    }
}

/// As a column of text takes it.
fn bounded(error: &str) -> String {
    let mut kept = error.replace('\0', "");
    kept.truncate(kept.floor_char_boundary(LONGEST_ERROR));
    kept
}
