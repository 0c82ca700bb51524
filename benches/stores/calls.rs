//! One caller, one call after the other.

use std::{sync::Arc, time::Duration};

use idem::{ClaimOutcome, KeyStore as _};
use tokio::time::Instant;

use crate::place::{LEASE, Place, RETENTION, answer, chunks, claim, claims, fresh_id, request};

pub(crate) async fn claim_new(place: Arc<dyn Place>, calls: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for chunk in chunks(calls) {
        let store = place.empty().await;
        let requests: Vec<_> = (0..chunk).map(|_| request(fresh_id())).collect();
        let begun = Instant::now();
        for request in &requests {
            let _claim = claim(&store, request).await;
        }
        spent += begun.elapsed();
    }
    spent
}

pub(crate) async fn replay(place: Arc<dyn Place>, calls: u64) -> Duration {
    let store = place.empty().await;
    let first = request(fresh_id());
    let owner = claim(&store, &first).await;
    store.complete(&owner, &answer(), RETENTION).await.expect("an end");
    let retry = first.again();
    let begun = Instant::now();
    for _ in 0..calls {
        let outcome = store.claim(&retry).await.expect("a replay");
        assert!(matches!(outcome, ClaimOutcome::Completed(_)), "{outcome:?}");
    }
    begun.elapsed()
}

pub(crate) async fn conflict(place: Arc<dyn Place>, calls: u64) -> Duration {
    let store = place.empty().await;
    let first = request(fresh_id());
    let _owner = claim(&store, &first).await;
    let retry = first.again();
    let begun = Instant::now();
    for _ in 0..calls {
        let outcome = store.claim(&retry).await.expect("a conflict");
        assert!(matches!(outcome, ClaimOutcome::InProgress { .. }), "{outcome:?}");
    }
    begun.elapsed()
}

pub(crate) async fn complete(place: Arc<dyn Place>, calls: u64) -> Duration {
    let (mut spent, answer) = (Duration::ZERO, answer());
    for chunk in chunks(calls) {
        let store = place.empty().await;
        let claims = claims(&store, chunk).await;
        let begun = Instant::now();
        for claim in &claims {
            store.complete(claim, &answer, RETENTION).await.expect("an end");
        }
        spent += begun.elapsed();
    }
    spent
}

pub(crate) async fn renew(place: Arc<dyn Place>, calls: u64) -> Duration {
    let store = place.empty().await;
    let claim = claim(&store, &request(fresh_id())).await;
    let begun = Instant::now();
    for _ in 0..calls {
        store.renew(&claim, LEASE).await.expect("a renewal");
    }
    begun.elapsed()
}
