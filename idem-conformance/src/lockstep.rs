//! Random walks in which a store and the state functions go in step.

mod act;
mod draw;
mod model;
mod walk;
mod world;

use std::{fmt, ops::Range};

use walk::Walker;

use crate::{Harness, Tally, seed};

/// Walks `walks` times through `steps` random calls, each time against an empty store, and compares each answer, and each
/// record that it leaves, with what [`idem_core::state`] says about the same call.
///
/// A few keys whose names are easily confused, requests of several bodies and fingerprint versions, claims sent again,
/// fences that are current, of yesterday or never given, every checkpoint, decisions about what was seen just now or long
/// ago, sweeps, and time that passes every end there is. A walk that fails is cut short until no call can be left out, and
/// made simpler for as long as it still fails.
///
/// Where a record tells what the store's clock showed, its other times may differ from that by as much as the call took,
/// since a store may read its clock twice; what a call does not write must not move at all. The walk keeps 7 seconds away
/// from every end of a lease, of a retention and of a time to run again, so that a slow machine changes nothing.
///
/// The same seeds bring the same walks, whatever the store: 0 and up. `IDEM_LOCKSTEP_SEED` starts at another one, and
/// `IDEM_LOCKSTEP_WALKS` asks for more. What came up is returned, so that a test can see that its walks went everywhere.
///
/// # Panics
/// With the [`Difference`] of the first walk that failed. Also if one of the two variables is not a number, and within a
/// runtime, since each call starts one of its own.
pub fn run<H: Harness>(walks: u64, steps: usize) -> Tally {
    let first = seed::number("IDEM_LOCKSTEP_SEED").unwrap_or(0);
    let walks = seed::number("IDEM_LOCKSTEP_WALKS").unwrap_or(walks);
    match check::<H>(first..first + walks, steps) {
        Ok(tally) => tally,
        Err(difference) => panic!("{difference}"),
    }
}

/// As [`run`], one walk of each of these seeds.
///
/// # Errors
/// The [`Difference`] of the first walk that failed.
///
/// # Panics
/// Within a runtime.
pub fn check<H: Harness>(seeds: Range<u64>, steps: usize) -> Result<Tally, Difference> {
    let walker = Walker::<H>::new();
    let mut tally = Tally::default();
    for seed in seeds {
        tally.add(walker.follow(seed, steps)?);
    }
    Ok(tally)
}

/// Where a store and the state functions part: the shortest walk to there that was found.
#[derive(Clone, Debug)]
pub struct Difference {
    seed: u64,
    steps: usize,
    calls: Vec<String>,
    why: String,
}

impl Difference {
    /// The seed of the walk.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many calls lead to it, the last one included.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }
}

impl std::error::Error for Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.calls.is_empty() {
            "as soon as it starts:"
        } else {
            "at the last of these calls to an empty store:"
        };
        writeln!(f, "the store and the state functions part {at}")?;
        for (number, call) in self.calls.iter().enumerate() {
            writeln!(f, "{:>4}. {call}", number + 1)?;
        }
        writeln!(f, "{}", self.why)?;
        write!(
            f,
            "Cut short from a walk of {} calls; IDEM_LOCKSTEP_SEED={} IDEM_LOCKSTEP_WALKS=1 brings it back.",
            self.steps, self.seed
        )
    }
}
