//! The outside world: what it has booked stays booked, whatever becomes of its callers.

use std::{collections::HashSet, sync::Arc};

use tokio::sync::watch;

/// A payment gateway that books at once and answers when it is told to; clones share the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    ledger: Arc<watch::Sender<Ledger>>,
}

#[derive(Debug, Default)]
struct Ledger {
    calls: usize,
    charges: usize,
    keys: HashSet<String>,
    answers: bool,
}

impl Gateway {
    pub(crate) fn silent() -> Self {
        Self { ledger: Arc::new(watch::Sender::new(Ledger::default())) }
    }

    /// From now on every call is answered, those under way too.
    pub(crate) fn answer(&self) {
        self.ledger.send_modify(|ledger| ledger.answers = true);
    }

    /// Charges; a second call with a key of the provider's own charges nothing.
    pub(crate) async fn charge(&self, provider_key: Option<&str>) {
        self.ledger.send_modify(|ledger| {
            ledger.calls += 1;
            if provider_key.is_none_or(|key| ledger.keys.insert(key.to_owned())) {
                ledger.charges += 1;
            }
        });
        self.until(|ledger| ledger.answers).await;
    }

    pub(crate) async fn was_called(&self, times: usize) {
        self.until(|ledger| ledger.calls >= times).await;
    }

    pub(crate) fn charges(&self) -> usize {
        self.ledger.borrow().charges
    }

    async fn until(&self, holds: impl FnMut(&Ledger) -> bool) {
        drop(self.ledger.subscribe().wait_for(holds).await.expect("this value holds a sender"));
    }
}
