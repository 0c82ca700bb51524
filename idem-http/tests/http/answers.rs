//! The layer's own answers, and what they promise.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Uri, header},
    routing::post,
};
use bytes::Bytes;
use idem_conformance::Call;
use idem_core::{Policy, StoreErrorKind};
use idem_http::{MismatchStatus, Problem, Rejection};

use crate::bench::{Bench, PAST_LEASE, charge, keyed, send, status};

/// The first request of a key is held inside its handler while the others are sent.
async fn while_one_is_at_work(bench: &Bench, app: &Router, key: &str, then: impl AsyncFnOnce()) {
    let mut held = bench.store.hold(Call::Complete);
    let (got, ()) = tokio::join!(send(app, keyed(key)), async {
        held.arrived().await;
        then().await;
        held.release();
    });
    assert_eq!((got.status, got.is_replay()), (200, false));
}

#[tokio::test(start_paused = true)]
async fn e02_r10_a_request_in_progress_is_a_409_that_is_not_stored() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    while_one_is_at_work(&bench, &app, "k", async || {
        let got = send(&app, keyed("k")).await;
        assert_eq!((got.status, got.problem().as_str(), got.is_replay()), (409, "in-progress", false));
        let wait: u64 = got.header("retry-after").expect("a delay").parse().expect("seconds");
        assert!((1..=90).contains(&wait), "what is left of the lease: {wait}");
        assert!(!got.headers.contains_key("idempotent-replayed"));
    })
    .await;
    let got = send(&app, keyed("k")).await;
    assert_eq!((got.status, got.text(), got.is_replay()), (200, "1", true), "the real answer");
}

#[tokio::test(start_paused = true)]
async fn e03_e06_a_mismatch_says_nothing_of_the_first_request_and_comes_before_a_409() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "secret answer");
    let other = || {
        let request = charge().header("idempotency-key", "k").header("content-type", "text/plain");
        request.body("other".into()).expect("a request")
    };
    while_one_is_at_work(&bench, &app, "k", async || {
        assert_eq!(send(&app, other()).await.problem(), "mismatch", "in progress");
    })
    .await;
    let got = send(&app, other()).await;
    assert_eq!((got.status, got.problem().as_str()), (422, "mismatch"), "completed");
    assert!(!got.text().contains("secret") && !got.headers.contains_key("idempotent-replayed"));

    let conflict = bench.app(bench.resumable().mismatch_status(MismatchStatus::Conflict), |_| "");
    let got = send(&conflict, other()).await;
    assert_eq!((got.status, got.problem().as_str()), (409, "mismatch"));
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn e05_rejections_can_point_to_the_documentation() {
    let bench = Bench::new();
    let docs = Uri::from_static("https://shop.example/docs/keys");
    let app = bench.app(bench.resumable().required().described_by(&docs), |_| "ran");
    let got = send(&app, charge().body(Body::empty()).expect("a request")).await;
    assert_eq!(got.header("link"), Some("<https://shop.example/docs/keys>; rel=\"describedby\""));
    assert_eq!(send(&app, keyed("k")).await.header("link"), None);
}

#[tokio::test(start_paused = true)]
async fn e07_a_store_that_does_not_answer_a_claim_is_a_503_and_nothing_runs() {
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Corrupt, StoreErrorKind::Invalid] {
        let bench = Bench::new();
        let app = bench.app(bench.resumable(), |_| "ran");
        bench.store.fail(Call::Claim, kind);
        let got = send(&app, keyed("k")).await;
        let (status, problem) = match kind {
            StoreErrorKind::Unavailable => (503, "store-unavailable"),
            StoreErrorKind::Corrupt => (500, "corrupt"),
            _ => (500, "misconfigured"),
        };
        assert_eq!((got.status, got.problem().as_str()), (status, problem));
        assert_eq!(got.headers.contains_key("retry-after"), status == 503);
        assert_eq!(bench.runs(), 0);
        assert_eq!(send(&app, keyed("k")).await.text(), "ran", "it is not stored");
    }
}

