//! What is sent and what becomes of the record, by how the handler ended.

use axum::{
    Router,
    body::Body,
    http::Request,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_core::{Policy, StoredResponse};
use idem_http::{Idempotent, Problem, Reply};

use crate::bench::{Bench, PAST_LEASE, keyed, send, status};

/// What a handler does with its operation before it answers.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Nothing.
    Answer(u16),
    Panic,
    /// Completes with 201, and returns the proof.
    Complete,
    /// Completes with 201, and returns another answer.
    CompleteThen(u16),
    CompleteThenPanic,
    /// Releases, and returns the proof with 202.
    Release,
    /// Releases, and returns another answer.
    ReleaseThen(u16),
    /// Takes the operation and lets go of it.
    Drop(u16),
}

async fn act(act: Act, Idempotent(op): Idempotent) -> Result<Response, Problem> {
    let made = || StoredResponse::new(201, "stored");
    Ok(match act {
        Act::Answer(code) | Act::Drop(code) => {
            drop(op);
            (status(code), "answered").into_response()
        }
        Act::Panic => panic!("planned by the test"),
        Act::Complete => Reply::from(op.complete(made()?).await?).into_response(),
        Act::CompleteThen(code) => {
            let _proof = op.complete(made()?).await?;
            (status(code), "answered").into_response()
        }
        Act::CompleteThenPanic => {
            let _proof = op.complete(made()?).await?;
            panic!("planned by the test")
        }
        Act::Release => Reply::released(op.release().await?, (status(202), "answered")).into_response(),
        Act::ReleaseThen(code) => {
            let _proof = op.release().await?;
            (status(code), "answered").into_response()
        }
    })
}

/// A handler that does not take the operation, or one that does.
fn app(bench: &Bench, policy: Policy, what: Act) -> Router {
    let counting = bench.clone();
    let route = match what {
        Act::Answer(code) => post(async move || {
            counting.run();
            (status(code), "answered")
        }),
        _ => post(async move |op: Idempotent| {
            counting.run();
            act(what, op).await
        }),
    };
    Router::new().route("/charges", route.layer(bench.layer(policy)))
}

