//! What is stored of an answer, and what comes back.

use std::convert::Infallible;

use axum::{
    Extension, Json, Router,
    body::Body,
    http::{HeaderName, HeaderValue, Request, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Redirect, Response},
    routing::post,
};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use idem_core::StoredResponse;
use idem_http::{Idempotent, Problem, Reply, stored};
use proptest::prelude::*;
use tower::ServiceExt as _;

use crate::bench::{Bench, keyed, send};

/// The first answer and the replay of it.
async fn twice(app: &Router) -> (crate::bench::Got, crate::bench::Got) {
    let first = send(app, keyed("k")).await;
    let again = send(app, keyed("k")).await;
    assert!(!first.headers.contains_key("idempotent-replayed"), "r08: a first answer carries no marker");
    assert!(again.is_replay());
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    (first, again)
}

#[tokio::test(start_paused = true)]
async fn r01_r08_b048_every_kind_of_answer_is_replayed_byte_for_byte() {
    type Answer = fn() -> Response;
    let answers: [(&str, Answer); 12] = [
        ("unit", || ().into_response()),
        ("text", || "text\n".to_owned().into_response()),
        ("json", || Json(serde_json::json!({"b": 1e2, "a": [0, false, "", null]})).into_response()),
        ("html", || Html("<p>").into_response()),
        ("bytes", || Bytes::from_static(b"\x00\xff\xfe").into_response()),
        ("redirect", || Redirect::to("/elsewhere").into_response()),
        ("error", || (StatusCode::UNPROCESSABLE_ENTITY, "no").into_response()),
        ("null", || Json(()).into_response()),
        ("created", || (StatusCode::CREATED, [(header::LOCATION, "/charges/7")], "made").into_response()),
        ("no content", || StatusCode::NO_CONTENT.into_response()),
        ("not modified", || StatusCode::NOT_MODIFIED.into_response()),
        ("spaced json", || {
            ([(header::CONTENT_TYPE, "application/json")], "{ \"a\" : 1,\"a\":2 }\r\n").into_response()
        }),
    ];
    for (name, answer) in answers {
        let bench = Bench::new();
        let (first, again) = twice(&bench.app(bench.resumable(), move |_| answer())).await;
        for kept in ["content-type", "location"] {
            assert_eq!(first.header(kept), again.header(kept), "{name}");
        }
        assert_eq!(bench.runs(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn r03_b092_nothing_and_null_are_answers_and_differ() {
    for (code, body) in [(204, ""), (200, ""), (200, "null"), (200, "0"), (200, "false"), (200, "[]")] {
        let bench = Bench::new();
        let (first, _) =
            twice(&bench.app(bench.resumable(), move |_| (crate::bench::status(code), body))).await;
        assert_eq!((first.status, first.text()), (code, body));
        assert_eq!(bench.runs(), 1);
    }
}

const OF_ONE_EXCHANGE: [(&str, &str); 12] = [
    ("set-cookie", "session=1"),
    ("www-authenticate", "Basic"),
    ("date", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("connection", "close"),
    ("ratelimit-remaining", "3"),
    ("x-ratelimit-reset", "1"),
    ("retry-after", "7"),
    ("access-control-allow-origin", "*"),
    ("x-request-id", "r1"),
    ("traceparent", "00-1"),
    ("x-unknown", "u"),
    ("cache-control", "private"),
];

const OF_THE_ANSWER: [(&str, &str); 8] = [
    ("content-type", "text/csv"),
    ("content-language", "de"),
    ("content-encoding", "br"),
    ("location", "/charges/7"),
    ("content-location", "/charges/7.csv"),
    ("etag", "\"v1\""),
    ("last-modified", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("link", "</terms>; rel=\"terms-of-service\""),
];

fn with_all_headers() -> Response {
    let mut response = "a,b".into_response();
    for (name, value) in OF_ONE_EXCHANGE.into_iter().chain(OF_THE_ANSWER) {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[tokio::test(start_paused = true)]
async fn r04_r05_b044_headers_of_the_answer_are_replayed_and_those_of_the_exchange_are_not() {
    let bench = Bench::new();
    // Asking for them to be kept does not help.
    let layer = OF_ONE_EXCHANGE
        .into_iter()
        .filter(|(name, _)| !["x-unknown", "cache-control"].contains(name))
        .fold(bench.resumable(), |layer, (name, _)| layer.keep_header(HeaderName::from_static(name)));
    let (first, again) = twice(&bench.app(layer, |_| with_all_headers())).await;
    for (name, value) in OF_THE_ANSWER {
        assert_eq!((first.header(name), again.header(name)), (Some(value), Some(value)), "{name}");
    }
    for (name, value) in OF_ONE_EXCHANGE {
        assert_eq!((first.header(name), again.header(name)), (Some(value), None), "{name}");
    }
    let more: Vec<_> = again
        .headers
        .keys()
        .map(HeaderName::as_str)
        .filter(|name| !OF_THE_ANSWER.iter().any(|(kept, _)| kept == name))
        .collect();
    assert_eq!(more, ["idempotent-replayed", "content-length"], "the marker, and a length that axum counts");
    assert_eq!(again.header("content-length"), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn r04_a_configured_header_is_replayed() {
    let bench = Bench::new();
    let layer = bench.resumable().keep_header(HeaderName::from_static("x-unknown"));
    let (_, again) = twice(&bench.app(layer, |_| with_all_headers())).await;
    assert_eq!(again.header("x-unknown"), Some("u"));
}

#[tokio::test(start_paused = true)]
async fn r07_lines_of_one_name_keep_order_count_and_bytes() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        let mut response = "x".into_response();
        for value in [&b"<a>"[..], b"<b>, <c>", b"", b"<\xfc>"] {
            response.headers_mut().append(header::LINK, HeaderValue::from_bytes(value).expect("valid"));
        }
        response
    });
    let (first, again) = twice(&app).await;
    let lines =
        |got: &crate::bench::Got| got.headers.get_all(header::LINK).iter().cloned().collect::<Vec<_>>();
    assert_eq!(lines(&first).len(), 4);
    assert_eq!(lines(&first), lines(&again));
}

#[tokio::test(start_paused = true)]
async fn r09_the_marker_can_be_renamed_and_a_handler_cannot_forge_it() {
    let bench = Bench::new();
    let marker = HeaderName::from_static("idempotency-replayed");
    let app = bench.app(bench.resumable().marker(marker.clone()).keep_header(marker), |_| {
        ([("idempotency-replayed", "true")], "x")
    });
    assert_eq!(send(&app, keyed("k")).await.header("idempotency-replayed"), None);
    let again = send(&app, keyed("k")).await;
    assert_eq!(again.headers.get_all("idempotency-replayed").iter().count(), 1);
    assert_eq!(again.header("idempotent-replayed"), None);
}

#[tokio::test(start_paused = true)]
async fn b042_a_replay_is_not_negotiated_again() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| Json(serde_json::json!({"a": 1})));
    let accepting = |accept: Option<&'static str>| {
        let mut request = keyed("k");
        if let Some(accept) = accept {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        request
    };
    for accept in [Some("application/json"), Some("text/xml"), None, Some("*/*;q=0")] {
        let got = send(&app, accepting(accept)).await;
        assert_eq!(
            (got.header("content-type"), got.text()),
            (Some("application/json"), r#"{"a":1}"#),
            "{accept:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r15_b072_a_replay_is_subject_to_todays_rights() {
    let bench = Bench::new();
    // Authentication is further out: it does not know of keys.
    let app = bench.app(bench.resumable(), |_| "secret").layer(middleware::from_fn(
        async |request: Request<Body>, next: Next| {
            if request.headers().contains_key("revoked") {
                return StatusCode::FORBIDDEN.into_response();
            }
            next.run(request).await
        },
    ));
    let mut revoked = keyed("k");
    revoked.headers_mut().insert("revoked", HeaderValue::from_static("1"));
    assert_eq!(send(&app, keyed("k")).await.text(), "secret");
    let got = send(&app, revoked).await;
    assert_eq!((got.status, got.text()), (403, ""));
}

#[tokio::test(start_paused = true)]
async fn a07_what_is_refused_further_out_is_never_stored() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "charged").layer(middleware::from_fn(
        async |request: Request<Body>, next: Next| {
            if request.headers().contains_key("authorization") {
                next.run(request).await
            } else {
                StatusCode::UNAUTHORIZED.into_response()
            }
        },
    ));
    assert_eq!(send(&app, keyed("k")).await.status, 401);
    let mut authorised = keyed("k");
    authorised.headers_mut().insert("authorization", HeaderValue::from_static("Bearer x"));
    assert_eq!(send(&app, authorised).await.text(), "charged");
}

#[tokio::test(start_paused = true)]
async fn an_end_by_the_handler_is_sent_with_the_cookies_of_its_reply() {
    let bench = Bench::new();
    let handler = async |Idempotent(op): Idempotent| -> Result<_, Problem> {
        let answer = StoredResponse::json(201, "paid")?
            .header("location", "/charges/7")
            .header("set-cookie", "never=stored");
        let reply: Reply = op.complete(answer).await?.into();
        Ok(([(header::SET_COOKIE, "session=1")], reply))
    };
    let app = Router::new().route("/charges", post(handler).layer(bench.resumable()));
    let (first, again) = twice(&app).await;
    assert_eq!(
        (first.status, first.text(), first.header("location")),
        (201, r#""paid""#, Some("/charges/7"))
    );
    assert_eq!((first.header("set-cookie"), again.header("set-cookie")), (Some("session=1"), None));
    assert_eq!(first.header("content-type"), Some("application/json"));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_tells_the_layers_further_out_reaches_them() {
    #[derive(Clone)]
    struct Note(&'static str);
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| (Extension(Note("told")), "x"));
    let response = app.oneshot(keyed("k")).await.expect("infallible");
    assert_eq!(response.extensions().get::<Note>().map(|note| note.0), Some("told"));
}

/// Stands for a compression layer: "encodes" for clients that accept it.
async fn compress(request: Request<Body>, next: Next) -> Response {
    let accepts = request.headers().contains_key(header::ACCEPT_ENCODING);
    let mut response = next.run(request).await;
    if accepts {
        let plain = std::mem::take(response.body_mut()).collect().await.expect("in memory").to_bytes();
        *response.body_mut() = plain.iter().rev().copied().collect::<Vec<_>>().into();
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("reversed"));
    }
    response
}

#[tokio::test(start_paused = true)]
async fn w02_b046_compression_further_out_encodes_each_retry_as_it_asks() {
    let accepting = || {
        let mut request = keyed("k");
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("reversed"));
        request
    };
    let bench = Bench::new();
    let outside = bench.app(bench.resumable(), |_| "abc").layer(middleware::from_fn(compress));
    assert_eq!(send(&outside, accepting()).await.text(), "cba");
    let plain = send(&outside, keyed("k")).await;
    assert_eq!((plain.text(), plain.header("content-encoding"), plain.is_replay()), ("abc", None, true));

    // Further in, a client that did not ask for it gets the first client's encoding: announced, but not its choice.
    let bench = Bench::new();
    let route =
        post(async || "abc").layer::<_, Infallible>(middleware::from_fn(compress)).layer(bench.resumable());
    let inside = Router::new().route("/charges", route);
    assert_eq!(send(&inside, accepting()).await.text(), "cba");
    let replay = send(&inside, keyed("k")).await;
    assert_eq!((replay.text(), replay.header("content-encoding")), ("cba", Some("reversed")));
}

#[tokio::test(start_paused = true)]
async fn b046_an_answer_encoded_further_in_is_stored_with_its_encoding() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        ([(header::CONTENT_ENCODING, "gzip")], Bytes::from_static(&[0x1f, 0x8b, 0, 0xff]))
    });
    let (first, again) = twice(&app).await;
    assert_eq!(
        (first.header("content-encoding"), again.header("content-encoding")),
        (Some("gzip"), Some("gzip"))
    );
}

struct Unserialisable;
impl serde::Serialize for Unserialisable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("planned by the test"))
    }
}

