//! Faults in how a service is put together, and what axum's two ways of layering do.

use std::convert::Infallible;

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, Uri},
    routing::{any, post},
};
use idem_conformance::Call;
use idem_http::{Idempotent, Rejection};

use crate::bench::{Bench, Caller, charge, keyed, send};

async fn takes(Idempotent(op): Idempotent) -> String {
    op.fence().token.to_string()
}

async fn may_take(op: Option<Idempotent>) -> &'static str {
    if op.is_some() { "some" } else { "none" }
}

fn unkeyed(method: Method) -> Request<Body> {
    charge().method(method).body(Body::empty()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn two_layers_over_one_route_are_found_with_the_first_request() {
    let bench = Bench::new();
    let twice = post(async || "ran").layer::<_, Infallible>(bench.resumable()).layer(bench.resumable());
    let app = Router::new().route("/charges", twice);
    for request in [keyed("k"), unkeyed(Method::POST)] {
        let got = send(&app, request).await;
        assert_eq!((got.status, got.problem().as_str()), (500, "layered-twice"));
        assert_eq!(got.rejection, Some(Rejection::LayeredTwice));
    }
    assert_eq!(bench.state("k").await, "failed", "what the outer layer claimed is free again");
}

#[tokio::test(start_paused = true)]
async fn two_layers_for_different_methods_are_no_fault() {
    let bench = Bench::new();
    let route = any(may_take)
        .layer::<_, Infallible>(bench.resumable().methods([Method::POST]))
        .layer(bench.resumable().methods([Method::PUT]));
    let app = Router::new().route("/charges", route);
    for method in [Method::POST, Method::PUT] {
        let request =
            charge().method(method.clone()).header("idempotency-key", method.as_str()).body(Body::empty());
        assert_eq!(send(&app, request.expect("a request")).await.text(), "some", "{method}");
    }
    assert_eq!(send(&app, unkeyed(Method::POST)).await.text(), "none");
    assert_eq!(send(&app, unkeyed(Method::GET)).await.text(), "none");
}

#[tokio::test(start_paused = true)]
async fn an_operation_needs_a_layer() {
    let app = Router::new().route("/charges", post(takes).put(may_take));
    for request in [keyed("k"), unkeyed(Method::PUT)] {
        let got = send(&app, request).await;
        assert_eq!((got.status, got.problem().as_str()), (500, "not-layered"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_needs_a_layer_that_covers_its_method() {
    let bench = Bench::new();
    let app = Router::new().route("/charges", any(takes).layer(bench.resumable()));
    let got = send(&app, unkeyed(Method::DELETE)).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "not-layered"));
}

#[tokio::test(start_paused = true)]
async fn a02_a_handler_that_takes_the_operation_requires_a_key() {
    let bench = Bench::new();
    let docs = Uri::from_static("/docs");
    let app = Router::new().route("/charges", post(takes).layer(bench.resumable().described_by(&docs)));
    let got = send(&app, unkeyed(Method::POST)).await;
    assert_eq!((got.status, got.problem().as_str()), (400, "missing-key"));
    assert!(got.headers.contains_key("link"), "as the layer's own rejections");
    assert_eq!(send(&app, keyed("k")).await.text(), "1");
}

#[tokio::test(start_paused = true)]
async fn w07_an_optional_operation_does_not_require_a_key() {
    let bench = Bench::new();
    let app = Router::new().route("/charges", post(may_take).layer(bench.resumable()));
    assert_eq!(send(&app, unkeyed(Method::POST)).await.text(), "none");
    assert_eq!(send(&app, keyed("k")).await.text(), "some");
    assert_eq!(bench.store.seen(Call::Claim), 1);
}

#[tokio::test(start_paused = true)]
async fn r10_an_operation_is_taken_once_and_the_fault_is_not_stored() {
    let bench = Bench::new();
    let app_of = |layer| {
        Router::new().route("/charges", post(async |_: Idempotent, _: Idempotent| "never").layer(layer))
    };
    let got = send(&app_of(bench.resumable()), keyed("r")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "taken-twice"));
    assert_eq!(bench.state("r").await, "failed");
    let got = send(&app_of(bench.opaque()), keyed("o")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "taken-twice"));
    assert_eq!(bench.state("o").await, "in_progress", "opaque: left, in doubt later");
}

#[tokio::test(start_paused = true)]
async fn router_layer_would_claim_unknown_paths_and_route_layer_does_not() {
    let missing = || {
        let request = Request::post("/nowhere").extension(Caller("acme")).header("idempotency-key", "k");
        request.body(Body::empty()).expect("a request")
    };
    let bench = Bench::new();
    let routes = Router::new().route("/charges", post(async || "ran"));
    let wide = routes.clone().layer(bench.resumable());
    assert_eq!(send(&wide, missing()).await.status, StatusCode::NOT_FOUND);
    assert!(send(&wide, missing()).await.is_replay(), "the 404 is pinned: documented");

    let bench = Bench::new();
    let narrow = routes.route_layer(bench.resumable());
    assert_eq!(send(&narrow, missing()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(bench.store.seen(Call::Claim), 0);
    assert_eq!(send(&narrow, keyed("k")).await.text(), "ran");
    assert!(send(&narrow, keyed("k")).await.is_replay());
}
