//! Trying stores with cases, several at a time.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use idem_conformance::run_case;
use idem_test_support::{Database, postgres};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::runtime::Runtime;

use super::{
    damaged::{Tabled, with},
    fences, impossible, locks, overtaken,
    split::Damage,
    sweeps,
};
use crate::{PostgresStore, Settings};

/// A store, undamaged if there is no damage, and the name of the case that it is tried with.
pub(super) type Trial<'d> = (Option<&'d Damage>, &'d str);

/// How many are tried at a time; each waits for the server most of the time.
const LANES: usize = 3;

/// The name of the threads whose panics are verdicts and not printed.
const QUIET: &str = "trial";

macro_rules! of_our_own {
    ($($module:ident { $($name:ident)+ })+) => {
        /// What the suite cannot see: it does not know of rows that are locked, nor of rows that cannot be.
        const OF_OUR_OWN: &[(&str, fn())] = &[$($((stringify!($name), $module::$name),)+)+];
    };
}

of_our_own! {
    fences {
        p19_a_fence_above_read_committed_waits_for_nobody_and_holds_nothing
        s08_a_fence_holds_its_own_record_only
        s08_a_fence_keeps_others_from_taking_over
        s08_a_fence_of_an_owner_that_was_left_behind_holds_nothing
        s21_a_fence_bounds_an_idle_owner_by_its_lease
    }
    locks {
        f06_a_mark_that_waited_past_its_time_is_too_late
        f06_a_renewal_counts_its_lease_from_the_end_of_the_wait
        l06_of_takers_that_wait_for_one_lock_one_wins
        l07_a_claim_that_waited_behind_a_renewal_takes_nothing_over
        l08_a_claim_that_waited_behind_the_end_replays
        p05_a_claim_waits_for_no_other_key
        p05_a_claim_behind_an_uncommitted_insert_is_not_done
        p05_what_stands_behind_an_insert_that_waited_in_vain_is_answered
        p05_writes_behind_a_lock_are_not_done_and_reads_do_not_wait
        s14_a_claim_sent_again_that_waited_behind_its_own_end_retries
    }
    impossible {
        b014_b170_impossible_rows_are_corrupt_and_nobody_runs
    }
    overtaken {
        l07_a_takeover_that_waited_behind_a_renewal_takes_nothing
        l12_a_takeover_that_waited_behind_a_mark_does_not_run
        s01_a_re_issue_of_an_earlier_operation_lands_nowhere
        s01_a_re_issue_of_an_earlier_token_lands_nowhere
        s01_a_takeover_of_an_earlier_operation_lands_nowhere
        s01_a_takeover_that_arrives_after_another_lands_nowhere
        s01_a_wipe_that_arrives_after_a_retry_lands_nowhere
        s01_a_wipe_of_an_earlier_operation_lands_nowhere
        s02_a_retry_that_waited_past_the_retention_starts_anew
        s02_a_wipe_judges_the_expiry_again
        s02_a_wipe_that_waited_behind_another_leaves_it_alone
        s04_a_re_issue_that_waited_behind_its_release_retries
        s12_a_release_that_waited_behind_an_answer_is_lost
        s16_a_decision_that_waited_behind_its_owner_is_lost
    }
    sweeps {
        g06_a_sweep_passes_over_a_row_that_is_just_being_claimed_again
        g07_a_batch_is_bounded_whatever_the_planner_thinks
    }
}

/// The names of all cases.
pub(super) fn every_case() -> Vec<&'static str> {
    let suite = idem_conformance::cases().iter().map(|case| case.name);
    suite.chain(OF_OUR_OWN.iter().map(|(name, _)| *name)).collect()
}

/// Tries them all, each store with so many connections; says of each why it failed, if it did.
pub(super) fn try_all(trials: &[Trial<'_>], connections: u32) -> Vec<Option<String>> {
    quiet();
    let next = AtomicUsize::new(0);
    let mut outcomes = vec![None; trials.len()];
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES.min(trials.len()))
            .map(|_| {
                let lane = || {
                    let lane = Lane::new(connections);
                    let mut seen = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(trial) = trials.get(number) else { return seen };
                        seen.push((number, lane.run(trial)));
                    }
                };
                thread::Builder::new().name(QUIET.to_owned()).spawn_scoped(scope, lane).expect("a thread")
            })
            .collect();
        for lane in lanes {
            for (number, outcome) in lane.join().expect("a lane catches what fails in it") {
                outcomes[number] = outcome;
            }
        }
    });
    outcomes
}

/// A thread with a database for all the tables of its trials.
struct Lane {
    runtime: Runtime,
    pool: PgPool,
    _database: Database,
}

impl Lane {
    fn new(connections: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(QUIET)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let (database, pool) = runtime.block_on(async {
            let database = postgres().database().await;
            // Most of these plans are used a few times only.
            let options = database.options().options([("plan_cache_mode", "force_generic_plan")]);
            let pool = PgPoolOptions::new().max_connections(connections).test_before_acquire(false);
            let pool = pool.connect_lazy_with(options);
            PostgresStore::with(pool.clone(), Settings::new()).migrate().await.expect("a table");
            (database, pool)
        });
        Self { runtime, pool, _database: database }
    }

    fn run(&self, (damage, case): &Trial<'_>) -> Option<String> {
        let run = || match OF_OUR_OWN.iter().find(|(name, _)| name == case) {
            Some((_, test)) => test(),
            None => self.runtime.block_on(run_case::<Tabled>(case)),
        };
        let outcome = with(*damage, &self.pool, || catch_unwind(AssertUnwindSafe(run)));
        outcome.err().map(|panic| message(&*panic))
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Keeps the panics of trials off the screen, and their stacks, which take longer than most trials.
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
