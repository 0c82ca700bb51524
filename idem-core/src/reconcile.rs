//! Looks up what is in doubt, and lets the operation go on with what was found.

use std::{collections::HashMap, fmt, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tracing::warn;

use crate::{
    BoxError, Doubt, KeyId, Maintain, OperationId, ProviderKey, Record, StoreError, StoreErrorKind, Stuck,
    event,
    policy::{PROVIDER_MAX_DELAY, RETENTION},
    turns::Turns,
};

/// The pause between two passes.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(30);
/// The most records that one pass looks up.
pub const RECONCILE_BATCH: u32 = 100;

/// What a look-up is asked about.
#[derive(Clone, Debug)]
pub struct Case {
    /// Whose key, and which.
    pub id: KeyId,
    /// The operation, which a business row may hold.
    pub operation: OperationId,
    /// The key that the provider was shown.
    pub provider_key: ProviderKey,
}

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<T> {
    /// It happened: the next run gets this as the effect's result.
    Happened(T),
    /// It did not happen: the next run may call it.
    DidNotHappen,
    /// Nobody can tell yet: it is looked up again later.
    StillUnknown,
}

/// What became of the records that one pass looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Settled: by a reconciler, so that the next request goes on; by a completer, so that there is an answer.
    pub settled: usize,
    /// Not settled: it could not be told, it failed, or the record had moved on. Tried again later, where it still waits then.
    pub unsettled: usize,
    /// Left to people: no look-up for one of the effects, no request that was stored, no handler of its route.
    pub left: usize,
}

type Found = Result<Finding<Box<RawValue>>, BoxError>;
type LookUp = Arc<dyn Fn(Case) -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync>;

/// Looks up effects in doubt by their names, at an interval, and settles what it finds with
/// [`Maintain::resolve`].
///
/// Takes up a record once its lease has been over for `provider_max_delay`, so that no call can be under way any more. It
/// ends nothing: the next request with the key goes on. Any number of processes may reconcile one store.
///
/// ```
/// # use idem_core::{BoxError, Finding, Reconciler, ProviderKey};
/// # #[derive(Clone)] struct Gateway;
/// # impl Gateway { async fn find(&self, _: &str) -> Result<Option<String>, std::io::Error> { Ok(None) } }
/// # fn start(store: impl idem_core::Maintain, gateway: Gateway) {
/// let reconciler = Reconciler::new(store).look_up("charge", move |case| {
///     let gateway = gateway.clone();
///     async move {
///         Ok(match gateway.find(&case.provider_key.hex()).await? {
///             Some(charge) => Finding::Happened(charge),
///             None => Finding::DidNotHappen,
///         })
///     }
/// });
/// tokio::spawn(reconciler.run());
/// # }
/// ```
pub struct Reconciler {
    store: Arc<dyn Maintain>,
    look_ups: HashMap<&'static str, LookUp>,
    every: Duration,
    batch: u32,
    provider_max_delay: Duration,
    turns: Turns,
}

impl Reconciler {
    /// One without look-ups, with a pass every [`RECONCILE_EVERY`], of at most [`RECONCILE_BATCH`] records, that waits
    /// [`PROVIDER_MAX_DELAY`] after a lease.
    pub fn new(store: impl Maintain) -> Self {
        Self {
            store: Arc::new(store),
            look_ups: HashMap::new(),
            every: RECONCILE_EVERY,
            batch: RECONCILE_BATCH,
            provider_max_delay: PROVIDER_MAX_DELAY,
            turns: Turns::default(),
        }
    }

