//! A random walk in which a store and the state functions go in step.

mod act;
mod draw;
mod model;
mod random;

use std::{collections::BTreeMap, fmt};

use draw::Draw;
use model::Model;

use crate::Harness;

/// Makes `steps` random calls against a fresh store and compares each answer, and each record that it leaves, with what
/// [`idem_core::state`] says about the same call.
///
/// A few keys whose names are easily confused, requests of several bodies and fingerprint versions, claims sent again,
/// fences that are current, of yesterday or never given, every checkpoint, decisions about what was seen just now or long
/// ago, sweeps, and time that passes every end there is.
///
/// Where a record tells what the store's clock showed, its other times may differ from that by as much as the call took,
/// since a store may read its clock twice; what a call does not write must not move at all. The walk keeps 5 seconds away
/// from every end of a lease, of a retention and of a time to run again, so that a slow machine changes nothing.
///
/// A seed replays the same walk as long as the store answers the same. What came up is returned, so that a test can
/// see that its walk went everywhere.
///
/// # Panics
/// At the first difference: the message names the seed, the step, the call and what differs.
pub async fn run<H: Harness>(seed: u64, steps: usize) -> Tally {
    let harness = H::start().await;
    let handles = [harness.store(), harness.second().await];
    let mut draw = Draw::new(seed);
    let mut tally = Tally::default();
    let mut model = match Model::start(handles).await {
        Ok(model) => model,
        Err(difference) => panic!("lockstep seed {seed}, start: {difference}"),
    };
    for number in 0..steps {
        if let Some(by) = model.too_close()
            && let Err(difference) = model.elapse(&harness, by).await
        {
            panic!("lockstep seed {seed}, step {number}: {difference}\n  call: elapse {by:?}");
        }
        let act = draw.act(&model);
        match model.go(&harness, &act, draw.handle()).await {
            Ok(reply) => tally.count(act.name(), reply),
            Err(difference) => {
                panic!("lockstep seed {seed}, step {number}: {difference}\n  call: {act:?}");
            }
        }
    }
    if let Err(difference) = model.compare_all().await {
        panic!("lockstep seed {seed}, after {steps} steps: {difference}");
    }
    tally
}

/// How often each answer came up in a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// How often `call` was answered with `answer`, such as `("claim", "taken over")` or `("renew", "claim_lost")`.
    pub fn of(&self, call: &str, answer: &str) -> u64 {
        self.0.get(&format!("{call}: {answer}")).copied().unwrap_or_default()
    }

    /// Adds what came up in another walk.
    pub fn add(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    fn count(&mut self, call: &str, answer: &str) {
        *self.0.entry(format!("{call}: {answer}")).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:>8} {what}"))
    }
}
