//! What only the checker knows.

use super::{EFFECTS, LIVES};

/// What only the checker knows: the history, as far as a promise needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    /// Lives of the record so far; the row, if there is one, is of the last.
    pub(crate) lives: u8,
    pub(crate) of: [Life; LIVES],
    /// Windows so far: lives between two lawful expiries share one.
    pub(crate) window: u8,
    pub(crate) windows: [Window; LIVES],
}

/// One life of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Life {
    pub(crate) window: u8,
    pub(crate) operation: u8,
    /// The highest token that was granted, and to whom.
    pub(crate) token: u8,
    pub(crate) owner: u8,
    /// The committed answer, 0 for none, and the tick until which it was promised.
    pub(crate) response: u8,
    pub(crate) until: u8,
    /// Which effects have a committed mark, and the committed result of each, 0 for none.
    pub(crate) marked: [bool; EFFECTS],
    pub(crate) results: [u8; EFFECTS],
}

/// What happened outside between a birth and a lawful expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) called: [bool; EFFECTS],
    /// Distinct effects, counted up to 2.
    pub(crate) effects: [u8; EFFECTS],
}