#[test]
fn stored_takes_what_is_in_memory_and_refuses_the_rest() {
    let made = stored((StatusCode::CREATED, [(header::LOCATION, "/7")], Html("<p>"))).expect("in memory");
    assert_eq!((made.status(), &made.body()[..]), (201, &b"<p>"[..]));
    assert!(made.headers().iter().any(|(name, value)| name == "location" && value == "/7"));

    assert!(stored(Json(Unserialisable)).is_err(), "it would be the answer for ever");
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("ready"));
    assert!(stored(Response::new(Body::from_stream(endless))).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn r02_any_bytes_under_any_final_status_come_back(
        code in prop_oneof![200_u16..=407, 409_u16..=424, 430_u16..=499],
        body in prop::collection::vec(any::<u8>(), 0..200),
        link in prop::collection::vec("[ -~]{0,12}", 0..3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let bench = Bench::new();
            let (bytes, lines) = (Bytes::from(body.clone()), link.clone());
            let app = bench.app(bench.resumable(), move |_| {
                let mut response = (crate::bench::status(code), bytes.clone()).into_response();
                for line in &lines {
                    response.headers_mut().append(header::LINK, HeaderValue::from_str(line).expect("visible"));
                }
                response
            });
            let (first, again) = twice(&app).await;
            assert_eq!(first.body, body);
            let of = |got: &crate::bench::Got| got.headers.get_all(header::LINK).iter().cloned().collect::<Vec<_>>();
            assert_eq!(of(&first), link.iter().map(|line| HeaderValue::from_str(line).expect("visible")).collect::<Vec<_>>());
            assert_eq!(of(&first), of(&again));
        });
    }
}
