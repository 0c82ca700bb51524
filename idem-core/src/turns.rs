//! Whose turn it is: stuck records that are tried again later, each after a pause of its own.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{KeyId, Maintain, OperationId, Record, StoreError, Stuck};

/// The pause before a record is tried again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// When each is tried again, and the pause after that.
    later: Mutex<HashMap<(KeyId, OperationId), (Instant, Duration)>>,
    /// How many the last list had.
    listed: AtomicU32,
}

impl Turns {
    /// Those of the stuck records that are `wanted` and have their turn, longest first.
    ///
    /// Asks for `batch` more than were listed last, since those may still be there: what waits for its turn, or is nothing
    /// for this caller, hides no other for longer than a pass.
    pub(crate) async fn due(
        &self,
        store: &dyn Maintain,
        batch: u32,
        wanted: impl Fn(&Stuck) -> bool + Send,
    ) -> Result<Vec<Record>, StoreError> {
        let limit = batch.saturating_add(self.listed.load(Ordering::Relaxed));
        let stuck = store.stuck(limit).await?;
        self.listed.store(u32::try_from(stuck.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        let now = Instant::now();
        let mut later = self.later();
        later.retain(|_, (at, pause)| now < *at + *pause * 2);
        let due = |record: &Record| later.get(&name(record)).is_none_or(|(at, _)| now >= *at);
        let due = stuck.into_iter().filter(|stuck| wanted(stuck) && due(&stuck.record));
        Ok(due.map(|stuck| stuck.record).collect())
    }

    /// Leaves a record alone for a while, twice as long as the last time.
    pub(crate) fn put_off(&self, record: &Record) {
        let mut later = self.later();
        let pause =
            later.get(&name(record)).map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
        later.insert(name(record), (Instant::now() + pause, pause));
    }

    /// Forgets a record of which no more is to be done.
    pub(crate) fn done(&self, record: &Record) {
        self.later().remove(&name(record));
    }

    fn later(&self) -> MutexGuard<'_, HashMap<(KeyId, OperationId), (Instant, Duration)>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(record: &Record) -> (KeyId, OperationId) {
    (record.id.clone(), record.operation)
}
