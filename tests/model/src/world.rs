//! One state: the row, the clock, the attempts, what is still under way, and what only the checker knows.

mod attempt;
mod known;

use crate::{
    machine::{ALWAYS, How, Journal, Mark, OVER, Print, Reruns, Row, RowState, Settled, at},
    promise::Broken,
};

pub(crate) use attempt::{At, Attempt, Said};
pub(crate) use known::{Known, Life, Window};

/// The most attempts, effects and lives that a configuration has.
pub(crate) const ATTEMPTS: usize = 3;
pub(crate) const EFFECTS: usize = 2;
pub(crate) const LIVES: usize = 2;
/// Statements and calls that are under way though nobody waits for them any more.
pub(crate) const LATE: usize = 2;

/// Everything, in a few hundred bytes without a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) row: Option<Row>,
    pub(crate) clock: u8,
    pub(crate) attempts: [Attempt; ATTEMPTS],
    pub(crate) late: [Option<Statement>; LATE],
    /// A sweep has picked the row and not yet deleted it.
    pub(crate) picked: bool,
    pub(crate) reconciler: Reconciler,
    /// What the provider of each effect remembers: the key, and when it was first seen.
    pub(crate) provider: [Option<(u8, u8)>; EFFECTS],
    pub(crate) faults: u8,
    pub(crate) failures: u8,
    pub(crate) known: Known,
    pub(crate) broken: Broken,
}

/// What the first statement of a claim saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) how: How,
    pub(crate) operation: u8,
    pub(crate) token: u8,
    /// Kept only where a broken rule hands it over.
    pub(crate) checkpoint: u8,
    pub(crate) journal: Option<Journal>,
}

/// A fence, and the life that it was given for, which only the checker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Fence {
    pub(crate) operation: u8,
    pub(crate) token: u8,
    pub(crate) life: u8,
}

/// What is sent: a statement to the store, or a call to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Statement {
    Claim { by: u8 },
    Take { by: u8, seen: Seen },
    Checkpoint { by: u8, fence: Fence, number: u8, journal: Journal, rerun: Reruns },
    Renew { fence: Fence, lease: u8 },
    Complete { by: u8, fence: Fence },
    Release { fence: Fence },
    Resolve { seen: Row, decision: Settled },
    Call { by: u8, effect: u8, key: u8, life: u8, due: u8 },
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Claimed {
        fence: Fence,
        print: Print,
        checkpoint: u8,
        journal: Journal,
    },
    /// The row of the table is a write: send it.
    Write(Seen),
    /// The row has changed: start again at the first row of the table.
    StartAgain,
    Completed {
        life: u8,
        response: u8,
    },
    InProgress,
    InDoubt,
    Mismatch,
    Done,
    Lost,
    TooLate,
    Invalid,
    Unavailable,
    /// The statement raised an error that nobody foresaw.
    Fault,
}

/// The one reconciler, which acts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reconciler {
    Waiting,
    /// It has the record, and what the providers said of each effect.
    Looked {
        seen: Row,
        happened: [bool; EFFECTS],
    },
    /// Sent, outcome unknown: the same call again.
    Unknown {
        seen: Row,
        decision: Settled,
    },
    Over,
}

impl World {
    pub(crate) fn new(attempts: usize) -> Self {
        let absent = Attempt::ended(At::Dead, 0);
        let mut world = Self {
            row: None,
            clock: 0,
            attempts: [absent; ATTEMPTS],
            late: [None; LATE],
            picked: false,
            reconciler: Reconciler::Waiting,
            provider: [None; EFFECTS],
            faults: 0,
            failures: 0,
            known: Known::default(),
            broken: Broken::default(),
        };
        world.attempts[..attempts].fill(Attempt::new());
        world
    }

    /// The life of the row, or of the last row that there was.
    pub(crate) fn life(&mut self) -> &mut Life {
        &mut self.known.of[usize::from(self.known.lives.max(1)) - 1]
    }

    /// What happened in the window of a life.
    pub(crate) fn window(&mut self, life: u8) -> &mut Window {
        let window = self.known.of[usize::from(life) - 1].window;
        &mut self.known.windows[usize::from(window)]
    }

    /// Lets a statement go on without its sender.
    pub(crate) fn send_late(&mut self, statement: Statement) {
        let free = self.late.iter_mut().find(|late| late.is_none()).expect("a free place was checked for");
        *free = Some(statement);
    }

    /// When each call to a provider that is under way arrives at the latest.
    pub(crate) fn calls_due(&self) -> impl Iterator<Item = u8> + '_ {
        self.late.iter().filter_map(|late| match late {
            Some(Statement::Call { due, .. }) => Some(*due),
            _ => None,
        })
    }

    /// Forgets what no future step can tell apart, so that equal worlds are equal.
    pub(crate) fn forget(&mut self, window: u8, reconciled: bool) {
        let clock = self.clock;
        self.late.sort_unstable();
        for attempt in &mut self.attempts {
            match attempt.at {
                At::Answered(_) | At::Dead => *attempt = Self::over(attempt),
                At::Claim | At::Take(_) => {
                    let reply = attempt.reply;
                    *attempt = Self::over(attempt);
                    attempt.reply = reply;
                }
                At::Mark(_) => {}
                At::Call(_) => attempt.unknown = false,
                At::Note(_) | At::Complete | At::HandOn => (attempt.marked, attempt.again) = (0, false),
                At::Withdraw { .. } | At::Release => {
                    (attempt.marked, attempt.again, attempt.unknown) = (0, false, false);
                }
            }
            if attempt.lease <= clock {
                attempt.lease = 0;
            }
        }
        for provider in &mut self.provider {
            *provider = provider.filter(|(_, first)| clock < first + window);
        }
        self.forget_row(reconciled);
        let lives = usize::from(self.known.lives);
        for (number, life) in self.known.of.iter_mut().enumerate() {
            if life.until <= clock {
                life.until = 0;
            }
            if self.row.is_none() || number + 1 != lives {
                life.results = [0; EFFECTS];
            }
        }
    }

    /// An attempt of which only where it is and what it ran is kept.
    fn over(attempt: &Attempt) -> Attempt {
        Attempt::ended(attempt.at, attempt.ran)
    }

    /// Whether a resolution is on its way, which compares versions.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.reconciler, Reconciler::Looked { .. } | Reconciler::Unknown { .. })
            || self.late.iter().flatten().any(|late| matches!(late, Statement::Resolve { .. }))
    }

    /// A tick that is over is forgotten, never one that is now: on which side of an end the instant itself lies is for the
    /// shipping functions to say.
    fn forget_row(&mut self, reconciled: bool) {
        let clock = self.clock;
        // Versions are compared by resolutions only, with one that was seen, maybe of an earlier life.
        let watched = reconciled && self.reconciler != Reconciler::Over || self.is_watched();
        let Some(row) = &mut self.row else { return };
        if row.lease < clock || row.state != RowState::InProgress {
            row.lease = 0;
        }
        if row.rerun != ALWAYS && row.rerun > OVER && row.rerun < at(clock) {
            row.rerun = OVER;
        }
        if row.expires < clock {
            row.expires = 0;
        }
        if !watched {
            row.version = 1;
        }
    }

    /// The journal of the row, empty where there is none.
    pub(crate) fn journal(&self) -> Journal {
        self.row.map(|row| row.journal()).unwrap_or_default()
    }

    /// Whether the row has a mark without a result.
    pub(crate) fn is_open(&self) -> bool {
        self.journal().0.contains(&Mark::Open)
    }
}
