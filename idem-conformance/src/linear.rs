//! Histories of a few callers at one key, and whether any order of their calls explains what they were told.

mod plan;
mod play;
mod search;
mod show;
#[cfg(test)]
mod tests;

use std::{fmt, ops::Range, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use idem_core::Record;
use plan::{Plan, Told};
use play::{Op, play};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use search::{Closest, Seen, Verdict, search};
use tokio::{runtime::Builder, time::timeout};

use crate::{Harness, Tally, bench::Bench, judge::Window, seed, suite::message};

/// Calls that are not answered by then never will be.
const PATIENCE: Duration = Duration::from_mins(2);
/// How many histories share a store. Each leaves a few records, and time passes for all of them.
const SHARE: usize = 100;
/// How far a search goes before it gives up. Of 5,000 histories of the memory store none took more than 164 steps.
const STEPS: usize = 100_000;

/// Lets two to four callers loose on one key, `histories` times, and looks for an order of their calls in which
/// [`idem_core::state`] gives each of them the answer that it got.
///
/// At most 24 calls in all, started together, over both handles of the store: claims, claims sent again, renewals, hand-ons,
/// checkpoints, ends, decisions, looks and sweeps, of a key that is free, claimed, stale, marked, in doubt, released,
/// completed or expired. Some replies and requests are lost, and some calls arrive late: what was answered with `Unknown` may
/// have been done at any time after it was called, or never. What returned before another call began comes before it.
/// Time passes only between histories.
///
/// The same seeds bring the same callers, 0 and up, though not the same history. `IDEM_LINEAR_SEED` starts at another one,
/// and `IDEM_LINEAR_HISTORIES` asks for more. What came up is returned, so that a test can see that calls did overlap.
///
/// # Panics
/// With the first history that is [`Unexplained`]. Also if one of the two variables is not a number, and within a runtime,
/// since each call starts one of its own.
pub fn run<H: Harness>(histories: u64) -> Tally {
    let first = seed::number("IDEM_LINEAR_SEED").unwrap_or(0);
    let histories = seed::number("IDEM_LINEAR_HISTORIES").unwrap_or(histories);
    match check::<H>(first..first + histories) {
        Ok(tally) => tally,
        Err(unexplained) => panic!("{unexplained}"),
    }
}

/// As [`run`], one history of each of these seeds.
///
/// # Errors
/// The first history that is [`Unexplained`].
///
/// # Panics
/// Within a runtime.
pub fn check<H: Harness>(seeds: Range<u64>) -> Result<Tally, Unexplained> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut bench = Bench::start::<H>().await;
        let mut tally = Tally::default();
        for (number, seed) in seeds.enumerate() {
            if number > 0 && number % SHARE == 0 {
                bench = Bench::start::<H>().await;
            }
            let history = AssertUnwindSafe(history(&bench, seed)).catch_unwind();
            let why = match timeout(PATIENCE, history).await {
                Ok(Ok(Ok(found))) => {
                    tally.add(found);
                    continue;
                }
                Ok(Ok(Err(why))) => why,
                Ok(Err(panic)) => format!("a panic: {}", message(&*panic)),
                Err(_) => format!("not answered within {PATIENCE:?}"),
            };
            return Err(Unexplained { seed, why });
        }
        Ok(tally)
    })
}

async fn history(bench: &Bench, seed: u64) -> Result<Tally, String> {
    let mut runner = TestRunner::new(seed::config(seed));
    let Plan { opening, callers } = plan::plan().new_tree(&mut runner).expect("a plan").current();
    let id = bench.id();
    let claim = opening.arrange(bench, &id).await;
    let handles = [Arc::clone(&bench.store), Arc::clone(&bench.other)];
    let before = bench.record(&id).await;
    let told = Told { claim, found: before.clone() };
    let opened = bench.now().await;
    let ops = play(&handles, &id, told, callers).await;
    let window = Window { before: opened, after: bench.now().await };
    explain(before.as_ref(), &ops, window)
        .map_err(|why| format!("first {}\n{why}", show::record(before.as_ref())))?;
    // Nothing of it is left for the sweeps of the next one.
    bench.elapse(Duration::from_hours(72)).await;
    bench.store.sweep(u32::MAX).await.expect("a sweep");
    let mut tally = Tally::default();
    for op in &ops {
        let word = op.reply.as_ref().map_or("unknown", |(reply, _)| reply.word(false));
        tally.count(op.step.method().name(), word);
        if ops.iter().any(|other| overlap(op, other)) {
            tally.count("overlap", op.step.method().name());
        }
    }
    Ok(tally)
}