#[tokio::test(start_paused = true)]
async fn the_ledger_decides_what_is_sent_and_recorded() {
    let (resumable, opaque) = (Policy::resumable(), Policy::opaque());
    // policy, what the handler does, status and body sent, state of the record
    let table = [
        (&resumable, Act::Complete, 201, "stored", "completed"),
        (&opaque, Act::Complete, 201, "stored", "completed"),
        (&resumable, Act::CompleteThen(200), 201, "stored", "completed"),
        (&resumable, Act::CompleteThen(503), 201, "stored", "completed"),
        (&opaque, Act::CompleteThen(500), 201, "stored", "completed"),
        (&resumable, Act::CompleteThenPanic, 201, "stored", "completed"),
        (&opaque, Act::CompleteThenPanic, 201, "stored", "completed"),
        (&resumable, Act::Release, 202, "answered", "failed"),
        (&resumable, Act::ReleaseThen(200), 200, "answered", "failed"),
        (&resumable, Act::Answer(200), 200, "answered", "completed"),
        (&resumable, Act::Answer(409), 409, "answered", "completed"),
        (&resumable, Act::Answer(422), 422, "answered", "completed"),
        (&resumable, Act::Drop(200), 200, "answered", "completed"),
        (&resumable, Act::Answer(408), 408, "answered", "failed"),
        (&resumable, Act::Answer(425), 425, "answered", "failed"),
        (&resumable, Act::Answer(429), 429, "answered", "failed"),
        (&resumable, Act::Answer(500), 500, "answered", "failed"),
        (&resumable, Act::Answer(503), 503, "answered", "failed"),
        (&resumable, Act::Drop(503), 503, "answered", "failed"),
        (&opaque, Act::Answer(200), 200, "answered", "completed"),
        (&opaque, Act::Answer(429), 429, "answered", "completed"),
        (&opaque, Act::Answer(500), 500, "answered", "completed"),
        (&opaque, Act::Drop(503), 503, "answered", "completed"),
    ];
    for (policy, what, code, body, state) in table {
        let bench = Bench::new();
        let app = app(&bench, policy.clone(), what);
        let first = send(&app, keyed("k")).await;
        assert_eq!((first.status, first.text()), (code, body), "{what:?}");
        assert_eq!(bench.state("k").await, state, "{what:?}");

        let again = send(&app, keyed("k")).await;
        let ended = state == "completed";
        assert_eq!(again.is_replay(), ended, "{what:?}");
        assert_eq!(bench.runs(), if ended { 1 } else { 2 }, "{what:?}: what was released runs again");
        assert_eq!((again.status, again.text()), (code, body), "{what:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s12_w06_b010_a_panic_releases_a_resumable_key_and_leaves_an_opaque_one_in_doubt() {
    let bench = Bench::new();
    let app_of = |policy| app(&bench, policy, Act::Panic);
    let got = send(&app_of(Policy::resumable()), keyed("r")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "handler-panicked"));
    assert_eq!(bench.state("r").await, "failed", "free at once");

    let opaque = app_of(Policy::opaque());
    let got = send(&opaque, keyed("o")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "outcome-unknown"));
    assert_eq!(send(&opaque, keyed("o")).await.problem(), "in-progress", "until its lease is over");
    bench.clock.advance(PAST_LEASE);
    assert_eq!(send(&opaque, keyed("o")).await.problem(), "in-doubt");
    assert_eq!(bench.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_opaque_operation_is_not_released() {
    let bench = Bench::new();
    let app = app(&bench, Policy::opaque(), Act::Release);
    assert_eq!(send(&app, keyed("k")).await.problem(), "misconfigured");
    bench.clock.advance(PAST_LEASE);
    assert_eq!(send(&app, keyed("k")).await.problem(), "in-doubt");
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn b086_r19_a_transient_failure_is_not_pinned() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| {
        if run == 1 { status(503).into_response() } else { "charged".into_response() }
    });
    assert_eq!(send(&app, keyed("k")).await.status, 503);
    let got = send(&app, keyed("k")).await;
    assert_eq!((got.text(), got.is_replay()), ("charged", false));
    assert!(send(&app, keyed("k")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn the_proof_of_another_operation_ends_nothing_here() {
    let bench = Bench::new();
    let engine = bench.engine.clone();
    let handler = async move || -> Result<Reply, Problem> {
        let (hand, handed) = tokio::sync::oneshot::channel();
        let id = idem_core::KeyId::new(idem_core::Scope::new("acme")?, "other".parse()?);
        let same = idem_core::Fingerprint::of("other").finish();
        let work = async move |op: idem_core::Operation| {
            let _ = hand.send(op.complete(StoredResponse::new(201, "of the other")?).await?);
            Err::<StoredResponse, Problem>(Problem::new(status(500), "over"))
        };
        let _ = engine.run(id, same, &Policy::resumable(), work).await;
        Ok(handed.await?.into())
    };
    let app = Router::new().route("/charges", post(handler).layer(bench.resumable()));
    let got = send(&app, keyed("k")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "misconfigured"), "never an empty success");
    assert_eq!(bench.state("k").await, "failed");
    assert_eq!(bench.state("other").await, "completed");
}

#[tokio::test(start_paused = true)]
async fn n04_an_operation_that_outlives_its_handler_is_left_behind() {
    let bench = Bench::new();
    let (hand, mut handed) = tokio::sync::mpsc::channel(1);
    let handler = async move |Idempotent(op): Idempotent| {
        hand.send(op).await.expect("the test listens");
        "answered"
    };
    let app = Router::new().route("/charges", post(handler).layer(bench.resumable()));
    assert_eq!(send(&app, keyed("k")).await.text(), "answered");
    let op = handed.recv().await.expect("handed over");
    let late = op.complete(StoredResponse::new(201, "late").expect("valid")).await.expect_err("left behind");
    assert_eq!(late.kind(), idem_core::ErrorKind::ClaimLost);
    assert_eq!(send(&app, keyed("k")).await.text(), "answered");
}

#[tokio::test(start_paused = true)]
async fn the_services_own_error_is_returned_and_the_key_is_free() {
    use tower::{Layer as _, ServiceExt as _, service_fn};
    let bench = Bench::new();
    let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("planned by the test"));
    let service = bench.resumable().layer(failing);
    let error = service.oneshot(keyed("k")).await.expect_err("its own");
    assert_eq!(error, "planned by the test");
    assert_eq!(bench.state("k").await, "failed");
}

/// The gateway gave no answer: that is none to keep, and an opaque handler is not run again for it.
#[tokio::test(start_paused = true)]
async fn s10_a_handler_that_does_not_know_says_so_and_nothing_is_kept() {
    for (policy, state, later) in
        [(Policy::opaque(), "in_progress", "in-doubt"), (Policy::resumable(), "failed", "outcome-unknown")]
    {
        let bench = Bench::new();
        let counting = bench.clone();
        let handler = async move || {
            counting.run();
            Err::<Response, _>(Problem::outcome_unknown())
        };
        let app = Router::new().route("/charges", post(handler).layer(bench.layer(policy)));
        let got = send(&app, keyed("k")).await;
        assert_eq!((got.status, got.problem().as_str()), (503, "outcome-unknown"));
        assert_eq!(bench.state("k").await, state);
        bench.clock.advance(PAST_LEASE);
        assert_eq!(send(&app, keyed("k")).await.problem(), later);
        assert_eq!(bench.runs(), if later == "in-doubt" { 1 } else { 2 });
    }
}
