//! Is there an order of the calls in which, one after the other, each has to be answered as it was?
//!
//! **Source:** J. Wing, C. Gong, "Testing and Verifying Concurrent Objects" (1993); G. Lowe, "Testing for
//! linearizability" (2017), for remembering where a search has been.

use std::collections::{HashMap, HashSet};

use idem_core::{AttemptId, OperationId, Origin, Record, StoreErrorKind};

use super::show;
use crate::{
    judge::{Window, agree},
    step::{Drawn, Reply, Step},
};

/// A call as the search sees it. One without a reply may have been done at any time after it was called, or never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) step: &'a Step,
    pub(super) begun: u64,
    pub(super) reply: Option<(&'a Reply, u64)>,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Linearizable,
    NotLinearizable(Box<Closest>),
    /// After so many steps that nobody should wait for more.
    GaveUp,
}

/// The longest order that explains some of it.
#[derive(Debug, Default)]
pub(super) struct Closest {
    /// The calls by their numbers.
    pub(super) order: Vec<usize>,
    /// The record after them.
    pub(super) record: Option<Record>,
    /// Those of which one had to come next, and why it cannot.
    pub(super) refused: Vec<(usize, String)>,
}

/// Searches, in at most `steps` steps. `before` is the record at the start, and `window` what the store's clock can have
/// shown meanwhile.
pub(super) fn search(before: Option<&Record>, calls: &[Seen<'_>], window: Window, steps: usize) -> Verdict {
    if calls.len() > 64 {
        return Verdict::GaveUp;
    }
    let claims =
        calls.iter().filter_map(|call| call.reply?.0.claim()).filter(|claim| is_fresh(claim.origin()));
    let given = claims.map(|claim| claim.fence().operation).chain(before.map(|record| record.operation));
    let asked = calls.iter().filter_map(|call| attempt(call.step)).chain(before.map(|record| record.attempt));
    let mut search = Search {
        calls,
        window,
        steps,
        given: given.collect(),
        asked: asked.collect(),
        been: HashMap::new(),
        order: Vec::new(),
        closest: None,
    };
    let start = Place { early: before.cloned(), late: before.cloned() };
    if search.go_on(0, &start) {
        return Verdict::Linearizable;
    }
    match search.closest {
        Some(closest) if search.steps > 0 => Verdict::NotLinearizable(Box::new(closest)),
        Some(_) | None => Verdict::GaveUp,
    }
}

/// The record, if everything was written as early, and as late, as it can have been.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    early: Option<Record>,
    late: Option<Record>,
}

struct Search<'a> {
    calls: &'a [Seen<'a>],
    window: Window,
    /// How many steps are left.
    steps: usize,
    /// The operation ids that callers were given for new, and that of the start.
    given: Vec<OperationId>,
    /// The attempt ids of the callers, and that of the start.
    asked: HashSet<AttemptId>,
    /// The records that each set of calls has led to without leading on.
    been: HashMap<u64, Vec<Place>>,
    order: Vec<usize>,
    closest: Option<Closest>,
}

