//! Requests that are stored, and finished without their client.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{Extensions, HeaderMap, Method, Uri, header},
    routing::post,
};
use bytes::Bytes;
use idem_core::{
    COMPLETE_GRACE, ClaimOutcome, ClaimRequest, Completer, Effect, Fingerprint, KeyId, KeyStore as _,
    MAX_SPAN, Policy, Report, Scope, StoredRequest, StoredResponse,
};
use idem_http::{IdempotencyLayer, Idempotent, Problem, Reply};

use crate::bench::{Bench, Caller, PAST_LEASE, charge, keyed, send};

const NOTHING: Report = Report { settled: 0, unsettled: 0, left: 0 };
const SETTLED: Report = Report { settled: 1, ..NOTHING };
const UNSETTLED: Report = Report { unsettled: 1, ..NOTHING };
const LEFT: Report = Report { left: 1, ..NOTHING };

/// What a handler saw of a request.
#[derive(Clone, Debug, PartialEq)]
struct Sight {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    id: String,
    body: Bytes,
    scope: String,
    provider_key: String,
}

type Sights = Arc<Mutex<Vec<Sight>>>;

/// Calls a provider whose first answer is lost.
async fn handler(
    State(sights): State<Sights>,
    Path(id): Path<String>,
    Idempotent(mut op): Idempotent,
    request: Request,
) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    let sight = Sight {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        id,
        body: axum::body::to_bytes(body, 1 << 20).await.expect("a whole body"),
        scope: op.id().scope().as_str().to_owned(),
        provider_key: String::new(),
    };
    let charge = async |key: idem_core::ProviderKey| {
        let mut sights = sights.lock().expect("no panic inside");
        sights.push(Sight { provider_key: key.hex(), ..sight.clone() });
        if sights.len() == 1 { Err(std::io::Error::other("the connection broke").into()) } else { Ok(7_u64) }
    };
    let charge = op.effect("charge", Effect::keyed(Duration::from_hours(24)), charge).await?;
    let answer =
        StoredResponse::json(201, &charge)?.header("location", "/charges/7").header("set-cookie", "a=b");
    Ok(op.complete(answer).await?.into())
}

fn routes(sights: &Sights) -> Router {
    Router::new().route("/orders/{id}/charge", post(handler)).with_state(Arc::clone(sights))
}

fn completer(bench: &Bench, layer: &IdempotencyLayer, service: Router) -> Completer {
    Completer::new(bench.store.clone(), bench.engine.clone())
        .handle_with("charges", layer.complete_with::<Body, _>(service))
}

async fn pass(completer: &Completer) -> Report {
    completer.pass().await.expect("no fault is planned")
}

fn order(key: &str, body: impl Into<Body>) -> Request {
    let request = charge().uri("/v1/orders/12%2F7/charge?notify=1").header("idempotency-key", key);
    let request = request
        .header("content-type", "application/json")
        .header("accept-language", "de")
        .header("authorization", "Bearer t0p")
        .header("cookie", "session=s3cret")
        .header("x-request-id", "42")
        .header("x-version", "2026-12-01");
    request.body(body.into()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn t17_t11_an_abandoned_request_is_finished_as_it_came_and_its_client_gets_that_answer() {
    let (bench, sights) = (Bench::new(), Sights::default());
    let layer =
        bench.resumable().complete_header("x-version".parse().expect("a name")).completable("charges");
    let nested = |routes| Router::new().nest("/v1", routes);
    let app = nested(routes(&sights).route_layer(layer.clone()));
    let body = "{\"amount\": 500,\"amount\":5e2}";
    assert_eq!(send(&app, order("k", body)).await.status, 503, "its provider's answer was lost");
    bench.clock.advance(COMPLETE_GRACE);
    let completer = completer(&bench, &layer, nested(routes(&sights)));
    assert_eq!(pass(&completer).await, SETTLED);

    let late = send(&app, order("k", body)).await;
    assert!(late.status == 201 && late.is_replay() && late.text() == "7", "{late:?}");
    assert_eq!((late.header("location"), late.header("set-cookie")), (Some("/charges/7"), None));
    let sights = sights.lock().expect("no panic inside").clone();
    let [client, again] = &*sights else { panic!("two runs: {sights:?}") };
    let mut expected = client.clone();
    for gone in ["authorization", "cookie", "x-request-id", "idempotency-key"] {
        assert!(expected.headers.remove(gone).is_some(), "{gone}");
    }
    assert_eq!(*again, expected);
    assert_eq!((&*again.id, &*again.scope), ("12/7", "acme"));
    assert_eq!((&again.method, again.uri.path()), (&Method::POST, "/orders/12%2F7/charge"));
    assert_eq!(again.headers[header::CONTENT_TYPE], "application/json");
}

#[tokio::test(start_paused = true)]
async fn t19_what_is_not_stored_runs_as_ever_and_is_only_reported() {
    let large = "x".repeat(StoredRequest::MAX_DATA);
    for (layer, body) in [
        (Bench::resumable as fn(&Bench) -> IdempotencyLayer, "{}".to_owned()),
        (|bench| bench.resumable().completable("charges"), large),
    ] {
        let (bench, sights) = (Bench::new(), Sights::default());
        let layer = layer(&bench);
        let app = Router::new().nest("/v1", routes(&sights).route_layer(layer.clone()));
        assert_eq!(send(&app, order("k", body.clone())).await.status, 503);
        assert_eq!(bench.record("k").await.expect("there is a record").request, None);
        bench.clock.advance(COMPLETE_GRACE);
        let completer = completer(&bench, &layer, routes(&sights));
        assert_eq!(pass(&completer).await, LEFT);
        assert_eq!(send(&app, order("k", body)).await.status, 201, "its client can");
    }
}

#[tokio::test(start_paused = true)]
async fn t19_what_was_asked_for_is_kept_until_the_answer_is_there() {
    let bench = Bench::new();
    let layer = bench.resumable().completable("charges");
    let app =
        bench.app(layer, |run| if run == 1 { crate::bench::status(503) } else { crate::bench::status(200) });
    assert_eq!(send(&app, keyed("k")).await.status, 503);
    let record = bench.record("k").await.expect("there is a record");
    assert_eq!((record.state.name(), record.request.is_some()), ("failed", true));
    assert_eq!(send(&app, keyed("k")).await.status, 200);
    assert_eq!(bench.record("k").await.expect("there is a record").request, None);
}

#[tokio::test(start_paused = true)]
async fn t19_a_route_whose_name_is_none_is_a_wiring_fault() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().completable(""), |_| "charged");
    let answer = send(&app, keyed("k")).await;
    assert_eq!((answer.status, bench.runs(), bench.state("k").await), (500, 0, "none"));
}