    /// How the effects of this name are looked up; the last one given counts.
    #[must_use]
    pub fn look_up<T, F, Fut>(mut self, effect: &'static str, look: F) -> Self
    where
        T: Serialize,
        F: Fn(Case) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Finding<T>, BoxError>> + Send + 'static,
    {
        let look_up = move |case| -> Pin<Box<dyn Future<Output = Found> + Send>> {
            let found = look(case);
            Box::pin(async move {
                Ok(match found.await? {
                    Finding::Happened(result) => Finding::Happened(to_raw_value(&result)?),
                    Finding::DidNotHappen => Finding::DidNotHappen,
                    Finding::StillUnknown => Finding::StillUnknown,
                })
            })
        };
        self.look_ups.insert(effect, Arc::new(look_up));
        self
    }

    /// The pause between two passes; default [`RECONCILE_EVERY`], at least one second.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(Duration::from_secs(1));
        self
    }

    /// The most records that one pass looks up; default [`RECONCILE_BATCH`], at least 1.
    #[must_use]
    pub fn batch(mut self, records: u32) -> Self {
        self.batch = records.max(1);
        self
    }

    /// How long a call may be under way; default [`PROVIDER_MAX_DELAY`]. As in the policy of those that call.
    #[must_use]
    pub fn provider_max_delay(mut self, provider_max_delay: Duration) -> Self {
        self.provider_max_delay = provider_max_delay;
        self
    }

    /// Reconciles for ever. A pass that fails is reported and the next one comes after the pause.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    #[expect(clippy::disallowed_methods, reason = "the reconciler's pause between two passes")]
    pub async fn run(self) {
        loop {
            if let Err(error) = self.pass().await {
                warn!(%error, "reconciling failed; trying again after the pause");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// One pass over what has been in doubt for longest.
    ///
    /// # Errors
    /// The store's, of looking for what is stuck. A record that cannot be settled is passed over, and looked up again later.
    pub async fn pass(&self) -> Result<Report, StoreError> {
        let due = |stuck: &Stuck| stuck.in_doubt && stuck.stuck_for >= self.provider_max_delay;
        let due = self.turns.due(&*self.store, self.batch, due).await?;
        let batch = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let mut report = Report::default();
        for record in due.iter().take(batch) {
            match self.settle(record).await {
                Ok(true) => {
                    event::reconciled(&record.id, "settled");
                    self.turns.done(record);
                    report.settled += 1;
                }
                Ok(false) => {
                    event::reconciled(&record.id, "left");
                    self.turns.put_off(record);
                    report.left += 1;
                }
                Err(error) => {
                    event::unsettled(&record.id, &*error);
                    self.turns.put_off(record);
                    report.unsettled += 1;
                }
            }
        }
        Ok(report)
    }

    /// Looks up each open effect of a record, and settles all of them or none. `false`: nobody here can.
    async fn settle(&self, seen: &Record) -> Result<bool, BoxError> {
        let mut doubt = Doubt::of(seen)?;
        let open = doubt.open();
        let look_ups =
            open.iter().map(|effect| self.look_ups.get(effect.as_str())).collect::<Option<Vec<_>>>();
        let Some(look_ups) = look_ups else { return Ok(false) };
        for (effect, look_up) in open.iter().zip(look_ups) {
            let provider_key = doubt.provider_key(effect);
            let case = Case { id: seen.id.clone(), operation: seen.operation, provider_key };
            let found = AssertUnwindSafe(async { look_up(case).await }).catch_unwind().await;
            doubt = match found.map_err(|_| "the look-up panicked")?? {
                Finding::Happened(result) => doubt.happened(effect, &result)?,
                Finding::DidNotHappen => doubt.did_not_happen(effect)?,
                Finding::StillUnknown => return Err("the look-up cannot tell yet".into()),
            };
        }
        let decision = doubt.resume()?;
        // A resumption ends nothing: no retention counts from it.
        let resolve = || self.store.resolve(seen, &decision, RETENTION);
        match resolve().await {
            // It may have been done, and is recognised then.
            Err(error) if error.kind() == StoreErrorKind::Unknown => resolve().await?,
            resolved => resolved?,
        }
        Ok(true)
    }
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut effects: Vec<_> = self.look_ups.keys().collect();
        effects.sort_unstable();
        f.debug_struct("Reconciler")
            .field("store", &self.store)
            .field("effects", &effects)
            .finish_non_exhaustive()
    }
}
