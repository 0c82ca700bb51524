//! What clients send, and when they do not wait for the answer.

use futures_util::{StreamExt as _, future::try_join_all, stream::FuturesUnordered};

use super::{
    super::{intent::Intent, provider::Mood, world::World},
    Outcome, must,
};

pub(crate) async fn first_call(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let got = intent.send(world.server).await?.must_be(201, "")?;
    must(!got.is_replay(), "the first call is no replay")?;
    world.seen(&intent, 1, "201")
}

pub(crate) async fn replay(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let first = intent.send(world.server).await?.must_be(201, "")?;
    for _ in 0..3 {
        intent.send(world.server).await?.must_replay(&first)?;
    }
    world.seen(&intent, 1, "201, then 3 replays with the same status, bytes and headers")
}

/// The gateway takes its time, so that all the others meet a request in progress.
pub(crate) async fn fifty_at_once(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    world.provider.is(Mood::SlowToAnswer);
    let mut calls: FuturesUnordered<_> = (0..50).map(|_| intent.send(world.server)).collect();
    for _ in 0..49 {
        let duplicate = calls.next().await.ok_or("fifty calls")??.must_be(409, "in-progress")?;
        must(duplicate.headers.contains_key("retry-after"), "it says when to come back")?;
    }
    world.provider.is(Mood::Prompt);
    let first = calls.next().await.ok_or("fifty calls")??.must_be(201, "")?;
    for again in try_join_all((0..49).map(|_| intent.send(world.server))).await? {
        again.must_replay(&first)?;
    }
    world.seen(&intent, 1, "one 201, 49 times 409 in-progress, then 49 replays")
}

pub(crate) async fn other_body(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let first = intent.send(world.server).await?.must_be(201, "")?;
    let mut other = intent.clone();
    other.order.amount = 100_000;
    other.send(world.server).await?.must_be(422, "mismatch")?;
    intent.send(world.server).await?.must_replay(&first)?;
    world.seen(&intent, 1, "201, then 422 mismatch for another amount, then a replay of the first")
}

pub(crate) async fn other_caller(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let mine = intent.send(world.server).await?.must_be(201, "")?;
    let theirs = intent.of_another_caller().send(world.server).await?.must_be(201, "")?;
    must(!theirs.is_replay() && theirs.body != mine.body, "another caller's key is another key")?;
    world.seen(&intent, 2, "201 and 201: one key, two callers, two operations")
}

pub(crate) async fn malformed_key(world: &World) -> Outcome {
    let mut intent = Intent::to("/charges");
    intent.key = Some("k".repeat(256));
    intent.send(world.server).await?.must_be(400, "malformed-key")?;
    world.seen(&intent, 0, "400 malformed-key for 256 characters")
}

pub(crate) async fn missing_key(world: &World) -> Outcome {
    let mut intent = Intent::to("/charges");
    intent.key = None;
    intent.send(world.server).await?.must_be(400, "missing-key")?;
    world.seen(&intent, 0, "400 missing-key")
}

/// An error before anything happened, in a handler that may run again: nothing is kept of it.
pub(crate) async fn gateway_closed(world: &World) -> Outcome {
    let intent = Intent::to("/keyed-charges");
    world.provider.is(Mood::Closed);
    let refused = intent.send(world.server).await;
    world.provider.is(Mood::Prompt);
    must(!refused?.must_be(503, "")?.is_replay(), "it is the handler's own answer")?;
    let first = intent.send(world.server).await?.must_be(201, "")?;
    intent.send(world.server).await?.must_replay(&first)?;
    world.seen(&intent, 1, "503 released, then 201, then a replay")
}

/// The work goes on without its client.
pub(crate) async fn client_hangs_up(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    world.provider.is(Mood::SlowToAnswer);
    tokio::select! {
        early = intent.send(world.server) => drop(early?.must_be(0, "no answer")?),
        () = world.provider.has_booked(&intent.order.reference) => {} // and the connection is dropped
    }
    intent.send(world.server).await?.must_be(409, "in-progress")?;
    world.provider.is(Mood::Prompt);
    let got = intent.insist(world.server).await?.must_be(201, "")?;
    must(got.is_replay(), "it was answered from the record")?;
    world.seen(&intent, 1, "hung up; then 409 in-progress, then the answer as a replay")
}
