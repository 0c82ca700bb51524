//! Bodies over a limit, without an end, or cut short.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Request, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited, StreamBody};
use idem_conformance::Call;
use idem_core::Policy;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::bench::{Bench, Got, charge, keyed, poll_once, read, send};

type Chunk = Result<Frame<Bytes>, std::io::Error>;

#[expect(clippy::unnecessary_wraps, reason = "an item of a stream that may break")]
fn data(bytes: impl Into<Bytes>) -> Chunk {
    Ok(Frame::data(bytes.into()))
}

fn broken() -> Chunk {
    Err(std::io::Error::other("planned by the test"))
}

fn streamed(chunks: impl Stream<Item = Chunk> + Send + 'static) -> Body {
    Body::new(StreamBody::new(chunks))
}

fn sending(body: Body) -> Request<Body> {
    charge().header("idempotency-key", "k").body(body).expect("a request")
}

fn assert_tombstone(got: &Got, original: u16) {
    assert_eq!((got.status, got.problem().as_str(), got.is_replay()), (409, "response-not-kept", true));
    let document: serde_json::Value = serde_json::from_slice(&got.body).expect("json");
    assert_eq!(document["original_status"], original);
}

#[tokio::test(start_paused = true)]
async fn e12_b058_a_request_body_over_the_limit_is_a_413_before_the_claim() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().max_request(8), |_| "ran");
    let endless = stream::repeat_with(|| data("1234"));
    for body in
        [Body::from("123456789"), streamed(stream::iter([data("12345"), data("6789")])), streamed(endless)]
    {
        let got = send(&app, sending(body)).await;
        assert_eq!((got.status, got.problem().as_str()), (413, "body-too-large"));
        assert!(got.text().contains("at most 8 bytes"));
    }
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
    assert_eq!(send(&app, sending("12345678".into())).await.text(), "ran");
    let unkeyed = charge().body("123456789".into()).expect("a request");
    assert_eq!(send(&app, unkeyed).await.text(), "ran", "without a key nothing is buffered");
}

#[tokio::test(start_paused = true)]
async fn e12_a_limit_further_out_is_a_413_too() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    let limited = Body::new(Limited::new(Body::from("123456789"), 8));
    assert_eq!(send(&app, sending(limited)).await.problem(), "body-too-large");
    assert_eq!(bench.store.seen(Call::Claim), 0);
}

#[tokio::test(start_paused = true)]
async fn e13_an_incomplete_request_makes_no_claim() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    let got = send(&app, sending(streamed(stream::iter([data("{"), broken()])))).await;
    assert_eq!((got.status, got.problem().as_str()), (400, "incomplete-body"));
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn w05_the_handler_reads_the_bytes_that_were_sent_without_trailers() {
    let bench = Bench::new();
    let echo = axum::routing::post(async |body: Body| {
        let collected = body.collect().await.expect("in memory");
        let trailers = collected.trailers().is_some();
        (trailers.to_string() + ":").into_bytes().into_iter().chain(collected.to_bytes()).collect::<Vec<u8>>()
    });
    let app = axum::Router::new().route("/charges", echo.layer(bench.resumable()));
    let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("x"))]);
    let body = streamed(stream::iter([
        data(&b"\x00\xff"[..]),
        data(""),
        data("{ }"),
        Ok(Frame::trailers(trailers)),
    ]));
    assert_eq!(&send(&app, sending(body)).await.body[..], b"false:\x00\xff{ }");
}

