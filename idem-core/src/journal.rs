//! What a recovery point remembers of an operation's effects.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::{Claim, Error, ErrorKind, Invalid, Record, RecoveryPoint, Rerun};

/// The one effect of an opaque handler.
pub(crate) const HANDLER: &str = "handler";
/// The most effects of one operation.
pub const MAX_EFFECTS: usize = 32;
/// The largest result of an effect, in bytes of JSON: what a resumed run needs of it, not the provider's whole answer.
pub const MAX_RESULT: usize = 16 << 10;

/// The version of the format in a recovery point's data.
const VERSION: u8 = 1;

/// The effects of one operation, over all its owners, in the order in which they were begun.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    v: u8,
    effects: Vec<Noted>,
    #[serde(skip)]
    checkpoint: u64,
}

/// One effect: open, or with its result, or only begun; that keeps its place, for a run that went past it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    open: Option<Open>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    /// This run has its result.
    #[serde(skip)]
    passed: bool,
    /// Sent by this run, and not known to be committed: a mark behind which nothing was called, or a result.
    #[serde(skip)]
    unsettled: bool,
    /// Begun by this run, be it again.
    #[serde(skip)]
    own: bool,
}

/// A result that is there, be it `null`: the value of an effect that returns nothing.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// A value as it is recorded.
///
/// # Errors
/// [`Invalid`] if it does not serialise or is too large.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, Invalid> {
    let encoded = to_raw_value(value).map_err(|_| Invalid::new("result", "a value that serialises"))?;
    if encoded.get().len() > MAX_RESULT {
        return Err(Invalid::new("result", "at most 16384 bytes of JSON").seen(encoded.get().len()));
    }
    Ok(encoded)
}

/// An effect that may have started and has no result; the stricter one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Open {
    /// Its provider knows it again by its key, for a while.
    Keyed,
    /// It must not be repeated.
    Never,
}

/// What is known of an effect that a run is about to begin.
pub(crate) enum Known {
    Nothing,
    Open(Open),
    Result(Box<RawValue>),
}

impl Noted {
    /// Of this name, without anything else.
    fn unsettled(name: &str) -> Self {
        Self { name: name.to_owned(), open: None, result: None, passed: false, unsettled: true, own: true }
    }

    fn is_blank(&self) -> bool {
        self.open.is_none() && self.result.is_none()
    }
}

impl Journal {
    /// What earlier owners left.
    ///
    /// # Errors
    /// `Corrupt` if it does not decode or is of another version: nothing may run then.
    pub(crate) fn of(claim: &Claim) -> Result<Self, Error> {
        Self::decode(claim.checkpoint(), claim.point())
    }

