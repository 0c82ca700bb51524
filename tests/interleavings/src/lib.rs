//! Runs a scenario under thousands of schedules, and its fault under as many: a check that cannot fail checks nothing.
//!
//! What runs is the text of `idem-core/src` and `idem-memory/src`, copied by the build scripts in `core/` and `memory/`.
//! Every file of the copy sees another `std`, and the copied crate another `tokio` (both in `scheduled/`), so that
//! shuttle decides at every lock, atomic, channel and await who goes on. The same scripts put each fault, behind a
//! switch, before the text that ships; where that text has changed, the build fails until the fault fits again.
//!
//! | variable | means | default |
//! |---|---|---|
//! | `IDEM_SCHEDULES` | how many schedules a scenario is run under by each scheduler | 2000 |
//! | `IDEM_SEED` | the seed of both schedulers | 1 |
//! | `IDEM_REPLAY` | a schedule that was printed by a failing test: that test runs it, and nothing else | |
//! | `IDEM_FAULT` | a fault that is switched on in what should hold: shows what a failing test looks like | |

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use shuttle::{
    Config, MaxSteps, Runner,
    scheduler::{
        PctScheduler, RandomScheduler, ReplayScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler,
    },
};

/// How many schedules a scenario is run under, unless told otherwise.
const SCHEDULES: usize = 2000;
/// How many preemptions PCT plans in one schedule, and one.
const PCT_DEPTH: usize = 3;
/// How many schedules are run twice, to see that a printed one can be replayed.
const REPLAYED: usize = 20;

/// Runs one of them again.
const COMMAND: &str =
    "cargo test --manifest-path tests/interleavings/Cargo.toml --target-dir target/interleavings --";

/// Checks that `scenario` holds as shipped under random and PCT schedules, and that both find each fault in it.
///
/// # Panics
/// If it does not hold, with the schedule and how to replay it; or if a fault is not found.
pub fn check(scenario: fn(), faults: &[&'static str]) {
    assert!(!faults.is_empty(), "a scenario without a fault shows nothing");
    // Leaked once per test: a switch is a name that lives as long as the program.
    let shown = env::var("IDEM_FAULT").ok().map(|fault| &*fault.leak());
    if let Some(shown) = shown {
        assert!(faults.contains(&shown), "this scenario has no fault {shown:?}, but {faults:?}");
    }
    scheduled::switch_on(shown);
    if let Ok(schedule) = env::var("IDEM_REPLAY") {
        explore(ReplayScheduler::new_from_encoded(schedule.trim()), scenario);
        return;
    }
    let (schedules, seed) = (number("IDEM_SCHEDULES", SCHEDULES as u64) as usize, number("IDEM_SEED", 1));
    let random = |schedules| RandomScheduler::new_from_seed(seed, schedules);
    let pct = || PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules);
    let as_shipped = || {
        explore(UncontrolledNondeterminismCheckScheduler::new(random(REPLAYED)), scenario);
        explore(random(schedules), scenario);
        explore(pct(), scenario);
    };
    #[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing is judged by it")]
    let started = Instant::now();
    if let Err(failure) = catch_unwind(AssertUnwindSafe(as_shipped)) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        let fault = shown.map_or(String::new(), |fault| format!("IDEM_FAULT={fault:?} "));
        eprintln!("to replay it: {fault}IDEM_REPLAY=<the schedule above> {COMMAND} {name}");
        resume_unwind(failure);
    }
    println!("holds under {schedules} random and as many PCT schedules, in {:.1?}", started.elapsed());
    for &fault in faults {
        scheduled::switch_on(Some(fault));
        let found = [find(random(schedules), scenario), find(pct(), scenario)];
        scheduled::switch_on(None);
        let [Some(random), Some(pct)] = found else {
            panic!("{schedules} schedules do not find {fault:?}: {found:?} (random, PCT)");
        };
        println!("{fault:?} is found by random schedule {random} and by PCT schedule {pct} of {schedules}");
    }
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}"))
    })
}

/// The number of the schedule that fails, counted from 1.
fn find(scheduler: impl Scheduler + 'static, scenario: fn()) -> Option<usize> {
    let tried = Arc::new(AtomicUsize::new(0));
    let counted = {
        let tried = Arc::clone(&tried);
        move || {
            tried.fetch_add(1, Ordering::Relaxed);
            scenario();
        }
    };
    let found = catch_unwind(AssertUnwindSafe(|| explore(scheduler, counted))).is_err();
    found.then(|| tried.load(Ordering::Relaxed))
}

fn explore(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(scheduler, config).run(scenario);
}
