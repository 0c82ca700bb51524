//! What a test wants to go wrong.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch, time::timeout};

/// How long a test waits for what its plan says; nothing is measured by it.
const STRUCK_WITHIN: Duration = Duration::from_secs(30);

/// What happens to a statement on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server never sees it: both connections are closed before a byte of it is passed on.
    LoseRequest,
    /// The server runs it (and commits, where it commits); both connections are closed in place of its answer.
    LoseReply,
    /// The server runs it (and commits, where it commits); its client waits for an answer that never comes, until it leaves
    /// or is cut. For a client that is to be killed right there: it cannot notice and go on before the signal arrives.
    KeepReply,
    /// It is kept, and so is its client, until [`Strike::release`]; then it goes on as if nothing had been. A
    /// client that leaves meanwhile does not take it back.
    Hold,
    /// Its client is cut off at once; the server receives and runs it at [`Strike::release`].
    Late,
}

/// Matches a statement whose SQL contains `text`.
pub fn contains(text: impl Into<String>) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let text = text.into();
    move |sql| sql.contains(&text)
}

/// A planned fault: tells when it has struck, and releases what it holds. Dropping it leaves the plan as it is.
#[derive(Clone, Debug)]
pub struct Strike {
    pub(crate) progress: watch::Sender<Progress>,
    runtime: Handle,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    struck: usize,
    /// Statements that are held, or released and not yet answered.
    open: usize,
    pub(crate) released: bool,
}

impl Strike {
    /// How many statements it has struck.
    pub fn count(&self) -> usize {
        self.progress.borrow().struck
    }

    /// Waits until it has struck: the statement is lost, its answer is lost, or it is held.
    ///
    /// # Panics
    ///
    /// After 30 seconds without a matching statement.
    pub async fn struck(&self) {
        self.until("no statement matched", |progress| progress.struck > 0).await;
    }

    /// Sends what [`Fault::Hold`] or [`Fault::Late`] holds to the server. Returns when the server has answered
    /// all of it, that is: when it has happened.
    ///
    /// # Panics
    ///
    /// When nothing was held within 30 seconds, or the server has not answered 30 seconds later.
    pub async fn release(&self) {
        self.struck().await;
        self.progress.send_modify(|progress| progress.released = true);
        self.until("the server did not answer", |progress| progress.open == 0).await;
    }

    /// Waits on the proxy's runtime: a test may have stopped the clock of its own.
    async fn until(&self, otherwise: &'static str, done: fn(&Progress) -> bool) {
        let mut progress = self.progress.subscribe();
        let waiting = async move { timeout(STRUCK_WITHIN, progress.wait_for(done)).await.is_ok() };
        let came_true = self.runtime.spawn(waiting).await;
        assert!(matches!(came_true, Ok(true)), "{otherwise} within {STRUCK_WITHIN:?}");
    }

    pub(crate) fn strike(&self) {
        self.progress.send_modify(|progress| progress.struck += 1);
    }

    /// Counts one held statement, until the guard is dropped.
    pub(crate) fn hold(&self) -> Held {
        self.progress.send_modify(|progress| {
            progress.struck += 1;
            progress.open += 1;
        });
        Held { strike: self.clone() }
    }
}

/// A statement that is held, or released and not yet answered.
#[derive(Debug)]
pub(crate) struct Held {
    strike: Strike,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.strike.progress.send_modify(|progress| progress.open -= 1);
    }
}

/// The faults that are still to come, and what was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    entries: Mutex<Vec<Entry>>,
    seen: Mutex<Vec<String>>,
}

struct Entry {
    matches: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Matching statements that still pass.
    skip: usize,
    /// Whether it ends with its first strike.
    once: bool,
    fault: Fault,
    strike: Strike,
}

impl Plan {
    pub(crate) fn add(
        &self,
        matches: impl Fn(&str) -> bool + Send + Sync + 'static,
        (skip, once): (usize, bool),
        fault: Fault,
        runtime: &Handle,
    ) -> Strike {
        let progress = watch::Sender::new(Progress::default());
        let strike = Strike { progress, runtime: runtime.clone() };
        let entry = Entry { matches: Box::new(matches), skip, once, fault, strike: strike.clone() };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        strike
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the statements of one request; answers what is to happen to it. The oldest matching entry decides.
    pub(crate) fn judge(&self, statements: &[String]) -> Option<(Fault, Strike)> {
        if statements.is_empty() {
            return None;
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(statements);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = None;
        for (index, entry) in entries.iter_mut().enumerate() {
            for _ in statements.iter().filter(|sql| (entry.matches)(sql)) {
                if entry.skip > 0 {
                    entry.skip -= 1;
                } else if due.is_none() {
                    due = Some((index, entry.once, entry.fault, entry.strike.clone()));
                }
            }
        }
        let (index, once, fault, strike) = due?;
        if once {
            entries.remove(index);
        }
        Some((fault, strike))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("fault", &self.fault).field("skip", &self.skip).finish_non_exhaustive()
    }
}

/// Shared by all connections of one proxy.
pub(crate) type SharedPlan = Arc<Plan>;