#[tokio::test(start_paused = true)]
async fn e07_a_claim_that_cannot_be_settled_is_a_503_and_nothing_runs() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    for _ in 0..200 {
        bench.store.lose_reply(Call::Claim);
    }
    let got = send(&app, keyed("k")).await;
    assert_eq!((got.status, got.problem().as_str()), (503, "store-unavailable"));
    assert_eq!(bench.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn e08_an_answer_that_may_not_be_recorded_is_never_sent_as_a_success() {
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Unknown] {
        let bench = Bench::new();
        let app = bench.app(bench.opaque(), |_| "charged");
        for _ in 0..200 {
            bench.store.fail(Call::Complete, kind);
        }
        let got = send(&app, keyed("k")).await;
        assert_eq!((got.status, got.problem().as_str()), (503, "outcome-unknown"), "{kind:?}");
        assert!(got.headers.contains_key("retry-after"));
        assert_eq!(bench.state("k").await, "in_progress", "left for recovery");
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn e08_a_lost_reply_of_the_completion_is_settled_and_the_answer_sent() {
    let bench = Bench::new();
    let app = bench.app(bench.opaque(), |_| "charged");
    bench.store.lose_reply(Call::Complete);
    bench.store.lose_request(Call::Complete);
    let got = send(&app, keyed("k")).await;
    assert_eq!((got.status, got.text()), (200, "charged"));
    assert!(send(&app, keyed("k")).await.is_replay());
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn e02_a_slow_owner_that_lost_its_claim_is_told_to_ask_again() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    let mut held = bench.store.hold(Call::Complete);
    let (slow, fast) = tokio::join!(send(&app, keyed("k")), async {
        held.arrived().await;
        bench.clock.advance(PAST_LEASE);
        let fast = send(&app, keyed("k")).await;
        held.release();
        fast
    });
    assert_eq!((fast.status, fast.text()), (200, "2"), "took over and completed");
    assert_eq!((slow.status, slow.problem().as_str()), (409, "in-progress"));
    assert_eq!(slow.header("retry-after"), Some("1"));
    assert_eq!(send(&app, keyed("k")).await.text(), "2", "the stored answer is the winner's");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_in_doubt_is_a_409_with_a_longer_wait() {
    let bench = Bench::new();
    let app = bench.app(bench.opaque(), |_| -> &'static str { panic!("planned by the test") });
    assert_eq!(send(&app, keyed("k")).await.problem(), "outcome-unknown");
    bench.clock.advance(PAST_LEASE);
    let got = send(&app, keyed("k")).await;
    assert_eq!(
        (got.status, got.problem().as_str(), got.header("retry-after")),
        (409, "in-doubt", Some("120"))
    );
    assert!(matches!(got.rejection, Some(Rejection::InDoubt { .. })));
    assert_eq!(bench.runs(), 1, "it never runs again");
}

#[tokio::test(start_paused = true)]
async fn e11_b088_a_conflict_of_the_handlers_own_is_stored_and_told_apart() {
    let bench = Bench::new();
    let app =
        bench.app(bench.resumable(), |_| Problem::new(status(409), "Slot taken").kind("urn:shop:slot-taken"));
    let first = send(&app, keyed("k")).await;
    let again = send(&app, keyed("k")).await;
    assert_eq!((first.status, again.status, bench.runs()), (409, 409, 1));
    assert!(!first.is_replay() && again.is_replay());
    assert_eq!(first.body, again.body);
    assert!(again.text().contains("urn:shop:slot-taken"));
    assert_eq!(again.header("cache-control"), None, "not among the headers that are stored");
}

#[tokio::test(start_paused = true)]
async fn e14_e15_retention_and_exposed_headers_can_be_published() {
    let bench = Bench::new();
    let layer = bench.layer(Policy::resumable().retention(Duration::from_hours(48)));
    assert_eq!(layer.retention(), Duration::from_hours(48));
    assert_eq!(layer.exposed_headers(), ["idempotent-replayed", "retry-after"]);
    let echoing = layer.echo_key().marker(header::HeaderName::from_static("x-replayed"));
    assert_eq!(echoing.exposed_headers(), ["x-replayed", "retry-after", "idempotency-key"]);
}

#[tokio::test(start_paused = true)]
async fn b050_a_rejection_has_one_form_whatever_the_client_accepts() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    for accept in ["application/json", "text/html", "*/*;q=0"] {
        let request = charge().header("accept", accept).header("idempotency-key", "\"").body(Body::empty());
        assert_eq!(send(&app, request.expect("a request")).await.problem(), "malformed-key", "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn l14_a_policy_that_contradicts_itself_runs_nothing() {
    let bench = Bench::new();
    let app = bench.app(bench.layer(Policy::resumable().retention(Duration::from_secs(1))), |_| "ran");
    let never_ending = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = charge().header("idempotency-key", "k").body(never_ending).expect("a request");
    assert_eq!(send(&app, request).await.problem(), "misconfigured", "found before the body is read");
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_error_of_a_handler_leaks_nothing_and_frees_the_key() {
    async fn failing() -> Result<(), Problem> {
        Err(std::io::Error::other("password=hunter2").into())
    }
    let bench = Bench::new();
    let app = Router::new().route("/charges", post(failing).layer(bench.resumable()));
    let got = send(&app, keyed("k")).await;
    assert_eq!(got.status, 500);
    assert!(!got.text().contains("hunter2"));
    assert_eq!(bench.state("k").await, "failed");
}
