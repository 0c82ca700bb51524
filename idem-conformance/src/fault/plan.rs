//! What goes wrong next, and the handles by which a test decides when.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use idem_core::{ClaimOutcome, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use super::{Call, Landing};

/// The faults still to come, and the calls so far.
#[derive(Debug, Default)]
pub(super) struct Plan(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    faults: HashMap<Call, VecDeque<Fault>>,
    seen: HashMap<Call, usize>,
}

/// What happens to one call.
pub(super) enum Fault {
    Pass,
    LoseRequest,
    LoseReply,
    Fail(StoreErrorKind),
    Delay(oneshot::Sender<BoxFuture<'static, Landing>>),
    HoldRequest(Gate),
    HoldReply(Gate),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("Pass"),
            Self::LoseRequest => f.write_str("LoseRequest"),
            Self::LoseReply => f.write_str("LoseReply"),
            Self::Fail(kind) => write!(f, "Fail({kind:?})"),
            Self::Delay(_) => f.write_str("Delay"),
            Self::HoldRequest(_) => f.write_str("HoldRequest"),
            Self::HoldReply(_) => f.write_str("HoldReply"),
        }
    }
}

impl Plan {
    pub(super) fn add(&self, call: Call, fault: Fault) {
        self.calls().faults.entry(call).or_default().push_back(fault);
    }

    /// Counts the call and takes the fault that it meets.
    pub(super) fn next(&self, call: Call) -> Fault {
        let mut calls = self.calls();
        *calls.seen.entry(call).or_default() += 1;
        calls.faults.get_mut(&call).and_then(VecDeque::pop_front).unwrap_or(Fault::Pass)
    }

    pub(super) fn seen(&self, call: Call) -> usize {
        self.calls().seen.get(&call).copied().unwrap_or_default()
    }

    pub(super) fn pending(&self) -> usize {
        self.calls().faults.values().map(VecDeque::len).sum()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is still on its way: it happens when the test lets it land, and never if this is dropped.
#[must_use = "a delayed call that is dropped never happens"]
pub struct Delayed(oneshot::Receiver<BoxFuture<'static, Landing>>);

pub(super) fn delay() -> (Fault, Delayed) {
    let (sender, receiver) = oneshot::channel();
    (Fault::Delay(sender), Delayed(receiver))
}

impl Delayed {
    /// Makes the call happen now, with the arguments with which it was made, and returns what the store answered:
    /// the outcome if it was a claim, else `None`. Waits for the call if it was not made yet.
    ///
    /// # Errors
    /// The store's own; `Invalid` if the call was never made and no longer can be.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the call may have happened.
    pub async fn land(self) -> Result<Option<ClaimOutcome>, StoreError> {
        match self.0.await {
            Ok(call) => call.await,
            Err(_) => {
                Err(StoreError::new(StoreErrorKind::Invalid, "land").because("the call was never made"))
            }
        }
    }
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delayed")
    }
}

/// A call that waits at a gate. Dropping this opens the gate, so that a test that fails does not hang.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Held {
    arrived: oneshot::Receiver<()>,
    open: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the call stands at the gate: not yet made for [`Faulty::hold`](super::Faulty::hold), made and not
    /// answered for [`Faulty::hold_reply`](super::Faulty::hold_reply).
    pub async fn arrived(&mut self) {
        // Once it was seen there it stays seen.
        if !self.arrived.is_terminated() {
            let _gone = (&mut self.arrived).await;
        }
    }

    /// Lets the call go on.
    pub fn release(self) {
        // Its caller may have hung up meanwhile.
        let _gone = self.open.send(());
    }
}

/// The caller's side of a [`Held`].
pub(super) struct Gate {
    arrived: oneshot::Sender<()>,
    open: oneshot::Receiver<()>,
}

pub(super) fn gate() -> (Gate, Held) {
    let (arrived, seen) = oneshot::channel();
    let (opener, open) = oneshot::channel();
    (Gate { arrived, open }, Held { arrived: seen, open: opener })
}

impl Gate {
    pub(super) async fn pass(self) {
        // Both ends may be gone: then nobody waits, and the gate is open.
        let _nobody = self.arrived.send(());
        let _opened = self.open.await;
    }
}