/// Whether two callers' calls were under way at the same time.
fn overlap(one: &Op, other: &Op) -> bool {
    let end = |op: &Op| op.reply.as_ref().map_or(u64::MAX, |(_, returned)| *returned);
    one.caller != other.caller && one.begun < end(other) && other.begun < end(one)
}

/// Explains a history, or shows the shortest beginning of it that cannot be explained.
fn explain(before: Option<&Record>, ops: &[Op], window: Window) -> Result<(), String> {
    let verdict = |until| search(before, &cut(ops, until), window, STEPS);
    match verdict(u64::MAX) {
        Verdict::Linearizable => return Ok(()),
        Verdict::GaveUp => return Err(format!("no verdict after {STEPS} steps\n{}", List(ops, u64::MAX))),
        Verdict::NotLinearizable(_) => {}
    }
    let mut ends: Vec<_> = ops.iter().filter_map(|op| op.reply.as_ref()).map(|(_, end)| *end).collect();
    ends.sort_unstable();
    let shortest = ends.into_iter().find_map(|end| match verdict(end) {
        Verdict::NotLinearizable(closest) => Some((end, closest)),
        Verdict::Linearizable | Verdict::GaveUp => None,
    });
    let Some((end, closest)) = shortest else {
        return Err("nothing but the whole is unexplained".to_owned());
    };
    Err(format!("{}{}", List(ops, end), Gap(&closest)))
}

/// What had been called, and answered, by then.
fn cut(ops: &[Op], until: u64) -> Vec<Seen<'_>> {
    let called = ops.iter().take_while(|op| op.begun < until);
    let seen = called.map(|op| Seen {
        step: &op.step,
        begun: op.begun,
        reply: op.reply.as_ref().filter(|(_, end)| *end <= until).map(|(reply, end)| (reply, *end)),
    });
    seen.collect()
}

/// A history that no order of its calls explains.
#[derive(Clone, Debug)]
pub struct Unexplained {
    seed: u64,
    why: String,
}

impl Unexplained {
    /// The seed of the callers.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl std::error::Error for Unexplained {}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "no order of these calls at one key explains what was answered; {}",
            self.why.trim_end()
        )?;
        write!(f, "IDEM_LINEAR_SEED={} IDEM_LINEAR_HISTORIES=1 brings the callers back.", self.seed)
    }
}

/// The history up to a moment.
struct List<'a>(&'a [Op], u64);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, op) in self.0.iter().take_while(|op| op.begun < self.1).enumerate() {
            write!(f, "{number:>4}. caller {}, {} to ", op.caller, op.begun)?;
            let call = show::step(&op.step);
            match &op.reply {
                Some((reply, end)) if *end <= self.1 => {
                    writeln!(f, "{end}: {call} -> {}", show::reply(reply))?;
                }
                Some(_) | None => writeln!(f, "?: {call} -> ?")?,
            }
        }
        Ok(())
    }
}

/// Where the closest explanation ends.
struct Gap<'a>(&'a Closest);

impl fmt::Display for Gap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Closest { order, record, refused } = self.0;
        writeln!(
            f,
            "The order {order:?} explains the most. It leaves {}; then",
            show::record(record.as_ref())
        )?;
        refused.iter().try_for_each(|(number, why)| writeln!(f, "{number:>4}. {why}"))
    }
}
