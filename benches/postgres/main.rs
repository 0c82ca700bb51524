//! What the store adds to its own statements: `cargo bench --bench postgres`.
//!
//! An operation is a claim and its completion with an answer of 200 bytes, two commits that the server syncs. The same
//! statements, word for word, are sent by sqlx alone, and a plain INSERT and UPDATE by hand do the happy path of the same
//! job. All take turns on one server and one pool, so that only the difference between them is left.

#![expect(clippy::expect_used, reason = "a bench that cannot measure ends with the reason")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

mod bare;
mod by_hand;
mod contest;
mod hot;
mod ours;

use std::{env, sync::Arc, time::Duration};

use idem_test_support::{Database, Postgres};
use tokio::runtime;

use contest::{Contestant, Length, Spread, contest};
use hot::Load;

const FILLFACTORS: [u32; 5] = [35, 45, 50, 60, 70];
const MANY: usize = 32;
/// How much of the speed of its own statements the store promises to leave.
const GOAL: f64 = 0.9;

fn main() {
    let asked = |flag| env::args().any(|argument| argument == flag);
    if asked("--list") {
        if !asked("--ignored") {
            println!("postgres: test");
        }
        return;
    }
    // `cargo bench` says --bench; without it this is a test of the bench itself.
    let plan = if asked("--bench") && !asked("--test") {
        Plan::FULL
    } else {
        println!("one tiny round: it works; its figures mean nothing");
        Plan::TINY
    };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(plan));
}

/// How much is measured.
struct Plan {
    fsync: &'static str,
    contest: Length,
    hot: Load,
}

impl Plan {
    const FULL: Self = Self {
        fsync: "on",
        contest: Length { rounds: 21, turn: Duration::from_millis(300) },
        hot: Load { in_flight: MANY, open: 16, operations: 250 },
    };
    const TINY: Self = Self {
        fsync: "off",
        contest: Length { rounds: 1, turn: Duration::from_millis(10) },
        hot: Load { in_flight: MANY, open: 2, operations: 2 },
    };
}

async fn measure(plan: Plan) {
    let server = Postgres::builder().setting("fsync", plan.fsync).start().await;
    println!("\nCommits wait for the disk, as they should:");
    throughput(&server.database().await, "on", plan.contest).await;
    println!("\nCommits do not wait, so that what the processor does is all that is left:");
    throughput(&server.database().await, "off", plan.contest).await;

    let Load { in_flight, open, operations } = plan.hot;
    println!(
        "\nheap-only completions, {in_flight} in flight, {open} open claims each, {operations} operations each"
    );
    for fillfactor in FILLFACTORS {
        let share = hot::share(&server.database().await, fillfactor, plan.hot).await;
        println!("  {:<26} {:>9.0} %", format!("fillfactor {fillfactor}"), share * 100.0);
    }
}

async fn throughput(database: &Database, synchronous_commit: &str, length: Length) {
    let options = database.options().options([("synchronous_commit", synchronous_commit)]);
    let pool = ours::pool(options, MANY).await;
    let ours = ours::Ours::new(&pool).await;
    let bare = bare::Bare::new(ours.store());
    let by_hand = by_hand::ByHand::new(&pool).await;
    let contestants: [Arc<dyn Contestant>; 3] = [Arc::new(ours), Arc::new(bare), Arc::new(by_hand)];
    for in_flight in [1, MANY] {
        let rates = contest(&contestants, &pool, in_flight, length).await;
        println!("\n  operations a second, {in_flight} in flight: median and quartiles");
        for (contestant, rates) in contestants.iter().zip(&rates) {
            let Spread { low, median, high } = Spread::of(rates.clone());
            println!("    {:<26} {median:>7.0}   ({low:.0} to {high:.0})", contestant.name());
        }
        let [ours, bare, by_hand] = &rates;
        let Spread { low, median, high } = Spread::of_ratios(ours, bare);
        let verdict = if median >= GOAL { "kept" } else { "MISSED" };
        println!(
            "    store / bare               {median:>7.2}   ({low:.2} to {high:.2}), promised {GOAL:.2}: {verdict}"
        );
        let Spread { low, median, high } = Spread::of_ratios(ours, by_hand);
        println!("    store / by hand            {median:>7.2}   ({low:.2} to {high:.2})");
    }
    pool.close().await;
}