impl Search<'_> {
    /// Whether the calls that are not in `done` can follow from here.
    fn go_on(&mut self, done: u64, place: &Place) -> bool {
        let open = || self.calls.iter().enumerate().filter(|(number, _)| done & (1 << number) == 0);
        // Whatever was called after this cannot come next.
        let Some(end) = open().filter_map(|(_, call)| call.reply).map(|(_, returned)| returned).min() else {
            return true;
        };
        if self.been.get(&done).is_some_and(|places| places.contains(place)) || self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        let mut refused = Vec::new();
        let next: Vec<_> = open().filter(|(_, call)| call.begun < end).map(|(number, _)| number).collect();
        for number in next {
            match self.after(number, place) {
                Ok(Some(after)) => {
                    self.order.push(number);
                    if self.go_on(done | (1 << number), &after) {
                        return true;
                    }
                    self.order.pop();
                }
                Ok(None) => {}
                Err(why) => refused.push((number, why)),
            }
        }
        if self.closest.as_ref().is_none_or(|closest| closest.order.len() < self.order.len()) {
            self.closest = Some(Closest { order: self.order.clone(), record: place.early.clone(), refused });
        }
        self.been.entry(done).or_default().push(place.clone());
        false
    }

    /// Where the call leads; `None` if it is not worth going there.
    fn after(&self, number: usize, place: &Place) -> Result<Option<Place>, String> {
        let call = self.calls[number];
        let reply = call.reply.map(|(reply, _)| reply);
        if reply.is_some_and(|reply| reply.error() == Some(StoreErrorKind::Unavailable)) {
            // Definitely not done, which a store may say at any time.
            return Ok(Some(place.clone()));
        }
        let place = self.named(place, reply);
        let drawn = self.drawn(number, reply)?;
        let (early, early_reply) = call.step.decide(place.early.clone(), self.window.before, &drawn);
        let (late, late_reply) = call.step.decide(place.late.clone(), self.window.after, &drawn);
        let after = Place { early, late };
        match reply {
            Some(seen) if agree(seen, &early_reply, &late_reply, self.window) => Ok(Some(after)),
            Some(_) => Err(format!("has to be answered: {}", show::reply(&early_reply))),
            // Done or not, nobody can tell.
            None if after == place => Ok(None),
            None => Ok(Some(after)),
        }
    }

    /// What the store drew for this call: what its reply shows, else a name that stands for it until it is shown.
    fn drawn(&self, number: usize, reply: Option<&Reply>) -> Result<Drawn, String> {
        let passed_over = matches!(reply, Some(Reply::Swept(Ok(0))));
        let unnamed = unnamed(number);
        let shown = reply.and_then(Reply::claim).filter(|claim| is_fresh(claim.origin()));
        if let Some(shown) = shown {
            let operation = shown.fence().operation;
            if self.given.iter().filter(|given| **given == operation).count() > 1 {
                return Err("was given an operation id that was given before".to_owned());
            }
        }
        let operation = shown.map_or(OperationId::from_bytes(unnamed), |claim| claim.fence().operation);
        Ok(Drawn { passed_over, operation, attempt: AttemptId::from_bytes(unnamed) })
    }

    /// The place, with the ids that this reply is the first to show.
    fn named(&self, place: &Place, reply: Option<&Reply>) -> Place {
        let (operation, attempt) = match reply {
            Some(Reply::Found(Ok(Some(record)))) => (Some(record.operation), Some(record.attempt)),
            Some(reply) => (reply.claim().map(|claim| claim.fence().operation), None),
            None => (None, None),
        };
        let operation = operation.filter(|operation| !self.given.contains(operation));
        let attempt = attempt.filter(|attempt| !self.asked.contains(attempt));
        let name = |record: &Option<Record>| {
            let mut record = record.clone()?;
            if let Some(operation) = operation.filter(|_| is_unnamed(record.operation.to_bytes())) {
                record.operation = operation;
            }
            if let Some(attempt) = attempt.filter(|_| is_unnamed(record.attempt.to_bytes())) {
                record.attempt = attempt;
            }
            Some(record)
        };
        Place { early: name(&place.early), late: name(&place.late) }
    }
}

fn is_fresh(origin: Origin) -> bool {
    matches!(origin, Origin::New | Origin::Expired)
}

fn attempt(step: &Step) -> Option<AttemptId> {
    match step {
        Step::Claim(request) => Some(request.attempt),
        Step::Renew(..)
        | Step::Checkpoint(..)
        | Step::Complete(..)
        | Step::Release(..)
        | Step::Resolve(..)
        | Step::Find(_)
        | Step::Sweep(_) => None,
    }
}

/// Stands for an id that a store drew and nobody has been shown: no store draws this one.
fn unnamed(number: usize) -> [u8; 16] {
    let mut bytes = [0xff; 16];
    bytes[15] = u8::try_from(number).unwrap_or(u8::MAX);
    bytes
}

fn is_unnamed(bytes: [u8; 16]) -> bool {
    bytes[..15] == [0xff; 15]
}
