//! Explores a configuration, and says what came of it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::{model::Model, tell};

/// What an exploration found.
#[derive(Debug)]
pub(crate) struct Outcome {
    name: String,
    /// Distinct states.
    pub(crate) states: usize,
    pub(crate) took: Duration,
    /// Broken promises, each with the steps that lead there.
    pub(crate) broken: Vec<(&'static str, Vec<String>)>,
}

/// The time, to show what an exploration took.
#[expect(clippy::disallowed_methods, reason = "it is shown, and nothing is decided by it")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// Explores everything, or up to the first broken promise.
pub(crate) fn explore(model: &Model, threads: usize) -> Outcome {
    let started = clock();
    let checker =
        model.clone().checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut broken: Vec<_> = checker
        .discoveries()
        .into_iter()
        .map(|(promise, path)| {
            let path = path.into_vec();
            let step = |pair: &[(_, Option<_>)]| match pair {
                [(before, Some(action)), (after, _)] => Some(tell::line(model, before, *action, after)),
                _ => None,
            };
            (promise, path.windows(2).filter_map(step).collect())
        })
        .collect();
    broken.sort_unstable();
    Outcome {
        name: model.name.clone(),
        states: checker.unique_state_count(),
        took: started.elapsed(),
        broken,
    }
}

impl Outcome {
    /// The names of the broken promises.
    pub(crate) fn promises(&self) -> Vec<&'static str> {
        self.broken.iter().map(|&(promise, _)| promise).collect()
    }
}

/// A line for the table.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, states, seconds) = (&self.name, self.states, self.took.as_secs_f64());
        write!(f, "{name:<58} {states:>10} states {seconds:>6.1} s  {} violations", self.broken.len())
    }
}
