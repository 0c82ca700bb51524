//! Renews a lease while the work runs, and says when it may be lost.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::Instrument as _;

use crate::{Claim, KeyStore, StoreErrorKind, event, settle::caught};

/// What the owner knows of its lease, on its own monotonic clock.
///
/// Counted from the moment the granting statement was *sent*, less a margin for clocks that drift, so that it ends
/// before the store's count does. A host that was suspended may count too long: the fence is the authority, this is
/// advice for stopping early.
#[derive(Debug)]
pub(crate) struct Lease {
    span: Duration,
    ends: watch::Sender<Option<Instant>>,
}

impl Lease {
    /// A lease of `span` that a statement sent at `sent` granted.
    pub(crate) fn granted(span: Duration, sent: Instant) -> Self {
        Self { span, ends: watch::Sender::new(Some(end(span, sent))) }
    }

    /// A statement sent at `sent` pushed it out.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.ends.send_modify(|ends| *ends = ends.map(|ends| ends.max(end(self.span, sent))));
    }

    pub(crate) fn lose(&self) {
        self.ends.send_replace(None);
    }

    /// When it ends by the owner's count; `None` once it is lost, for good.
    pub(crate) fn ends(&self) -> Option<Instant> {
        *self.ends.borrow()
    }

    /// Whether a renewal is overdue: less than a third of it is left, of which the heartbeat spends none.
    pub(crate) fn is_overdue(&self) -> bool {
        self.ends().is_some_and(|ends| ends.saturating_duration_since(Instant::now()) < self.span / 3)
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(&self) {
        // The sender is `self`: it outlives the wait.
        let _ = self.ends.subscribe().wait_for(Option::is_none).await;
    }
}

fn end(span: Duration, sent: Instant) -> Instant {
    sent + span - span / 20
}

/// Whose turn it is to write the record beside the work: the heartbeat's for each renewal, or an open transaction's, whose lock
/// on the row holds better than the lease and would make a renewal wait.
#[derive(Clone, Debug)]
pub(crate) struct Turn(Arc<Semaphore>);

impl Turn {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Waits for it; whoever drops what this returns gives it on.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// The task that renews. Dropped without being stopped, it ends on its own after the renewal that is under way.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Heartbeat {
    #[expect(
        clippy::disallowed_methods,
        reason = "the run owns this task and stops it before it ends the claim"
    )]
    pub(crate) fn start(
        store: Arc<dyn KeyStore>,
        claim: Arc<Claim>,
        lease: Arc<Lease>,
        turn: Turn,
        max_execution: Duration,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let last = Instant::now() + max_execution;
        let task = tokio::spawn(beat(store, claim, lease, turn, last, stopped).in_current_span());
        Self { stop: Some(stop), task }
    }

    /// Stops it and waits for the answer to the renewal that is under way, at most `within`: a renewal that lands
    /// after a hand-on would keep the key busy.
    ///
    /// # Cancel safety
    /// Can be called again.
    pub(crate) async fn stop(&mut self, within: Duration) {
        self.stop = None;
        if !self.task.is_finished() && timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

async fn beat(
    store: Arc<dyn KeyStore>,
    claim: Arc<Claim>,
    lease: Arc<Lease>,
    turn: Turn,
    last: Instant,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut next = Instant::now() + lease.span / 3;
    while let Some(ends) = lease.ends() {
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            () = sleep_until(next.min(ends).min(last)) => {}
        }
        let due = Instant::now();
        let _turn = tokio::select! {
            biased;
            _ = &mut stopped => return,
            turn = turn.take() => turn,
        };
        let sent = Instant::now();
        if lease.ends() != Some(ends) {
            // Whoever had the turn renewed it, or lost it.
            next = sent + lease.span / 3;
            continue;
        }
        // A lease that ended while a transaction held the row was still ours: the store says whether it is.
        if due >= ends || sent >= last {
            event::lease_over(&claim, sent >= last);
            return lease.lose();
        }
        let answered_by = if sent < ends { ends } else { sent + lease.span / 12 };
        match timeout_at(answered_by, caught("renew", store.renew(&claim, lease.span))).await {
            Ok(Ok(())) => {
                lease.renewed(sent);
                next = sent + lease.span / 3;
            }
            Ok(Err(error)) if error.kind() == StoreErrorKind::ClaimLost => {
                event::claim_lost(&claim, "renew");
                return lease.lose();
            }
            // One renewal that failed is no lost lease: try again, sooner.
            Ok(Err(error)) => {
                event::renewal_failed(&claim, &error);
                next = Instant::now() + lease.span / 12;
            }
            Err(_) => {}
        }
    }
}
