//! Contestants take turns on one server until the noise of the machine is the same for all of them.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use idem::{ClaimRequest, Fingerprint, KeyId, Scope, StoredResponse};
use sqlx::PgPool;
use tokio::{sync::Barrier, task::JoinSet, time::Instant};
use uuid::Uuid;

pub(crate) const LEASE: Duration = Duration::from_mins(10);
pub(crate) const RETENTION: Duration = Duration::from_hours(24);

/// A way of claiming a key and completing it.
#[async_trait]
pub(crate) trait Contestant: Debug + Send + Sync {
    /// What it is called in the report.
    fn name(&self) -> &'static str;

    /// One operation, both commits awaited.
    async fn operation(&self, request: &ClaimRequest);
}

/// The answer of every operation, 200 bytes.
pub(crate) fn answer() -> StoredResponse {
    StoredResponse::new(201, vec![b'x'; 200]).expect("an answer")
}

/// The same as a table's columns.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) code: i16,
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Columns {
    pub(crate) fn of(answer: &StoredResponse) -> Self {
        let code = i16::try_from(answer.status()).expect("a status");
        Self { code, headers: answer.encode_headers().into(), body: answer.body().to_vec() }
    }
}

/// How long a contest goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) rounds: usize,
    /// Of each contestant in each round.
    pub(crate) turn: Duration,
}

/// Operations a second of each contestant, one number for each round.
pub(crate) async fn contest<const N: usize>(
    contestants: &[Arc<dyn Contestant>; N],
    pool: &PgPool,
    in_flight: usize,
    length: Length,
) -> [Vec<f64>; N] {
    let mut rates = [const { Vec::new() }; N];
    for round in 0..=length.rounds {
        let mut order: Vec<_> = contestants.iter().zip(&mut rates).collect();
        // Nobody always runs after the same one.
        if round % 2 == 1 {
            order.reverse();
        }
        for (contestant, rates) in order {
            clear(pool).await;
            let rate = turn(contestant, in_flight, length.turn).await;
            // The first round opens connections, prepares statements and fills caches.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    rates
}

/// The median and the quartiles of some rounds.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let quarter = |quarters: usize| rounds.get(rounds.len() * quarters / 4).copied().unwrap_or(f64::NAN);
        Self { low: quarter(1), median: quarter(2), high: quarter(3) }
    }

    /// Of the ratios within each round: what slows a whole round down cancels out.
    pub(crate) fn of_ratios(of: &[f64], to: &[f64]) -> Self {
        Self::of(of.iter().zip(to).map(|(of, to)| of / to).collect())
    }
}

/// Operations a second, of so many tasks with one operation after the other.
async fn turn(contestant: &Arc<dyn Contestant>, in_flight: usize, span: Duration) -> f64 {
    let start = Arc::new(Barrier::new(in_flight + 1));
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let (contestant, start) = (Arc::clone(contestant), Arc::clone(&start));
        tasks.spawn(async move {
            start.wait().await;
            let (begun, mut operations) = (Instant::now(), 0);
            while begun.elapsed() < span {
                contestant.operation(&request()).await;
                operations += 1;
            }
            operations
        });
    }
    start.wait().await;
    let begun = Instant::now();
    let operations = tasks.join_all().await.into_iter().sum::<u32>();
    f64::from(operations) / begun.elapsed().as_secs_f64()
}

/// For a key that was never used; random, as clients draw them.
pub(crate) fn request() -> ClaimRequest {
    let scope = Scope::new("bench").expect("a scope");
    let id = KeyId::new(scope, Uuid::new_v4().to_string().parse().expect("a key"));
    let same = Fingerprint::of("bench").body(b"{\"amount\":1000}").finish();
    ClaimRequest::new(id, same, LEASE, RETENTION).expect("a request")
}

async fn clear(pool: &PgPool) {
    sqlx::raw_sql("TRUNCATE idempotency_key, by_hand").execute(pool).await.expect("empty tables");
}
