//! What one call costs, in every store that keeps its records here: `cargo bench --bench stores`.
//!
//! Each bench prepares its keys and records beforehand and times nothing but the calls. Postgres syncs what it commits.

#![expect(clippy::expect_used, reason = "a bench that cannot measure ends with the reason")]

mod calls;
mod memory;
mod place;
mod postgres;
mod runs;
mod strain;

use std::{pin::Pin, sync::Arc, time::Duration};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, criterion_group, criterion_main};
use tokio::{runtime, task::JoinSet};

use memory::Memory;
use place::Place;
use postgres::Postgres;

type Timed = Pin<Box<dyn Future<Output = Duration> + Send>>;
/// Makes so many calls in this place and says how long they took, without what went before.
type Bench = fn(Arc<dyn Place>, u64) -> Timed;

const CALLS: [(&str, Bench); 6] = [
    ("claim_new", |place, calls| Box::pin(calls::claim_new(place, calls))),
    ("replay", |place, calls| Box::pin(calls::replay(place, calls))),
    ("conflict", |place, calls| Box::pin(calls::conflict(place, calls))),
    ("complete", |place, calls| Box::pin(calls::complete(place, calls))),
    ("renew", |place, calls| Box::pin(calls::renew(place, calls))),
    ("race_of_32_for_one_key", |place, races| Box::pin(strain::race(place, races))),
];
/// What the engine adds is the difference between the first two.
const RUNS: [(&str, Bench); 3] = [
    ("claim_and_complete", |place, calls| Box::pin(runs::by_hand(place, calls))),
    ("run", |place, calls| Box::pin(runs::by_engine(place, calls))),
    ("replay", |place, calls| Box::pin(runs::replay(place, calls))),
];

fn stores(criterion: &mut Criterion) {
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let memory: Arc<dyn Place> = Arc::new(Memory);
    let postgres: Arc<dyn Place> = Arc::new(runtime.block_on(Postgres::start()));
    let places = [Arc::clone(&memory), postgres];

    let mut group = criterion.benchmark_group("store");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let measure = |group: &mut BenchmarkGroup<'_, _>, name: &str, bench: Bench, place: &Arc<dyn Place>| {
        group.bench_function(format!("{name}/{}", place.name()), |bencher| {
            bencher.iter_custom(|calls| on(&runtime, bench(Arc::clone(place), calls)));
        });
    };
    for (name, bench) in CALLS {
        for place in &places {
            measure(&mut group, name, bench, place);
        }
    }
    group.sample_size(10);
    for place in &places {
        measure(&mut group, "sweep_of_100k", |place, passes| Box::pin(strain::sweep(place, passes)), place);
    }
    group.finish();

    let mut group = criterion.benchmark_group("engine");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (name, bench) in RUNS {
        measure(&mut group, name, bench, &memory);
    }
    group.finish();
}

/// Runs it in a task, as a server's handlers run: from `block_on` every answer would cross to another thread.
fn on(runtime: &runtime::Runtime, timed: Timed) -> Duration {
    runtime.block_on(async {
        let mut task = JoinSet::new();
        task.spawn(timed);
        task.join_next().await.expect("one task").expect("a bench that ends")
    })
}

criterion_group!(benches, stores);
criterion_main!(benches);
