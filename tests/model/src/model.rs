//! A configuration, and the steps that can follow a state.

use std::sync::Arc;

use stateright::Property;

use crate::{
    action::Action,
    lies,
    machine::{self, Call, Decided, Print, Row},
    promise,
    rule::{Rule, Stage},
    sometimes::{Reached, Sometimes},
    world::World,
};

/// What is explored.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    /// Tells configurations apart where their results are remembered.
    pub(crate) number: usize,
    pub(crate) requests: Vec<Request>,
    pub(crate) effects: Vec<Kind>,
    pub(crate) bounds: Bounds,
    /// The rules that do not hold.
    pub(crate) broken: Vec<Rule>,
    /// A promise that is not looked at.
    pub(crate) without: Option<&'static str>,
    pub(crate) reached: Arc<Reached>,
}

/// How far the exploration goes. Times are ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) clock: u8,
    pub(crate) lives: u8,
    /// Crashes, lost requests and replies, delays, slow replies.
    pub(crate) faults: u8,
    /// Handlers that fail, give up or are told to stop.
    pub(crate) failures: u8,
    pub(crate) heartbeat: bool,
    pub(crate) reconciler: bool,
    /// The second attempt meets the effects in the other order.
    pub(crate) reversed: bool,
    pub(crate) lease: u8,
    pub(crate) retention: u8,
    /// How long a provider remembers a key.
    pub(crate) window: u8,
    pub(crate) call_within: u8,
    /// A call arrives at most this long after it was sent.
    pub(crate) delay: u8,
}

/// A client's request: what it asks for, and which versions of the fingerprint its server knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) print: Print,
    pub(crate) accepts: Option<Print>,
}

/// What may be done about an effect when it is not known whether it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Natural,
    Keyed,
    AtMostOnce,
    /// The whole handler, marked as one effect.
    Opaque,
}

impl Kind {
    pub(crate) fn is_keyed(self) -> bool {
        self == Self::Keyed
    }

    pub(crate) fn is_natural(self) -> bool {
        self == Self::Natural
    }
}

impl Bounds {
    /// From here to the end of the window a call may still arrive at its provider.
    pub(crate) fn margin(&self) -> u8 {
        // A call starts before `call_within` ticks have passed, which is at most one tick less.
        self.call_within - 1 + self.delay
    }
}

impl Model {
    pub(crate) fn request(&self, by: u8) -> Request {
        self.requests[usize::from(by) - 1]
    }

    /// Whether the request's server knows this version of the fingerprint.
    pub(crate) fn carries(&self, by: u8, version: u8) -> bool {
        let request = self.request(by);
        request.print.version == version || request.accepts.is_some_and(|print| print.version == version)
    }

    /// Makes the first request a retry with this body by a server that knows both versions.
    pub(crate) fn retry_of(&mut self, body: u8) {
        let print = |version| Print { body, version };
        self.requests = vec![Request { print: print(1), accepts: Some(print(2)) }];
    }

    pub(crate) fn breaks(&self, rule: Rule) -> bool {
        self.broken.contains(&rule)
    }

    pub(crate) fn breaks_any(&self, rules: &[Rule]) -> bool {
        !self.broken.is_empty() && rules.iter().any(|&rule| self.breaks(rule))
    }

    pub(crate) fn reached(&self, sometimes: Sometimes) {
        self.reached.note(sometimes);
    }

    /// The decision of the shipping function, or of it lied to where a rule is broken.
    pub(crate) fn decide(&self, stage: Stage, row: Option<Row>, call: Call, now: u8) -> Decided {
        if self.broken.is_empty() {
            return machine::decide(row, call, now);
        }
        lies::decide(&self.broken, stage, row, call, now)
    }
}

impl stateright::Model for Model {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.requests.len())]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.may_follow(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        if last.broken.any() {
            return None; // a broken promise ends the run
        }
        let mut world = last.clone();
        let next = &mut world;
        self.act(next, action)?;
        if next.known.lives > 1 {
            self.reached(Sometimes::SecondLife);
        }
        if let Some(without) = self.without {
            next.broken.disregard(without);
        }
        next.forget(self.bounds.window, self.bounds.reconciler);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promise::properties(self.without)
    }
}
