//! One walk, and what is left of it if it fails.

use std::{cell::RefCell, panic::AssertUnwindSafe, sync::atomic::Ordering, time::Duration};

use futures_util::FutureExt;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use proptest_state_machine::ReferenceStateMachine;
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, timeout},
};

use super::{Difference, act::Turn, draw::Ahead, model::Model};
use crate::{Harness, Tally, seed, suite::message};

/// A walk that has not ended by then never will.
const PATIENCE: Duration = Duration::from_mins(2);
/// For how long a walk that failed is cut short and made simpler at most.
const CUTTING: Duration = Duration::from_mins(2);

/// Walks against one store after the other.
pub(super) struct Walker<H> {
    runtime: Runtime,
    /// The store of the last walk.
    kept: RefCell<Option<H>>,
}

/// How a walk failed.
struct Failure {
    /// What was called, and what came of it.
    calls: Vec<String>,
    why: String,
}

impl<H: Harness> Walker<H> {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), kept: RefCell::new(None) }
    }

    /// The walk of a seed; if it fails, many of them, ever shorter.
    pub(super) fn follow(&self, seed: u64, steps: usize) -> Result<Tally, Difference> {
        let tally = RefCell::new(Tally::default());
        let mut runner = TestRunner::new(Config {
            max_shrink_time: u32::try_from(CUTTING.as_millis()).unwrap_or(u32::MAX),
            max_shrink_iters: 4096,
            ..seed::config(seed)
        });
        let drawn = runner.run(&Ahead::sequential_strategy(steps), |(_, turns, seen)| {
            let called = || {
                // Calls that were never reached are left out first.
                if let Some(seen) = &seen {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            };
            let walked = self.walk(&turns, called).map_err(|failure| TestCaseError::fail(failure.why))?;
            *tally.borrow_mut() = walked;
            Ok(())
        });
        match drawn {
            Ok(()) => Ok(tally.into_inner()),
            Err(TestError::Fail(why, (_, turns, _))) => {
                let failure = self.leave_out(turns).unwrap_or_else(|| Failure {
                    calls: Vec::new(),
                    why: format!(
                        "{why}\nWhat was left of the walk did not fail when it was walked once more."
                    ),
                });
                Err(Difference { seed, steps, calls: failure.calls, why: failure.why })
            }
            Err(TestError::Abort(why)) => panic!("no walk could be drawn: {why}"),
        }
    }

    /// Leaves out each call without which the walk still fails, until there is none. `None` if it does not fail.
    fn leave_out(&self, mut turns: Vec<Turn>) -> Option<Failure> {
        let mut failure = self.walk(&turns, || {}).err()?;
        let end = Instant::now() + CUTTING;
        let mut needed = 0;
        // The last call is needed, since it fails.
        while needed + 1 < turns.len() && Instant::now() < end {
            let mut fewer = turns.clone();
            fewer.remove(turns.len() - 2 - needed);
            match self.walk(&fewer, || {}) {
                Ok(_) => needed += 1,
                Err(shorter) => (failure, turns, needed) = (shorter, fewer, 0),
            }
        }
        Some(failure)
    }

    /// Walks; `called` is told of each call before it is made.
    fn walk(&self, turns: &[Turn], called: impl Fn()) -> Result<Tally, Failure> {
        let (mut calls, mut tally) = (Vec::new(), Tally::default());
        let kept = self.kept.take();
        let walked = AssertUnwindSafe(go(kept, turns, called, &mut calls, &mut tally)).catch_unwind();
        let why = match self.runtime.block_on(async { timeout(PATIENCE, walked).await }) {
            Ok(Ok((kept, walked))) => {
                self.kept.replace(Some(kept));
                match walked {
                    Ok(()) => return Ok(tally),
                    Err(why) => why,
                }
            }
            Ok(Err(panic)) => format!("a panic: {}", message(&*panic)),
            Err(_) => format!("not answered within {PATIENCE:?}"),
        };
        Err(Failure { calls, why })
    }
}

impl<H> Drop for Walker<H> {
    fn drop(&mut self) {
        let _in_it = self.runtime.enter();
        drop(self.kept.take());
    }
}

async fn go<H: Harness>(
    kept: Option<H>,
    turns: &[Turn],
    called: impl Fn(),
    calls: &mut Vec<String>,
    tally: &mut Tally,
) -> (H, Result<(), String>) {
    let harness = match kept {
        Some(kept) => kept.emptied().await,
        None => H::start().await,
    };
    let walked = go_on(&harness, turns, called, calls, tally).await;
    (harness, walked)
}

async fn go_on<H: Harness>(
    harness: &H,
    turns: &[Turn],
    called: impl Fn(),
    calls: &mut Vec<String>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut model = Model::start([harness.store(), harness.second().await]).await?;
    for turn in turns {
        called();
        if let Some(by) = model.too_close() {
            calls.push(format!("Elapse({by:?}), so that nothing ends during the next call"));
            model.elapse(harness, by).await?;
        }
        // The answer is added once it is there: one that never comes leaves the call standing alone.
        let number = calls.len();
        calls.push(format!("{turn:?}"));
        let (call, reply) = model.go(harness, turn).await?;
        calls[number] = format!("{turn:?}: {reply}");
        tally.count(call, reply);
    }
    model.compare_all().await
}