#[tokio::test(start_paused = true)]
async fn r11_an_answer_over_the_limit_is_sent_whole_once() {
    for chunk in [1_usize, 700, 4_096] {
        let bench = Bench::new();
        let layer = bench.layer(Policy::resumable().max_response(1_024));
        let app = bench.app(layer, move |_| {
            Response::new(streamed(stream::iter((0..=2_048 / chunk).map(move |_| data(vec![b'x'; chunk])))))
        });
        let first = send(&app, keyed("k")).await;
        assert_eq!((first.status, first.is_replay(), first.whole), (200, false, true));
        assert_eq!(first.body.len(), (2_048 / chunk + 1) * chunk, "the whole answer");
        assert_tombstone(&send(&app, keyed("k")).await, 200);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn b058_of_an_endless_answer_no_more_than_the_limit_is_held() {
    let bench = Bench::new();
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulled);
    let app = bench.app(bench.layer(Policy::resumable().max_response(1_024)), move |_| {
        let count = Arc::clone(&count);
        Response::new(streamed(stream::repeat_with(move || {
            count.fetch_add(100, Ordering::SeqCst);
            data(vec![b'x'; 100])
        })))
    });
    let response = app.clone().oneshot(keyed("k")).await.expect("infallible");
    assert_eq!(pulled.load(Ordering::SeqCst), 1_100, "the chunk that goes over it is the last");
    drop(response);
    assert_tombstone(&send(&app, keyed("k")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn r11_the_limit_counts_kept_headers_and_body() {
    let bench = Bench::new();
    let layer = || bench.layer(Policy::resumable().max_response(20));
    // location: 8 + 2 bytes, so 10 are left.
    let of = |body: &'static str| {
        move |_| {
            Response::builder()
                .header("location", "/7")
                .header("x-other", "not kept")
                .body(Body::from(body))
                .expect("valid")
        }
    };
    let fits = bench.app(layer(), of("0123456789"));
    assert_eq!(send(&fits, keyed("fits")).await.text(), "0123456789");
    assert_eq!(send(&fits, keyed("fits")).await.text(), "0123456789");
    let over = bench.app(layer(), of("0123456789a"));
    assert_eq!(send(&over, keyed("over")).await.text(), "0123456789a");
    assert_tombstone(&send(&over, keyed("over")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn r11_the_tombstone_is_committed_before_the_first_byte_leaves() {
    let bench = Bench::new();
    let app = bench.app(bench.layer(Policy::resumable().max_response(4)), |_| "12345");
    let mut held = bench.store.hold(Call::Complete);
    let mut first = Box::pin(send(&app, keyed("k")));
    tokio::select! {
        biased;
        () = held.arrived() => {}
        _ = &mut first => unreachable!("nothing is sent before the commit"),
    }
    assert!(poll_once(&mut first).await.is_pending());
    held.release();
    assert_eq!(first.await.text(), "12345");
}

#[tokio::test(start_paused = true)]
async fn r12_b054_an_event_stream_is_never_buffered() {
    let bench = Bench::new();
    let (feed, mut coming) = tokio::sync::mpsc::unbounded_channel();
    let events = stream::poll_fn(move |cx| coming.poll_recv(cx));
    let events = Arc::new(Mutex::new(Some(events)));
    let app = bench.app(bench.resumable(), move |_| {
        let events = events.lock().expect("one thread").take().expect("one run");
        Response::builder()
            .header("content-type", "Text/Event-Stream; charset=utf-8")
            .body(streamed(events))
            .expect("valid")
    });
    let asked = Instant::now();
    let response = app.clone().oneshot(keyed("k")).await.expect("infallible");
    assert_eq!(asked.elapsed(), Duration::ZERO, "nothing is waited for");
    assert_eq!(bench.state("k").await, "completed", "with the tombstone, before the first event");
    let mut body = response.into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        feed.send(data(event)).expect("listening");
        let frame = body.frame().await.expect("an event").expect("whole");
        assert_eq!(frame.into_data().expect("data"), event, "each event leaves as it comes");
    }
    assert_tombstone(&send(&app, keyed("k")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn r12_a_slow_endless_body_is_given_up_on_and_sent() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().buffer_within(Duration::from_secs(5)), |_| {
        Response::new(streamed(stream::iter([data("first")]).chain(stream::pending())))
    });
    let response = app.clone().oneshot(keyed("k")).await.expect("infallible");
    let mut body = response.into_body();
    assert_eq!(body.frame().await.expect("a frame").expect("whole").into_data().expect("data"), "first");
    assert!(poll_once(&mut Box::pin(body.frame())).await.is_pending(), "the rest is still to come");
    assert_tombstone(&send(&app, keyed("k")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn r13_b056_a_body_that_breaks_off_is_aborted_and_not_taken_for_the_whole() {
    type Broken = fn() -> Response;
    let answers: [Broken; 3] = [
        || Response::new(streamed(stream::iter([data("12"), data("34"), broken()]))),
        || {
            Response::builder()
                .header("content-length", "9")
                .body(streamed(stream::iter([data("1234")])))
                .expect("valid")
        },
        || {
            Response::builder()
                .header("content-length", "3")
                .body(streamed(stream::iter([data("1234")])))
                .expect("valid")
        },
    ];
    for answer in answers {
        let bench = Bench::new();
        let app = bench.app(bench.resumable(), move |_| answer());
        let first = send(&app, keyed("k")).await;
        assert_eq!((first.text(), first.whole), ("1234", false), "aborted where it broke");
        assert_tombstone(&send(&app, keyed("k")).await, 200);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_body_under_a_status_that_may_be_tried_again_frees_the_key() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        (crate::bench::status(503), streamed(stream::iter([data("1"), broken()]))).into_response()
    });
    let first = send(&app, keyed("k")).await;
    assert_eq!((first.status, first.text(), first.whole), (503, "1", false));
    assert_eq!(bench.state("k").await, "failed");
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_trailers_is_sent_with_them_and_not_kept() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("\"t\""))]);
        Response::new(streamed(stream::iter([data("body"), Ok(Frame::trailers(trailers))])))
    });
    let response = app.clone().oneshot(keyed("k")).await.expect("infallible");
    let collected = response.into_body().collect().await.expect("whole");
    assert_eq!(collected.trailers().expect("trailers")[header::ETAG], "\"t\"");
    assert_eq!(collected.to_bytes(), "body");
    assert_tombstone(&send(&app, keyed("k")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn r12_a_switch_of_protocols_is_passed_on() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| crate::bench::status(101));
    assert_eq!(send(&app, keyed("k")).await.status, 101);
    assert_tombstone(&send(&app, keyed("k")).await, 101);
}

/// Says how long it will be, and never comes.
struct Announced(u64);

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_announces_too_much_is_not_waited_for() {
    let bench = Bench::new();
    let announcing = |bytes| sending(Body::new(Announced(bytes)));
    let app = bench.app(bench.layer(Policy::resumable().max_response(8)).max_request(8), |_| {
        Response::new(Body::new(Announced(9)))
    });
    let asked = Instant::now();
    assert_eq!(send(&app, announcing(9)).await.problem(), "body-too-large");
    assert_eq!(app.oneshot(keyed("k")).await.expect("infallible").status(), 200);
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_no_body_may_announce_the_one_it_stands_for() {
    for code in [204, 304] {
        let bench = Bench::new();
        let app = bench.app(bench.resumable(), move |_| {
            Response::builder().status(code).header("content-length", "5").body(Body::empty()).expect("valid")
        });
        assert_eq!(send(&app, keyed("k")).await.status, code);
        assert!(send(&app, keyed("k")).await.is_replay());
        assert_eq!(send(&app, keyed("k")).await.status, code, "kept");
    }
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_body_that_is_known_is_announced() {
    use http_body::Body as _;
    use tower::{Layer as _, service_fn};
    let bench = Bench::new();
    let service = bench
        .resumable()
        .layer(service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::from("12345")))));
    for _ in 0..2 {
        let response = service.clone().oneshot(keyed("k")).await.expect("infallible");
        assert_eq!(response.body().size_hint().exact(), Some(5));
        assert!(!response.body().is_end_stream());
        assert_eq!(read(response).await.text(), "12345");
    }
}
