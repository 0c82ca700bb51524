//! The rows of a store in the zoo, and the clocks that it has to do with.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::{Duration, SystemTime},
};

use idem_core::{KeyId, Record, RerunUntil, State};
use idem_memory::ManualClock;
use tokio::sync::Notify;

use crate::{
    defect::Defect,
    rules::{Now, Rules},
};

/// What the handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    clock: ManualClock,
    /// What it advances by whenever it is read.
    tick: Duration,
    /// The clock of a caller whose time does not pass.
    caller: SystemTime,
    rows: Mutex<Rows>,
    /// Wakes those who pause in the middle of a step.
    pub(crate) calls: Notify,
    /// The lock of [`Defect::WedgedByDrop`].
    pub(crate) busy: AtomicBool,
    /// The connections of [`Defect::WaitersHoldConnections`].
    pub(crate) waiting: AtomicUsize,
}

/// Rows by name, each with the row that it replaced.
pub(crate) type Rows = BTreeMap<String, Row>;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) before: Option<Record>,
}

impl Shared {
    pub(crate) fn new(wrong: Option<Defect>, clock: ManualClock, tick: Duration) -> Self {
        let caller = clock.now();
        Self {
            rules: Rules(wrong),
            clock,
            tick,
            caller,
            rows: Mutex::default(),
            calls: Notify::new(),
            busy: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Moves every stored time into the past.
    pub(crate) fn age(&self, by: Duration) {
        for row in self.rows().values_mut() {
            let record = &mut row.record;
            for time in [
                &mut record.locked_at,
                &mut record.lease_until,
                &mut record.created_at,
                &mut record.expires_at,
            ] {
                *time -= by;
            }
            if let RerunUntil::At(end) = &mut record.rerun_until {
                *end -= by;
            }
            if let State::Completed { ended_at, .. } | State::Failed { ended_at } = &mut record.state {
                *ended_at -= by;
            }
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.advance(self.tick);
        Now { store: self.clock.now(), caller: self.caller }
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wrong(&self, defect: Defect) -> bool {
        self.rules.wrong(defect)
    }

    /// The name of a key's row.
    pub(crate) fn name(&self, id: &KeyId) -> String {
        let (scope, key) = (id.scope().as_str(), id.key().as_str());
        match self.rules.0 {
            Some(Defect::ScopeNotInKey) => key.to_owned(),
            Some(Defect::KeyFoldsCase) => format!("{scope}\0{}", key.to_ascii_lowercase()),
            Some(Defect::KeyTrimmed) => format!("{scope}\0{}", key.trim()),
            Some(Defect::KeyCut) => format!("{scope}\0{}", key.get(..64).unwrap_or(key)),
            Some(Defect::ScopeAndKeyJoined) => format!("{scope}{key}"),
            _ => format!("{scope}\0{key}"),
        }
    }
}

pub(crate) fn put(rows: &mut Rows, name: &str, record: Record) {
    let before = rows.remove(name).map(|row| row.record);
    rows.insert(name.to_owned(), Row { record, before });
}
