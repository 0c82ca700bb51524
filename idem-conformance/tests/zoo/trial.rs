//! One case, or one walk, against one store of the zoo.

use std::{
    any::Any, ops::Range, panic, panic::AssertUnwindSafe, sync::Arc, sync::Once, thread, time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use idem_conformance::{
    Harness, Tally,
    linear::{self, Unexplained},
    lockstep::{self, Difference},
    run_case,
};
use idem_core::Maintain;
use idem_memory::ManualClock;
use tokio::{runtime::Builder, task_local, time::timeout};

use crate::{defect::Defect, rows::Shared, store::ZooStore};

/// Far above what a case takes on a memory store; what a wrong store has not answered by then it never does.
const PATIENCE: Duration = Duration::from_secs(5);
/// For the right store: only a machine that stands still takes so long.
const MORE_PATIENCE: Duration = Duration::from_mins(1);
/// The name of the threads whose panics are verdicts and not printed.
const QUIET: &str = "zoo";

task_local! {
    /// The store that the harness starts.
    static EXHIBIT: Exhibit;
}

/// A store of the zoo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exhibit {
    pub(crate) wrong: Option<Defect>,
    pub(crate) time: Time,
}

/// How time passes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Its clock stands still until it is moved forward.
    Moved,
    /// Its clock runs, and every stored time is moved back, as it is done with a database.
    Shifted,
}

struct Zoo {
    clock: ManualClock,
    time: Time,
    shared: Arc<Shared>,
}

#[async_trait]
impl Harness for Zoo {
    async fn start() -> Self {
        let Exhibit { wrong, time } = EXHIBIT.get();
        let clock = ManualClock::new();
        let tick = if time == Time::Shifted { Duration::from_micros(200) } else { Duration::ZERO };
        let shared = Arc::new(Shared::new(wrong, clock.clone(), tick));
        Self { clock, time, shared }
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(ZooStore::new(Arc::clone(&self.shared)))
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(ZooStore::new(Arc::clone(&self.shared)))
    }

    async fn elapse(&self, by: Duration) {
        match self.time {
            Time::Moved => self.clock.advance(by),
            Time::Shifted => self.shared.age(by),
        }
    }
}

/// What a case made of a store.
pub(crate) enum Verdict {
    Accepted,
    /// With the message of the case.
    Rejected(String),
}

impl Verdict {
    pub(crate) fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }
}

/// Runs one case of the suite.
pub(crate) fn run(exhibit: Exhibit, case: &str) -> Verdict {
    match attempt(exhibit, run_case::<Zoo>(case)) {
        Ok(()) => Verdict::Accepted,
        Err(why) if why == HUNG => {
            let promise =
                idem_conformance::cases().iter().find(|one| one.name == case).map_or("", |one| one.promise);
            Verdict::Rejected(format!("{case}: {promise}\n  {HUNG}"))
        }
        Err(why) => Verdict::Rejected(why),
    }
}

/// Walks it in step with the state functions.
pub(crate) fn walk(exhibit: Exhibit, seeds: Range<u64>, steps: usize) -> Result<Tally, Difference> {
    quiet();
    thread::scope(|scope| {
        let walk = move || EXHIBIT.sync_scope(exhibit, || lockstep::check::<Zoo>(seeds, steps));
        let walk = thread::Builder::new().name(QUIET.to_owned()).spawn_scoped(scope, walk).expect("a thread");
        walk.join().expect("a walk does not panic")
    })
}

/// Lets callers loose on it.
pub(crate) fn race(exhibit: Exhibit, seeds: Range<u64>) -> Result<Tally, Unexplained> {
    quiet();
    thread::scope(|scope| {
        let race = move || EXHIBIT.sync_scope(exhibit, || linear::check::<Zoo>(seeds));
        let race = thread::Builder::new().name(QUIET.to_owned()).spawn_scoped(scope, race).expect("a thread");
        race.join().expect("a history does not panic")
    })
}

/// What is said of a trial that did not end.
pub(crate) const HUNG: &str = "a call was never answered";

fn attempt(exhibit: Exhibit, trial: impl Future<Output = ()> + Send) -> Result<(), String> {
    quiet();
    let runtime = || Builder::new_multi_thread().worker_threads(2).thread_name(QUIET).enable_all().build();
    let patience = if exhibit.wrong.is_some() { PATIENCE } else { MORE_PATIENCE };
    let trial =
        async { timeout(patience, AssertUnwindSafe(EXHIBIT.scope(exhibit, trial)).catch_unwind()).await };
    thread::scope(|scope| {
        let judge = move || runtime().expect("a runtime").block_on(trial);
        let judge =
            thread::Builder::new().name(QUIET.to_owned()).spawn_scoped(scope, judge).expect("a thread");
        match judge.join().expect("the trial is caught") {
            Ok(Ok(())) => Ok(()),
            Ok(Err(panic)) => Err(message(&*panic)),
            Err(_) => Err(HUNG.to_owned()),
        }
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Keeps the panics of trials off the screen: they are what is looked for.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(QUIET) {
                loud(panic);
            }
        }));
    });
}
