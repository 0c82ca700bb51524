//! What is in doubt in a record, and how a person or a look-up settles it.

use serde::Serialize;

use crate::{
    Decision, Invalid, ProviderKey, Record,
    journal::{HANDLER, Journal, encode},
};

/// The effects of an operation in doubt that may have happened, to be settled one by one.
///
/// "It happened" takes the result that the next run gets back; "it did not" lets the next run call it. Once each is settled,
/// [`resume`](Self::resume) is the decision for [`Maintain::resolve`](crate::Maintain::resolve).
///
/// Ask the provider only when no call can be under way any more: not before the lease has been over for the policy's
/// `provider_max_delay`.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Doubt, Maintain, policy::{PROVIDER_MAX_DELAY, RETENTION}};
///
/// async fn look_up(store: &dyn Maintain, charge_of: impl Fn(&str) -> Option<String>) -> Result<(), idem_core::BoxError> {
///     for stuck in store.stuck(100).await? {
///         if !stuck.in_doubt || stuck.stuck_for < PROVIDER_MAX_DELAY {
///             continue;
///         }
///         let mut doubt = Doubt::of(&stuck.record)?;
///         for effect in doubt.open() {
///             doubt = match charge_of(&doubt.provider_key(&effect).hex()) {
///                 Some(charge) => doubt.happened(&effect, &charge)?,
///                 None => doubt.did_not_happen(&effect)?,
///             };
///         }
///         store.resolve(&stuck.record, &doubt.resume()?, RETENTION).await?; // refused if the record moved since
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is settled before `resume` is given to `resolve`"]
pub struct Doubt<'a> {
    seen: &'a Record,
    journal: Journal,
}

impl<'a> Doubt<'a> {
    /// What is open in the record as it was seen.
    ///
    /// # Errors
    /// [`Invalid`] if its recovery point does not decode, or nothing is open in it.
    pub fn of(seen: &'a Record) -> Result<Self, Invalid> {
        let refused = || Invalid::new("record", "in doubt, with an open effect in its recovery point");
        let journal = Journal::seen(seen).map_err(|_| refused())?;
        if journal.open().is_none() {
            return Err(refused());
        }
        Ok(Self { seen, journal })
    }

    /// The names of the effects that may have happened; `handler` is the whole of an opaque one.
    pub fn open(&self) -> Vec<String> {
        self.journal.open_names().map(ToOwned::to_owned).collect()
    }

    /// The key that the provider of an effect was shown.
    pub fn provider_key(&self, effect: &str) -> ProviderKey {
        ProviderKey::new(&self.seen.id, self.seen.fingerprint, effect)
    }

    /// It happened, with this result.
    ///
    /// # Errors
    /// [`Invalid`] if no such effect is open, if it is a whole handler (end that with [`Decision::Complete`]), or if the result does
    /// not serialise or takes more than [`MAX_RESULT`](crate::MAX_RESULT) bytes.
    pub fn happened<T: Serialize + ?Sized>(mut self, effect: &str, result: &T) -> Result<Self, Invalid> {
        self.check(effect)?;
        if effect == HANDLER {
            return Err(Invalid::new(
                "effect",
                "a named one: a handler that happened is completed with its answer",
            ));
        }
        self.journal.settle(effect, Some(encode(result)?));
        Ok(self)
    }

    /// It did not happen: the next run may call it.
    ///
    /// # Errors
    /// [`Invalid`] if no such effect is open.
    pub fn did_not_happen(mut self, effect: &str) -> Result<Self, Invalid> {
        self.check(effect)?;
        self.journal.settle(effect, None);
        Ok(self)
    }

    /// The decision that the next request goes on from here.
    ///
    /// # Errors
    /// [`Invalid`] while an effect is not settled.
    pub fn resume(mut self) -> Result<Decision, Invalid> {
        if self.journal.open().is_some() {
            let left = self.journal.open_names().count();
            return Err(Invalid::new("effects in doubt", "all settled").seen(left));
        }
        let point = self.journal.point("settled");
        point.map(Decision::Resume).map_err(|_| Invalid::new("results", "at most 1048576 bytes in all"))
    }

    fn check(&self, effect: &str) -> Result<(), Invalid> {
        if self.journal.open_names().any(|open| open == effect) {
            return Ok(());
        }
        Err(Invalid::new("effect", "the name of one that is open"))
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
        Doubt::of(seen)
            .and_then(|doubt| doubt.did_not_happen(HANDLER))
            .and_then(Doubt::resume)
            .map_err(|_| Invalid::new("record", "in doubt with the mark of an opaque handler"))
    }
}
