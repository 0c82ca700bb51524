//! What the outbox and its relay cost: `cargo bench --bench outbox`.
//!
//! Each job is done by the library and, in the same run and on an equal table, by SQL that one would write by hand: the
//! same INSERT in the same transaction, and for the relay the usual loop of *take some, publish, mark*. All take
//! turns, so that only the difference is left. Publishing itself costs nothing here.

#![expect(clippy::expect_used, reason = "a bench that cannot measure ends with the reason")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

mod by_hand;
#[expect(dead_code, reason = "only what it makes of figures is of use here")]
#[path = "../postgres/contest.rs"]
mod contest;
mod ours;

use std::{env, sync::Arc};

use async_trait::async_trait;
use idem_test_support::Postgres;
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::{runtime, task::JoinSet, time::Instant};

use by_hand::ByHand;
use contest::Spread;
use ours::Ours;

/// Transactions at once.
const IN_FLIGHT: usize = 16;
/// Messages that are added, or relayed, at once.
const BATCH: usize = 100;

/// A way to add messages and to relay them.
#[async_trait]
trait Way: Send + Sync {
    /// One transaction with a row of its own and these messages.
    async fn add(&self, messages: usize);

    /// Publishes all that waits.
    async fn relay(&self);
}

fn main() {
    let asked = |flag| env::args().any(|argument| argument == flag);
    if asked("--list") {
        if !asked("--ignored") {
            println!("outbox: test");
        }
        return;
    }
    // `cargo bench` says --bench; without it this is a test of the bench itself.
    let plan = if asked("--bench") && !asked("--test") {
        Plan { fsync: "on", rounds: 11, transactions: 1600, relayed: 10_000 }
    } else {
        println!("one tiny round: it works; its figures mean nothing");
        Plan { fsync: "off", rounds: 1, transactions: IN_FLIGHT, relayed: 200 }
    };
    runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(measure(plan));
}

/// How much is measured.
struct Plan {
    fsync: &'static str,
    rounds: usize,
    transactions: usize,
    relayed: usize,
}

#[derive(Clone, Copy)]
enum Job {
    Add(usize),
    Relay,
}

async fn measure(plan: Plan) {
    let server = Postgres::builder().setting("fsync", plan.fsync).start().await;
    let database = server.database().await;
    let pool = PgPoolOptions::new().max_connections(32).test_before_acquire(false);
    let pool = pool.connect_with(database.options()).await.expect("a pool");
    let ours = Arc::new(Ours::new(&pool).await);
    let by_hand = Arc::new(ByHand::new(&pool).await);
    println!("\nmessages a second: median and quartiles of {} rounds", plan.rounds);
    for (name, job) in [
        ("added one by one", Job::Add(1)),
        ("added by the hundred", Job::Add(BATCH)),
        ("relayed", Job::Relay),
    ] {
        let ways: [Arc<dyn Way>; 2] = [Arc::clone(&ours) as _, Arc::clone(&by_hand) as _];
        let [mine, theirs] = contest(&plan, job, &ways, &pool).await;
        line(&format!("{name}, idem"), &Spread::of(mine.clone()), 0);
        line(&format!("{name}, by hand"), &Spread::of(theirs.clone()), 0);
        line("  idem / by hand", &Spread::of_ratios(&mine, &theirs), 2);
    }

    println!("\nphases a second, each with its claim, a row and the answer");
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..plan.rounds {
        for (messages, rates) in rates.iter_mut().enumerate() {
            empty(&pool).await;
            let ours = Arc::clone(&ours);
            let phase = move || {
                let ours = Arc::clone(&ours);
                async move { ours.phase(messages).await }
            };
            rates.push(rate(plan.transactions, phase).await);
        }
    }
    let [without, with] = rates;
    line("without a message", &Spread::of(without.clone()), 0);
    line("with one", &Spread::of(with.clone()), 0);
    line("  with / without", &Spread::of_ratios(&with, &without), 2);

    println!("\nstatements for so many messages in one phase, beyond those of a phase without");
    for (how, messages, statements) in ours::statements(&database).await {
        println!("  {how:<24} {messages:>9} {statements:>9}");
    }
    pool.close().await;
}

fn line(name: &str, spread: &Spread, digits: usize) {
    let Spread { low, median, high } = spread;
    println!("  {name:<34} {median:>9.digits$}   ({low:.digits$} to {high:.digits$})");
}

/// Messages a second of each way, one number for each round.
async fn contest(plan: &Plan, job: Job, ways: &[Arc<dyn Way>; 2], pool: &PgPool) -> [Vec<f64>; 2] {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=plan.rounds {
        let mut order: Vec<_> = ways.iter().zip(&mut rates).collect();
        // Nobody always runs after the other one.
        if round % 2 == 1 {
            order.reverse();
        }
        for (way, rates) in order {
            empty(pool).await;
            let rate = turn(plan, job, way).await;
            // The first round opens connections, prepares statements and fills caches.
            if round > 0 || plan.rounds == 1 {
                rates.push(rate);
            }
        }
    }
    rates
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
async fn turn(plan: &Plan, job: Job, way: &Arc<dyn Way>) -> f64 {
    match job {
        Job::Add(messages) => {
            let (way, transactions) = (Arc::clone(way), (plan.transactions / messages).max(IN_FLIGHT));
            let add = move || {
                let way = Arc::clone(&way);
                async move { way.add(messages).await }
            };
            rate(transactions, add).await * messages as f64
        }
        Job::Relay => {
            for _ in 0..plan.relayed / BATCH {
                way.add(BATCH).await;
            }
            let begun = Instant::now();
            way.relay().await;
            plan.relayed as f64 / begun.elapsed().as_secs_f64()
        }
    }
}

/// How often a second it is done, by so many tasks, each one after the other.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
async fn rate<F, C>(times: usize, call: F) -> f64
where
    F: Fn() -> C + Clone + Send + 'static,
    C: Future<Output = ()> + Send,
{
    let (mut tasks, each, begun) = (JoinSet::new(), times / IN_FLIGHT, Instant::now());
    for _ in 0..IN_FLIGHT {
        let call = call.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                call().await;
            }
        });
    }
    tasks.join_all().await;
    (each * IN_FLIGHT) as f64 / begun.elapsed().as_secs_f64()
}

async fn empty(pool: &PgPool) {
    let sql = "TRUNCATE idempotency_key, idempotency_key_outbox, by_hand, note";
    sqlx::raw_sql(sql).execute(pool).await.expect("empty tables");
}
