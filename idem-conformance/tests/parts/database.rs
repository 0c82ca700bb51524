//! A pretend database: an application's rows, messages and markers beside a store of keys, with one flaw at most.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use idem_memory::{ManualClock, MemoryStore};
use tokio::sync::Mutex;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A transaction adds no message.
    MessageLost,
    /// A transaction gives the key up when it begins.
    HandsOn,
    /// The id of a message does not tell its step.
    IdsWithoutStep,
    /// The relay marks nothing.
    NeverMarks,
    /// A rollback leaves the messages.
    KeepsRolledBack,
    /// The inbox keeps no marker.
    ForgetsMarkers,
    /// The inbox does not tell its consumers apart.
    SharesMarkers,
    /// The inbox takes upper and lower case for the same.
    FoldsCase,
    /// The application's row is committed by itself.
    RowBeside,
    /// The message is committed by itself.
    MessageBeside,
    /// A phase begins without looking who owns the key, and takes what its last write says for granted.
    NoFence,
    /// The same of a step.
    FenceUnread,
    /// A commit that was not answered is taken for done.
    UnknownIsDone,
    /// And for undone.
    UnknownIsUndone,
    /// A message has a new id whenever it is added.
    DrawnIds,
    /// A step's result is not recorded.
    StepUnrecorded,
    /// A step's row is committed before its work is over.
    StepBeside,
    /// The relay remembers the last number that it has seen.
    Cursor,
    /// The relay marks everything up to the last number that it has published.
    MarksUpTo,
    /// The relay reads what is not committed.
    SeesOpen,
    /// The relay marks before it publishes.
    MarksFirst,
    /// A message has a new id at each try.
    NewIdEachTry,
    /// The relay gives up at the first message that is refused, and begins there the next time.
    StopsAtPoison,
    /// Messages of one key are taken as they come.
    NoOrder,
    /// Two relays may take the same message.
    NoLease,
    /// The inbox looks before it inserts.
    ChecksThenInserts,
    /// The inbox commits its marker by itself.
    MarkerBeside,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) payload: String,
    pub(crate) key: Option<String>,
    pub(crate) published: bool,
    /// Taken by a relay that is at work, or died there.
    pub(crate) taken: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) rows: u64,
    pub(crate) next: u64,
    pub(crate) messages: Vec<Row>,
    /// Added and not committed: a number is given to a message when it is added.
    pub(crate) open: Vec<Row>,
    pub(crate) markers: Vec<(String, String)>,
    pub(crate) effects: u64,
    pub(crate) cursor: u64,
}

impl Tables {
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) flaw: Option<Flaw>,
    pub(crate) clock: ManualClock,
    pub(crate) keys: MemoryStore,
    pub(crate) tables: Arc<Mutex<Tables>>,
    /// What becomes of the next commit: [`ANSWERED`], or the other two.
    commit: Arc<AtomicU8>,
}

pub(crate) const ANSWERED: u8 = 0;
pub(crate) const HIDDEN: u8 = 1;
pub(crate) const VANISHED: u8 = 2;

impl Database {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        let clock = ManualClock::new();
        let keys = MemoryStore::with_clock(clock.clone());
        Self { flaw, clock, keys, tables: Arc::default(), commit: Arc::new(AtomicU8::new(ANSWERED)) }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(crate) fn lose_commit(&self, happens: bool) {
        self.commit.store(if happens { HIDDEN } else { VANISHED }, Ordering::SeqCst);
    }

    pub(crate) fn next_commit(&self) -> u8 {
        self.commit.swap(ANSWERED, Ordering::SeqCst)
    }
}