/// Claims as a process that is gone since, with these bytes for a request.
async fn abandoned(bench: &Bench, data: &'static [u8]) {
    let id = KeyId::new(Scope::new("acme").expect("valid"), "k".parse().expect("valid"));
    let same = Fingerprint::of("test").body(data).finish();
    let request = ClaimRequest::new(id, same, Duration::from_secs(90), MAX_SPAN).expect("valid");
    let request = request.with_request(StoredRequest::new("charges", data).expect("valid"));
    assert!(matches!(bench.store.claim(&request).await, Ok(ClaimOutcome::Claimed(_))));
    bench.clock.advance(PAST_LEASE + COMPLETE_GRACE);
}

/// `POST /charges` as it is stored.
const STORED: &[u8] = b"\x01\0\0\0\x04POST\0\0\0\x08/charges\0\0\0\0{}";

#[tokio::test(start_paused = true)]
async fn t19_a_request_of_a_newer_encoding_is_left_as_it_is() {
    let bench = Bench::new();
    abandoned(&bench, b"\x02of a newer process").await;
    let before = bench.record("k").await;
    let layer = bench.resumable().completable("charges");
    let completer = completer(&bench, &layer, Router::new());
    assert_eq!(pass(&completer).await, UNSETTLED);
    assert_eq!(bench.record("k").await, before, "not even claimed");
}

#[tokio::test(start_paused = true)]
async fn t17_a_black_box_that_never_began_is_finished_and_its_answer_kept_by_the_same_rules() {
    let bench = Bench::new();
    abandoned(&bench, STORED).await;
    let layer = bench.layer(Policy::opaque()).completable("charges");
    let seen = Arc::new(Mutex::new(None));
    let saw = Arc::clone(&seen);
    let handler = async move |extensions: Extensions, body: String| {
        *saw.lock().expect("no panic inside") = Some((extensions.get::<Caller>().is_some(), body));
        (
            crate::bench::status(500),
            [("content-type", "text/plain"), ("set-cookie", "a=b"), ("x-other", "c")],
            "no",
        )
    };
    let completer = completer(&bench, &layer, Router::new().route("/charges", post(handler)));
    assert_eq!(pass(&completer).await, SETTLED, "a black box's answer is always kept");
    assert_eq!(
        *seen.lock().expect("no panic inside"),
        Some((false, "{}".to_owned())),
        "its caller is not there"
    );
    let record = bench.record("k").await.expect("there is a record");
    let idem_core::State::Completed { response, .. } = record.state else { panic!("{record:?}") };
    assert_eq!(
        (response.status(), response.headers()),
        (500, &[("content-type".to_owned(), "text/plain".into())][..])
    );
}

#[tokio::test(start_paused = true)]
async fn t18_a_service_with_the_layer_around_it_answers_nothing_that_is_kept() {
    let bench = Bench::new();
    abandoned(&bench, STORED).await;
    let layer = bench.resumable().completable("charges");
    let twice = bench.app(layer.clone(), |_| "charged");
    let completer = completer(&bench, &layer, twice);
    assert_eq!((pass(&completer).await, bench.runs()), (UNSETTLED, 0));
    assert_ne!(bench.state("k").await, "completed");
}
