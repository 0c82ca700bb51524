//! What makes two requests the same over HTTP.

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request},
    routing::post,
};
use idem_core::Fingerprint;

use crate::bench::{Bench, Caller, send};

fn request(target: &str, content_type: &str, body: &str) -> Request<Body> {
    let request = Request::post(target).extension(Caller("acme")).header("idempotency-key", "k");
    request.header("content-type", content_type).body(body.to_owned().into()).expect("a request")
}

const JSON: &str = "application/json";

/// Sends both to a fresh app: was the second the same?
async fn is_same(first: (&str, &str, &str), second: (&str, &str, &str)) -> bool {
    let bench = Bench::new();
    let app = Router::new().fallback(post(async || "ran").layer(bench.resumable()));
    assert_eq!(send(&app, request(first.0, first.1, first.2)).await.status, 200);
    let got = send(&app, request(second.0, second.1, second.2)).await;
    assert_eq!(got.is_replay(), got.status == 200, "a replay or a refusal: {got:?}");
    if !got.is_replay() {
        assert_eq!((got.status, got.problem().as_str()), (422, "mismatch"));
    }
    got.is_replay()
}

#[tokio::test(start_paused = true)]
async fn a08_f02_another_path_query_type_or_body_is_another_request() {
    let first = ("/a?x=1", JSON, r#"{"amount":1}"#);
    for other in [
        ("/b?x=1", JSON, r#"{"amount":1}"#),
        ("/a/?x=1", JSON, r#"{"amount":1}"#),
        ("/a", JSON, r#"{"amount":1}"#),
        ("/a?x=2", JSON, r#"{"amount":1}"#),
        ("/a?x=1", "application/merge-patch+json", r#"{"amount":1}"#),
        ("/a?x=1", JSON, r#"{"amount":2}"#),
        ("/a?x=1", JSON, ""),
    ] {
        assert!(!is_same(first, other).await, "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn b078_the_query_counts_by_its_meaning() {
    let table = [
        ("/a?a=1&b=2", "/a?b=2&a=1", true),
        ("/a?q=a%20b", "/a?q=a+b", true),
        ("/a", "/a?", true),
        ("/a?dry=1", "/a", false),
        ("/a?a=1&a=2", "/a?a=2&a=1", false),
        ("/a?a", "/a?a=", false),
    ];
    for (first, second, same) in table {
        assert_eq!(is_same((first, JSON, "{}"), (second, JSON, "{}")).await, same, "{first} {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn f06_json_counts_by_its_value_and_the_rest_by_its_bytes() {
    let table = [
        (JSON, r#"{"a":1,"b":2}"#, r#"{ "b": 2.0, "a": 1 }"#, true),
        ("application/json; charset=utf-8", r#"{"a":1}"#, r#"{"a": 1}"#, true),
        (JSON, r#"{"account":9007199254740993}"#, r#"{"account":9007199254740992}"#, false),
        ("text/plain", "a b", "b a", false),
        ("application/x-www-form-urlencoded", "a=1&b=2", "b=2&a=1", true),
        (JSON, "{", "{", true),
    ];
    for (content_type, first, second, same) in table {
        assert_eq!(
            is_same(("/", content_type, first), ("/", content_type, second)).await,
            same,
            "{first} {second}"
        );
    }
    assert!(is_same(("/", JSON, "{}"), ("/", "application/json; charset=utf-8", "{}")).await);
}

#[tokio::test(start_paused = true)]
async fn f03_what_a_retry_may_change_does_not_count() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().ignore_query(["trace"]), |run| run.to_string());
    for n in ["1", "2"] {
        let request = Request::post(format!("/charges?trace={n}"))
            .extension(Caller("acme"))
            .header("idempotency-key", "k");
        let request = request
            .header("date", n)
            .header("traceparent", n)
            .header("user-agent", n)
            .header("authorization", n);
        assert_eq!(send(&app, request.body("{}".into()).expect("a request")).await.text(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn f20_decompression_belongs_outside_a_compressed_retry_is_another_request() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    let plain = request("/charges", JSON, r#"{"amount":1}"#);
    let mut compressed = request("/charges", JSON, "");
    compressed.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
    *compressed.body_mut() = vec![0x1f, 0x8b, 8, 0].into();
    assert_eq!(send(&app, plain).await.status, 200);
    assert_eq!(send(&app, compressed).await.problem(), "mismatch", "never a replay by mistake");
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn f21_a_route_can_say_itself_what_counts() {
    let bench = Bench::new();
    let layer = bench.resumable().fingerprint(|parts, body| {
        let order: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        Fingerprint::of("charge")
            .field("path", parts.uri.path())
            .field("order", order["order"].to_string())
            .finish()
    });
    let app = bench.app(layer, |run| run.to_string());
    let table =
        [(r#"{"order":7,"at":"9:00"}"#, 200), (r#"{"order":7,"at":"9:01"}"#, 200), (r#"{"order":8}"#, 422)];
    for (body, status) in table {
        assert_eq!(send(&app, request("/charges", JSON, body)).await.status, status, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn f19_a_pepper_changes_what_is_recorded() {
    let recorded = async |pepper: Option<&str>| {
        let bench = Bench::new();
        let layer = pepper.map_or_else(|| bench.resumable(), |pepper| bench.resumable().pepper(pepper));
        send(&bench.app(layer, |_| "ran"), request("/charges", JSON, "{}")).await;
        bench.record("k").await.expect("a record").fingerprint
    };
    let (none, one, two) = (recorded(None).await, recorded(Some("one")).await, recorded(Some("two")).await);
    assert!(none != one && one != two && none != two);
    assert_eq!(one, recorded(Some("one")).await);
}

#[tokio::test(start_paused = true)]
async fn a_nested_route_is_known_by_the_path_that_the_client_sent() {
    let bench = Bench::new();
    let route = || Router::new().route("/charges", post(async || "ran").layer(bench.resumable()));
    let app = Router::new().nest("/v1", route()).nest("/v2", route());
    assert_eq!(send(&app, request("/v1/charges", JSON, "{}")).await.status, 200);
    assert_eq!(send(&app, request("/v2/charges", JSON, "{}")).await.problem(), "mismatch");
    assert!(send(&app, request("/v1/charges", JSON, "{}")).await.is_replay());
}
