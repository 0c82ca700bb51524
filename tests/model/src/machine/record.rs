//! A record in a dozen bytes, and back.
//!
//! What no decision looks at is left out: `created_at`, `locked_at` and `ended_at` are only ever written.

use std::time::{Duration, SystemTime};

use idem_core::{
    AttemptId, Fingerprint, Key, KeyId, OperationId, Record, RecoveryPoint, RerunUntil, Scope, State,
    StoredResponse,
};

/// `rerun_until` = `-infinity`.
pub(crate) const NEVER: u8 = 0;
/// `rerun_until` = `infinity`.
pub(crate) const ALWAYS: u8 = u8::MAX;

/// `rerun_until` = this tick; 0 and the last number are taken.
pub(crate) const fn at(tick: u8) -> u8 {
    tick + 1
}

/// `rerun_until` = a tick that is over.
pub(crate) const OVER: u8 = at(0);

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) operation: u8,
    pub(crate) token: u8,
    pub(crate) attempt: u8,
    pub(crate) state: RowState,
    pub(crate) fingerprint: Print,
    pub(crate) version: u8,
    pub(crate) checkpoint: u8,
    pub(crate) journal: Option<Journal>,
    /// The tick at which the lease is over.
    pub(crate) lease: u8,
    /// [`NEVER`], [`ALWAYS`] or [`at`] a tick.
    pub(crate) rerun: u8,
    /// The tick at which an ended record is expired.
    pub(crate) expires: u8,
}

/// Where a record stands; the answer is one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowState {
    InProgress,
    Completed(u8),
    Failed,
}

/// A fingerprint: which request, and by which version of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Print {
    pub(crate) body: u8,
    pub(crate) version: u8,
}

/// The engine's note of the two effects, as the recovery point's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Journal(pub [Mark; 2]);

/// What is noted of one effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// Nothing: it was not started.
    #[default]
    Blank,
    /// It may have happened.
    Open,
    /// It happened, with this result.
    Result(u8),
}

impl Journal {
    /// The effects that are open.
    pub(crate) fn open(self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(move |&effect| self.0[effect] == Mark::Open)
    }

    /// Whether a result is noted.
    pub(crate) fn holds_result(self) -> bool {
        self.0.iter().any(|mark| matches!(mark, Mark::Result(_)))
    }

    /// The journal with one mark replaced.
    #[must_use]
    pub(crate) fn with(mut self, effect: u8, mark: Mark) -> Self {
        self.0[usize::from(effect)] = mark;
        self
    }

    fn to_bytes(self) -> Vec<u8> {
        let byte = |mark| match mark {
            Mark::Blank => 0,
            Mark::Open => 1,
            Mark::Result(result) => 2 + result,
        };
        self.0.map(byte).to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mark = |effect: usize| match bytes[effect] {
            0 => Mark::Blank,
            1 => Mark::Open,
            result => Mark::Result(result - 2),
        };
        Self([mark(0), mark(1)])
    }
}

impl Row {
    /// The journal; an operation without a checkpoint has an empty one.
    pub(crate) fn journal(&self) -> Journal {
        self.journal.unwrap_or_default()
    }

    /// Whether it is in progress past its lease.
    pub(crate) fn is_stuck(&self, now: u8) -> bool {
        self.state == RowState::InProgress && now >= self.lease
    }

    /// Whether it is in doubt, told by ticks: promises are not judged by the functions that they judge.
    pub(crate) fn is_doubtful(&self, now: u8) -> bool {
        self.is_stuck(now) && self.rerun != ALWAYS && self.rerun <= at(now)
    }

    /// Whether it has ended and expired, told by ticks.
    pub(crate) fn is_over(&self, now: u8) -> bool {
        self.state != RowState::InProgress && self.expires <= now
    }

    pub(super) fn record(&self) -> Record {
        Record {
            id: id(),
            operation: operation(self.operation),
            attempt: attempt(self.attempt),
            token: u64::from(self.token),
            fingerprint: fingerprint(self.fingerprint),
            state: match self.state {
                RowState::InProgress => State::InProgress,
                RowState::Completed(byte) => State::Completed { response: response(byte), ended_at: time(0) },
                RowState::Failed => State::Failed { ended_at: time(0) },
            },
            version: u64::from(self.version),
            checkpoint: u64::from(self.checkpoint),
            locked_at: time(0),
            lease_until: time(self.lease),
            rerun_until: match self.rerun {
                NEVER => RerunUntil::Never,
                ALWAYS => RerunUntil::Always,
                tick => RerunUntil::At(time(tick - 1)),
            },
            point: self.journal.map(|journal| point(self.checkpoint, journal)),
            // Kept or dropped, it decides nothing: what is claimed here stores none.
            request: None,
            created_at: time(0),
            expires_at: time(self.expires),
        }
    }

    pub(super) fn of(record: &Record) -> Self {
        Self {
            operation: record.operation.to_bytes()[0],
            token: small(record.token),
            attempt: record.attempt.to_bytes()[0],
            state: match &record.state {
                State::InProgress => RowState::InProgress,
                State::Completed { response, .. } => RowState::Completed(response.body()[0]),
                State::Failed { .. } => RowState::Failed,
            },
            fingerprint: print(record.fingerprint),
            version: small(record.version),
            checkpoint: small(record.checkpoint),
            journal: record.point.as_ref().map(journal),
            lease: tick(record.lease_until),
            rerun: match record.rerun_until {
                RerunUntil::Never => NEVER,
                RerunUntil::Always => ALWAYS,
                RerunUntil::At(time) => at(tick(time)),
            },
            expires: tick(record.expires_at),
        }
    }
}

pub(super) fn id() -> KeyId {
    let key: Key = "one".parse().expect("a key");
    KeyId::new(Scope::new("model").expect("a scope"), key)
}

pub(super) fn operation(number: u8) -> OperationId {
    OperationId::from_bytes([number; 16])
}

pub(super) fn attempt(number: u8) -> AttemptId {
    AttemptId::from_bytes([number; 16])
}

pub(super) fn fingerprint(print: Print) -> Fingerprint {
    let mut bytes = [print.body; 33];
    bytes[0] = print.version;
    Fingerprint::from_bytes(bytes)
}

pub(super) fn print(fingerprint: Fingerprint) -> Print {
    let [version, body, ..] = fingerprint.to_bytes();
    Print { body, version }
}

pub(super) fn response(byte: u8) -> StoredResponse {
    StoredResponse::new(200, vec![byte]).expect("a final status")
}

pub(super) fn point(number: u8, journal: Journal) -> RecoveryPoint {
    RecoveryPoint::new(u64::from(number), "journal", journal.to_bytes()).expect("a recovery point")
}

pub(super) fn journal(point: &RecoveryPoint) -> Journal {
    Journal::from_bytes(point.data())
}

pub(super) fn time(tick: u8) -> SystemTime {
    SystemTime::UNIX_EPOCH + span(tick)
}

pub(super) fn span(ticks: u8) -> Duration {
    Duration::from_secs(u64::from(ticks))
}

fn tick(time: SystemTime) -> u8 {
    small(time.duration_since(SystemTime::UNIX_EPOCH).expect("after the first tick").as_secs())
}

pub(super) fn small(number: u64) -> u8 {
    u8::try_from(number).expect("the model counts in bytes")
}