    /// What a record holds.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn seen(record: &Record) -> Result<Self, Error> {
        Self::decode(record.checkpoint, record.point.as_ref())
    }

    fn decode(checkpoint: u64, point: Option<&RecoveryPoint>) -> Result<Self, Error> {
        let Some(point) = point else { return Ok(Self { v: VERSION, effects: Vec::new(), checkpoint }) };
        // What serde says of it may quote a result.
        let corrupt = || Error::new(ErrorKind::Corrupt, "the recovery point does not decode; nothing ran");
        let journal: Self = serde_json::from_slice(point.data()).map_err(|_| corrupt())?;
        let sound = |noted: &Noted| noted.open.is_none() || noted.result.is_none();
        if journal.v != VERSION || !journal.effects.iter().all(sound) {
            return Err(corrupt());
        }
        Ok(Self { checkpoint, ..journal })
    }

    /// One of an operation of which nothing is known yet.
    pub(crate) fn unread(claim: &Claim) -> Self {
        Self { v: VERSION, effects: Vec::new(), checkpoint: claim.checkpoint() }
    }

    /// The strictest of the effects that may have started and have no result.
    pub(crate) fn open(&self) -> Option<Open> {
        self.effects.iter().filter_map(|noted| noted.open).max()
    }

    /// The names of those.
    pub(crate) fn open_names(&self) -> impl Iterator<Item = &str> {
        self.effects.iter().filter(|noted| noted.open.is_some()).map(|noted| noted.name.as_str())
    }

    /// Whether nothing is open, and nothing recorded.
    pub(crate) fn is_blank(&self) -> bool {
        self.effects.iter().all(Noted::is_blank)
    }

    /// Whether an earlier owner recorded something that this run has not come past.
    pub(crate) fn is_behind(&self) -> bool {
        self.effects.iter().any(|noted| !noted.passed && !noted.own && !noted.is_blank())
    }

    /// Whether something was sent that is not known to be committed.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.effects.iter().any(|noted| noted.unsettled)
    }

    /// Whether one of those is a result.
    pub(crate) fn holds_unsettled_result(&self) -> bool {
        self.effects.iter().any(|noted| noted.unsettled && noted.result.is_some())
    }

    /// Until when a new owner may run the work again, with what is open after this checkpoint.
    pub(crate) fn rerun(&self) -> Rerun {
        if self.open().is_some() { Rerun::Keep } else { Rerun::Always }
    }

    /// What is known of an effect that is about to begin.
    ///
    /// # Errors
    /// `Invalid` for a name that this run has had a result of, for one that no recovery point can hold, for one too many,
    /// and for a new name while a recorded one has not been passed: the steps were renamed or removed while the operation
    /// was under way.
    pub(crate) fn begin(&mut self, name: &str) -> Result<Known, Error> {
        let invalid = |what: &'static str| Err(Error::new(ErrorKind::Invalid, what));
        if let Some(noted) = self.effects.iter_mut().find(|noted| noted.name == name) {
            return match (&noted.result, noted.open) {
                (Some(_), _) if noted.passed => {
                    invalid("the name of an effect is used once; a loop numbers it")
                }
                (Some(result), _) => Ok(Known::Result(result.clone())),
                (None, open) => {
                    noted.own = true;
                    Ok(open.map_or(Known::Nothing, Known::Open))
                }
            };
        }
        if self.is_behind() {
            return invalid("a recorded effect was not passed before a new one; was it renamed or removed?");
        }
        if self.effects.len() >= MAX_EFFECTS {
            return Err(Invalid::new("effects", "at most 32 an operation")
                .seen(self.effects.len() + 1)
                .into());
        }
        let allowed = !name.is_empty() && name.len() <= RecoveryPoint::MAX_NAME && !name.contains('\0');
        if !allowed || name == HANDLER {
            let text = "1 to 255 bytes of text without NUL, and not `handler`";
            return Err(Invalid::new("effect name", text).seen(name.len()).into());
        }
        self.note(Noted { unsettled: false, ..Noted::unsettled(name) });
        Ok(Known::Nothing)
    }

    /// This run has the result of an effect.
    pub(crate) fn pass(&mut self, name: &str) {
        if let Some(noted) = self.effects.iter_mut().find(|noted| noted.name == name) {
            noted.passed = true;
        }
    }

    /// The next checkpoint, with the first mark of an effect; unsettled until [`settled`](Self::settled).
    pub(crate) fn mark(&mut self, name: &str, open: Open) -> Result<RecoveryPoint, Error> {
        self.note(Noted { open: Some(open), ..Noted::unsettled(name) });
        self.point(name)
    }

    /// The next checkpoint, with the result of an effect. From here on it counts as known, committed or not, and is passed
    /// once its run has it.
    pub(crate) fn result(&mut self, name: &str, result: Box<RawValue>) -> Result<RecoveryPoint, Error> {
        self.note(Noted { result: Some(result), ..Noted::unsettled(name) });
        self.point(name)
    }

    /// The last checkpoint is committed.
    pub(crate) fn settled(&mut self) {
        for noted in &mut self.effects {
            noted.unsettled = false;
        }
    }

    /// The mark of an effect is to be taken back: it was not called.
    pub(crate) fn not_called(&mut self, name: &str) {
        if let Some(noted) = self.effects.iter_mut().find(|noted| noted.name == name && noted.open.is_some())
        {
            noted.unsettled = true;
        }
    }

    /// Notes that an effect happened, with this result, or did not.
    pub(crate) fn settle(&mut self, name: &str, result: Option<Box<RawValue>>) {
        self.note(Noted { result, unsettled: false, ..Noted::unsettled(name) });
    }

    /// The journal without the marks behind which nothing was called, to be committed in its place.
    pub(crate) fn tidied(&self) -> Self {
        let mut tidied = self.clone();
        for noted in tidied.effects.iter_mut().filter(|noted| noted.unsettled) {
            noted.open = None;
        }
        tidied
    }

    /// Goes on with a journal that is committed; numbers that were used meanwhile stay used.
    pub(crate) fn replace(&mut self, committed: Self) {
        let checkpoint = self.checkpoint.max(committed.checkpoint);
        *self = Self { checkpoint, ..committed };
        self.settled();
    }

    /// The number of a copy's checkpoint is not used again.
    pub(crate) fn skip_to(&mut self, checkpoint: u64) {
        self.checkpoint = self.checkpoint.max(checkpoint);
    }

    fn note(&mut self, noted: Noted) {
        match self.effects.iter_mut().find(|there| there.name == noted.name) {
            Some(there) => *there = noted,
            None => self.effects.push(noted),
        }
    }

    /// The next checkpoint.
    pub(crate) fn point(&mut self, name: &str) -> Result<RecoveryPoint, Error> {
        self.checkpoint += 1;
        let data = serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the journal does not serialise").with_source(error)
        })?;
        Ok(RecoveryPoint::new(self.checkpoint, name, data)?)
    }
}

/// Shows names, never a result.
impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.effects.iter().map(|noted| (&noted.name, noted.open)).collect();
        f.debug_struct("Journal").field("effects", &names).finish_non_exhaustive()
    }
}
