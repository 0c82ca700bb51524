//! Every rule broken once.
//!
//! A mutant says what the machine would do without a rule, and names the smallest configuration in which that shows.
//! One that nothing can notice says why; it is explored as well, so that the reason cannot grow stale.

mod claims;
mod engine;
mod settling;
mod writes;

use crate::{
    configuration::{SAME, model},
    model::{Kind, Model, Request},
    rule::Rule,
};

/// Rules that do not hold, where that is looked for, and what comes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// What the machine does instead.
    pub(crate) text: &'static str,
    pub(crate) broken: &'static [Rule],
    requests: &'static [Request],
    effects: &'static [Kind],
    heartbeat: bool,
    reconciler: bool,
    failures: u8,
    faults: u8,
    ticks: u8,
    /// The one promise that notices: were it not looked at, this mutant would live.
    pub(crate) only: Option<&'static str>,
    /// Why nothing can notice.
    pub(crate) equivalent: Option<&'static str>,
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    [claims::ALL, writes::ALL, settling::ALL, engine::ALL].into_iter().flatten()
}

/// Two attempts, one natural effect, one fault.
const fn mutant(text: &'static str, broken: &'static [Rule]) -> Mutant {
    Mutant {
        text,
        broken,
        requests: &[SAME, SAME],
        effects: &[Kind::Natural],
        heartbeat: false,
        reconciler: false,
        failures: 0,
        faults: 1,
        ticks: 4,
        only: None,
        equivalent: None,
    }
}

impl Mutant {
    /// The configuration in which it shows.
    pub(crate) fn model(&self) -> Model {
        let mut model = model(self.text, self.requests, self.effects).failures(self.failures);
        (model.bounds.faults, model.bounds.clock) = (self.faults, self.ticks);
        model.bounds.heartbeat = self.heartbeat;
        model.bounds.reconciler = self.reconciler;
        model.broken = self.broken.to_vec();
        model
    }

    const fn by(mut self, requests: &'static [Request]) -> Self {
        self.requests = requests;
        self
    }

    const fn on(mut self, effects: &'static [Kind]) -> Self {
        self.effects = effects;
        self
    }

    const fn heartbeat(mut self) -> Self {
        self.heartbeat = true;
        self
    }

    const fn reconciler(mut self) -> Self {
        self.reconciler = true;
        self
    }

    const fn failures(mut self, failures: u8) -> Self {
        self.failures = failures;
        self
    }

    const fn undisturbed(mut self) -> Self {
        self.faults = 0;
        self
    }

    const fn ticks(mut self, ticks: u8) -> Self {
        self.ticks = ticks;
        self
    }

    const fn only(mut self, promise: &'static str) -> Self {
        self.only = Some(promise);
        self
    }

    const fn equivalent(mut self, reason: &'static str) -> Self {
        self.equivalent = Some(reason);
        self
    }
}
