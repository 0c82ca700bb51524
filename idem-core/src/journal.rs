//! What a recovery point remembers of an operation's effects.

use serde::{Deserialize, Serialize};

use crate::{Claim, Decision, Error, ErrorKind, Invalid, Record, RecoveryPoint};

/// The one effect of an opaque handler.
pub(crate) const HANDLER: &str = "handler";

/// The version of the format in a recovery point's data.
const VERSION: u8 = 1;

/// The effects of one operation, over all its owners.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    v: u8,
    /// Effects that may have started and have no result, by name.
    open: Vec<String>,
    #[serde(skip)]
    checkpoint: u64,
}

impl Journal {
    /// What earlier owners left.
    ///
    /// # Errors
    /// `Corrupt` if it does not decode or is of another version: nothing may run then.
    pub(crate) fn of(claim: &Claim) -> Result<Self, Error> {
        Self::decode(claim.checkpoint(), claim.point())
    }

    fn decode(checkpoint: u64, point: Option<&RecoveryPoint>) -> Result<Self, Error> {
        let Some(point) = point else { return Ok(Self { v: VERSION, open: Vec::new(), checkpoint }) };
        let corrupt = || Error::new(ErrorKind::Corrupt, "the recovery point does not decode; nothing ran");
        let journal: Self =
            serde_json::from_slice(point.data()).map_err(|error| corrupt().with_source(error))?;
        if journal.v != VERSION {
            return Err(corrupt());
        }
        Ok(Self { checkpoint, ..journal })
    }

    /// Whether an effect may have started and has no result.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next checkpoint, with the mark of an effect.
    pub(crate) fn mark(&mut self, name: &str) -> Result<RecoveryPoint, Error> {
        self.open.push(name.to_owned());
        self.point(name)
    }

    /// The next checkpoint, with the mark taken back.
    pub(crate) fn unmark(&mut self, name: &str) -> Result<RecoveryPoint, Error> {
        self.open.retain(|open| open != name);
        self.point(name)
    }

    fn point(&mut self, name: &str) -> Result<RecoveryPoint, Error> {
        self.checkpoint += 1;
        let data = serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the journal does not serialise").with_source(error)
        })?;
        Ok(RecoveryPoint::new(self.checkpoint, name, data)?)
    }
}

impl Decision {
    /// For an opaque operation in doubt: its handler did nothing. The next request runs it from the top.
    ///
    /// A resumption with the handler's mark removed, built from the record as it was seen. Unlike [`Decision::Fail`] it
    /// ends nothing: the operation stays listed as stuck, and is never swept, until a request takes it over.
    ///
    /// # Errors
    /// [`Invalid`] if the record has no open mark of an opaque handler.
    pub fn did_not_happen(seen: &Record) -> Result<Self, Invalid> {
        let marked = || Invalid::new("record", "in doubt with the mark of an opaque handler");
        let mut journal = Journal::decode(seen.checkpoint, seen.point.as_ref()).map_err(|_| marked())?;
        if !journal.open.iter().any(|open| open == HANDLER) {
            return Err(marked());
        }
        journal.unmark(HANDLER).map(Self::Resume).map_err(|_| marked())
    }
}
