//! What is explored: the base, which the gate runs, and the wide form.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    machine::Print,
    model::{
        Bounds,
        Kind::{self, AtMostOnce, Keyed, Natural, Opaque},
        Model, Request,
    },
    sometimes::Reached,
};

/// What the gate explores.
pub(crate) fn base() -> Vec<Model> {
    let two = [SAME, SAME];
    vec![
        model("natural: failures, heartbeat", &two, &[Natural]).failures(1).heartbeat(),
        model("keyed: reconciler, heartbeat", &two, &[Keyed]).reconciler().heartbeat(),
        model("keyed: failures, heartbeat", &two, &[Keyed]).failures(1).heartbeat(),
        model("at most once: reconciler, failures", &two, &[AtMostOnce]).reconciler().failures(1),
        model("at most once: reconciler, heartbeat", &two, &[AtMostOnce]).reconciler().heartbeat(),
        model("opaque: reconciler, heartbeat", &two, &[Opaque]).reconciler().heartbeat(),
        model("keyed, at most once: reconciler, failures", &two, &[Keyed, AtMostOnce])
            .reconciler()
            .failures(1),
        model("keyed, keyed, in either order: failures", &two, &[Keyed, Keyed]).reversed().failures(1),
        model("another request: failures, heartbeat", &[SAME, OTHER], &[Keyed]).failures(1).heartbeat(),
        model("a newer server: failures", &[SAME, NEWER], &[Keyed]).failures(1),
        model("a server rolled out too early: reconciler", &[SAME, STRANGER], &[AtMostOnce]).reconciler(),
        model("three attempts, keyed", &[SAME; 3], &[Keyed]).ticks(3),
        model("three attempts, opaque: reconciler", &[SAME; 3], &[Opaque]).ticks(3).reconciler(),
        model("two faults, natural", &two, &[Natural]).faults(2),
    ]
}

/// What is explored now and then.
pub(crate) fn wide() -> Vec<Model> {
    let two = [SAME, SAME];
    let mut models = base();
    for kinds in [[Natural], [Keyed], [AtMostOnce], [Opaque]] {
        let with = |what: &str| model(&format!("{kinds:?}: {what}"), &two, &kinds);
        models.extend([
            with("everything").failures(1).heartbeat().reconciler(),
            with("everything, five ticks").failures(1).heartbeat().reconciler().ticks(5),
            with("two faults, reconciler").faults(2).reconciler(),
            with("two faults, heartbeat").faults(2).heartbeat(),
            with("two faults, failures").faults(2).failures(1),
        ]);
        let three = |what: &str| model(&format!("three attempts, {kinds:?}: {what}"), &[SAME; 3], &kinds);
        models.extend([
            three("reconciler").ticks(3).reconciler(),
            three("heartbeat").ticks(3).heartbeat(),
            three("failures").ticks(3).failures(1),
            three("two faults").ticks(3).faults(2),
            three("everything").ticks(3).failures(1).heartbeat().reconciler(),
        ]);
    }
    for kinds in [[Keyed, AtMostOnce], [Keyed, Keyed], [AtMostOnce, AtMostOnce], [Natural, AtMostOnce]] {
        let with = |what: &str| model(&format!("{kinds:?}: {what}"), &two, &kinds);
        models.extend([
            with("reconciler, heartbeat").reconciler().heartbeat(),
            with("failures, heartbeat").failures(1).heartbeat(),
            with("in either order").reversed().failures(1).reconciler(),
            with("two faults").faults(2).failures(1).ticks(3),
            with("everything").failures(1).heartbeat().reconciler(),
        ]);
    }
    models
}

/// One fault, four ticks, two lives; the rest is added.
pub(crate) fn model(name: &str, attempts: &[Request], effects: &[Kind]) -> Model {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    Model {
        name: name.to_owned(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        requests: attempts.to_vec(),
        effects: effects.to_vec(),
        bounds: Bounds {
            clock: 4,
            lives: 2,
            faults: 1,
            failures: 0,
            heartbeat: false,
            reconciler: false,
            reversed: false,
            lease: 1,
            retention: 2,
            window: 3,
            call_within: 1,
            delay: 1,
        },
        broken: Vec::new(),
        without: None,
        reached: Arc::new(Reached::default()),
    }
}

impl Model {
    /// This many faults.
    pub(crate) fn faults(mut self, faults: u8) -> Self {
        self.bounds.faults = faults;
        self
    }

    /// Handlers that fail, as often as this.
    pub(crate) fn failures(mut self, failures: u8) -> Self {
        self.bounds.failures = failures;
        self
    }

    /// The clock goes on for so many ticks.
    pub(crate) fn ticks(mut self, ticks: u8) -> Self {
        self.bounds.clock = ticks;
        self
    }

    /// Owners renew their lease once.
    pub(crate) fn heartbeat(mut self) -> Self {
        self.bounds.heartbeat = true;
        self
    }

    /// A reconciler settles what is in doubt.
    pub(crate) fn reconciler(mut self) -> Self {
        self.bounds.reconciler = true;
        self
    }

    /// The second attempt meets the effects in the other order.
    pub(crate) fn reversed(mut self) -> Self {
        self.bounds.reversed = true;
        self
    }
}

/// The request that all retries repeat, by a server that knows one version of the fingerprint.
pub(crate) const SAME: Request = Request { print: Print { body: 0, version: 1 }, accepts: None };
/// Another request under the same key.
pub(crate) const OTHER: Request = Request { print: Print { body: 1, version: 1 }, accepts: None };
/// The same request by a newer server, which still accepts the older fingerprint.
pub(crate) const NEWER: Request =
    Request { print: Print { body: 0, version: 2 }, accepts: Some(Print { body: 0, version: 1 }) };
/// The same request by a server that was rolled out too early: it does not know the older fingerprint.
pub(crate) const STRANGER: Request = Request { print: Print { body: 0, version: 2 }, accepts: None };
