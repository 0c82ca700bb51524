//! The store that the cases are run against, and a run of one case with a flaw.

use std::{
    cell::Cell,
    panic,
    sync::{Arc, Once},
    thread,
    time::Duration,
};

use idem_conformance::{Harness, async_trait, parts};
use idem_core::Maintain;

use crate::database::{Database, Flaw};

thread_local! {
    /// The flaw of the store that this thread starts.
    static FLAW: Cell<Option<Flaw>> = const { Cell::new(None) };
}

pub(crate) struct Toy(pub(crate) Database);

#[async_trait]
impl Harness for Toy {
    async fn start() -> Self {
        Self(Database::new(FLAW.get()))
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.keys.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.keys.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
        // Leases of relays that died run out.
        self.0.tables.lock().await.messages.iter_mut().for_each(|row| row.taken = false);
    }
}

pub(crate) fn passes(case: &str) -> bool {
    runs(None, case)
}

pub(crate) fn fails(flaw: Flaw, case: &str) -> bool {
    !runs(Some(flaw), case)
}

/// The name of the threads whose panics are verdicts and not printed.
const QUIET: &str = "trial";

/// Whether the case passes, in a thread of its own.
fn runs(flaw: Option<Flaw>, case: &str) -> bool {
    static HUSH: Once = Once::new();
    HUSH.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(QUIET) {
                print(panic);
            }
        }));
    });
    let case = case.to_owned();
    let trial = thread::Builder::new().name(QUIET.to_owned()).spawn(move || {
        // The case's store is started on this thread.
        FLAW.set(flaw);
        match case.split_once('_').map(|(part, _)| part) {
            Some("phase" | "step") => parts::phases::run_alone::<Toy>(&case),
            Some("message") => parts::messages::run_alone::<Toy>(&case),
            _ => parts::deliveries::run_alone::<Toy>(&case),
        }
    });
    trial.expect("a thread").join().is_ok()
}
