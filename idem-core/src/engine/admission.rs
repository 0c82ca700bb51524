//! How many runs are under way, and whether more are taken on.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

use crate::{Error, ErrorKind, policy::SETTLE_WITHIN};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Nothing is taken on.
    Draining,
    /// What can be dropped is dropped and handed on.
    Aborting,
}

#[derive(Debug)]
struct Runs {
    stage: Stage,
    running: usize,
    /// Those of them whose work may not be dropped.
    pinned: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Admission {
    permits: Arc<Semaphore>,
    runs: Arc<watch::Sender<Runs>>,
}

/// A run that was taken on; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _permit: OwnedSemaphorePermit,
    count: Count,
}

#[derive(Debug)]
struct Count {
    runs: Arc<watch::Sender<Runs>>,
    pinned: bool,
}

impl Admission {
    pub(super) fn new(runs: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(runs.clamp(1, Semaphore::MAX_PERMITS))),
            runs: Arc::new(watch::Sender::new(Runs { stage: Stage::Open, running: 0, pinned: 0 })),
        }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// `Unavailable` once the engine drains.
    pub(super) async fn enter(&self) -> Result<Permit, Error> {
        let refused = || {
            Error::new(ErrorKind::Unavailable, "the engine is draining; retry elsewhere with the same key")
        };
        // Draining closes the semaphore, which also wakes those that wait.
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| refused())?;
        let entered = self.runs.send_if_modified(|runs| {
            let open = runs.stage == Stage::Open;
            runs.running += usize::from(open);
            open
        });
        if !entered {
            return Err(refused());
        }
        Ok(Permit { _permit: permit, count: Count { runs: Arc::clone(&self.runs), pinned: false } })
    }

    /// Waits until work that can be dropped is to be dropped.
    pub(super) async fn aborted(&self) {
        let _ = self.runs.subscribe().wait_for(|runs| runs.stage == Stage::Aborting).await;
    }

    pub(super) async fn drain(&self, within: Duration) -> usize {
        let reach = |stage: Stage| self.runs.send_modify(|runs| runs.stage = runs.stage.max(stage));
        let mut runs = self.runs.subscribe();
        reach(Stage::Draining);
        self.permits.close();
        if timeout(within, runs.wait_for(|runs| runs.running == 0)).await.is_err() {
            reach(Stage::Aborting);
            // A hand-on is one statement, re-issued for a while if the store does not answer.
            let _ = timeout(SETTLE_WITHIN, runs.wait_for(|runs| runs.running <= runs.pinned)).await;
        }
        self.runs.borrow().running
    }
}

impl Permit {
    /// From here on the work may not be dropped.
    ///
    /// Answers `false`, and pins nothing, if it is to be dropped already.
    pub(super) fn pin(&mut self) -> bool {
        let pinned = &mut self.count.pinned;
        self.count.runs.send_if_modified(|runs| {
            *pinned = runs.stage != Stage::Aborting;
            runs.pinned += usize::from(*pinned);
            *pinned
        })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.runs.send_modify(|runs| {
            runs.running -= 1;
            runs.pinned -= usize::from(self.pinned);
        });
    }
}
