//! An operation whole: the engine's run, and the two calls of the store that are in it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use idem::{Answer, Engine, Fingerprint, KeyId, KeyStore as _, Operation, Policy, StoredResponse};
use tokio::time::Instant;

use crate::place::{Place, RETENTION, answer, chunks, claim, fresh_id, request};

pub(crate) async fn by_hand(place: Arc<dyn Place>, calls: u64) -> Duration {
    let (mut spent, answer) = (Duration::ZERO, answer());
    for chunk in chunks(calls) {
        let store = place.empty().await;
        let ids: Vec<_> = (0..chunk).map(|_| fresh_id()).collect();
        let begun = Instant::now();
        for id in ids {
            let claim = claim(&store, &request(id)).await;
            store.complete(&claim, &answer, RETENTION).await.expect("an end");
        }
        spent += begun.elapsed();
    }
    spent
}

pub(crate) async fn by_engine(place: Arc<dyn Place>, calls: u64) -> Duration {
    let (mut spent, answer) = (Duration::ZERO, answer());
    for chunk in chunks(calls) {
        let engine = Engine::new(place.empty().await);
        let ids: Vec<_> = (0..chunk).map(|_| fresh_id()).collect();
        let begun = Instant::now();
        for id in ids {
            let told = run(&engine, id, &answer).await;
            assert!(matches!(told, Answer::Executed(_)), "{told:?}");
        }
        spent += begun.elapsed();
    }
    spent
}

pub(crate) async fn replay(place: Arc<dyn Place>, calls: u64) -> Duration {
    let (engine, id, answer) = (Engine::new(place.empty().await), fresh_id(), answer());
    let first = run(&engine, id.clone(), &answer).await;
    assert!(matches!(first, Answer::Executed(_)), "{first:?}");
    let begun = Instant::now();
    for _ in 0..calls {
        let told = run(&engine, id.clone(), &answer).await;
        assert!(matches!(told, Answer::Replayed(_)), "{told:?}");
    }
    begun.elapsed()
}

async fn run(engine: &Engine, id: KeyId, answer: &StoredResponse) -> Answer {
    let same = Fingerprint::of("bench").body(b"{\"amount\":1000}").finish();
    let answer = answer.clone();
    let work = async move |_op: Operation| Ok::<_, Infallible>(answer);
    engine.run(id, same, &Policy::resumable().retention(RETENTION), work).await.expect("an answer")
}
