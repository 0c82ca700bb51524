//! What must be true in the end.

use std::collections::BTreeMap;

use super::shopper::Answer;

/// Everything that can be counted when all is over; things are named by what was ordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) operations: Vec<String>,
    /// The gateway's ledger.
    pub(crate) charges: Vec<String>,
    pub(crate) orders: Vec<String>,
    /// Messages of the outbox.
    pub(crate) messages: Vec<String>,
    /// Of those, how many are not marked as published.
    pub(crate) unpublished: usize,
    /// Messages in the stream.
    pub(crate) published: usize,
    /// Deliveries to the consumer.
    pub(crate) deliveries: usize,
    /// The consumer's effects.
    pub(crate) mails: Vec<String>,
    /// What the clients were answered.
    pub(crate) answers: Vec<Answer>,
    /// What the same keys are answered once more.
    pub(crate) replays: Vec<Answer>,
}

/// What is not as it must be; empty if all is well.
pub(crate) fn complaints(seen: &Seen) -> Vec<String> {
    let mut complaints = Vec::new();
    let answered = seen.answers.iter().map(|answer| answer.reference.clone()).collect();
    for (what, found) in [
        ("charge", &seen.charges),
        ("order", &seen.orders),
        ("message", &seen.messages),
        ("mail", &seen.mails),
        ("answer", &answered),
    ] {
        complaints.extend(one_each(what, &seen.operations, found));
    }
    if seen.unpublished > 0 {
        complaints.push(format!("{} messages were not marked as published", seen.unpublished));
    }
    let replays: BTreeMap<_, _> = seen.replays.iter().map(|answer| (&answer.reference, answer)).collect();
    for answer in &seen.answers {
        if replays.get(&answer.reference) != Some(&answer) {
            complaints.push(format!("{}: the same key is answered in another way", answer.reference));
        }
    }
    complaints
}

fn one_each(what: &str, operations: &[String], found: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&String, usize> = operations.iter().map(|it| (it, 0)).collect();
    for reference in found {
        *counts.entry(reference).or_default() += 1;
    }
    let asked = |reference| operations.contains(reference);
    let wrong = counts.into_iter().filter(|(reference, count)| *count != 1 || !asked(*reference));
    wrong.map(|(reference, count)| format!("{reference}: {what}s: {count}")).collect()
}
