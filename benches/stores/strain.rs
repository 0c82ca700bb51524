//! What many callers do at once, and what is left when they are gone.

use std::{sync::Arc, time::Duration};

use idem::{ClaimOutcome, KeyStore as _, Sweeper};
use tokio::{sync::Barrier, task::JoinSet, time::Instant};

use crate::place::{Place, chunks, fresh_id, request};

pub(crate) const RACERS: u32 = 32;
const OUTLIVED: u32 = 100_000;

/// Per race: from the moment in which 32 tasks claim one fresh key to the last of their answers.
pub(crate) async fn race(place: Arc<dyn Place>, races: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for chunk in chunks(races) {
        let store = place.empty().await;
        let keys: Vec<_> = (0..chunk).map(|_| fresh_id()).collect();
        let start = Arc::new(Barrier::new(RACERS as usize));
        let mut tasks = JoinSet::new();
        for _ in 0..RACERS {
            let (store, start) = (Arc::clone(&store), Arc::clone(&start));
            let requests: Vec<_> = keys.iter().cloned().map(request).collect();
            tasks.spawn(async move {
                start.wait().await;
                let begun = Instant::now();
                let mut won = 0;
                for request in &requests {
                    start.wait().await;
                    match store.claim(request).await.expect("an answer") {
                        ClaimOutcome::Claimed(_) => won += 1,
                        ClaimOutcome::InProgress { .. } => {}
                        other @ (ClaimOutcome::Completed(_)
                        | ClaimOutcome::InDoubt { .. }
                        | ClaimOutcome::Mismatch) => panic!("a racer was answered with {other:?}"),
                    }
                }
                (begun.elapsed(), won)
            });
        }
        let ended = tasks.join_all().await;
        assert_eq!(ended.iter().map(|(_, won)| won).sum::<u32>(), chunk, "every race has one winner");
        spent += ended.into_iter().map(|(spent, _)| spent).max().unwrap_or_default();
    }
    spent
}

/// Per pass: all batches that clear 100,000 records.
pub(crate) async fn sweep(place: Arc<dyn Place>, passes: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..passes {
        let sweeper = Sweeper::new(place.outlived(OUTLIVED).await);
        let begun = Instant::now();
        let swept = sweeper.pass().await.expect("a pass");
        spent += begun.elapsed();
        assert_eq!(swept, u64::from(OUTLIVED), "a pass clears what outlived its retention");
    }
    spent
}
