//! Over a real connection: framing, `Expect`, `HEAD`, broken bodies and clients that vanish.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::Method,
    middleware::{self, Next},
    response::Response,
    routing::{any, post},
};
use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use idem_conformance::Call;
use idem_core::StoredResponse;
use idem_http::Idempotent;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::bench::{Bench, Caller};

/// Every wait of these tests is bounded by this.
const BOUND: Duration = Duration::from_secs(20);

struct Wire {
    bench: Bench,
    address: std::net::SocketAddr,
    _server: JoinSet<()>,
}

impl Wire {
    async fn serve(bench: Bench, app: Router) -> Self {
        let authenticated = app.layer(middleware::from_fn(async |mut request: Request, next: Next| {
            request.extensions_mut().insert(Caller("acme"));
            next.run(request).await
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, authenticated).await.expect("serving") });
        Self { bench, address, _server: server }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    /// Sends these bytes and reads until the server closes.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        timeout(BOUND, stream.read_to_end(&mut answer)).await.expect("in time").expect("read");
        String::from_utf8(answer).expect("text")
    }
}

fn post_charge(more: &str, body: &str) -> String {
    format!(
        "POST /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: \"k\"\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
}

fn header<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[tokio::test]
async fn r05_r06_lengths_are_counted_and_dates_are_fresh() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        Body::from_stream(stream::iter(["12", "345"].map(Ok::<_, std::io::Error>)))
    });
    let wire = Wire::serve(bench, app).await;
    for replay in [false, true] {
        let answer = wire.exchange(&post_charge("", "{}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n12345"), "{answer}");
        assert_eq!(header(&answer, "content-length"), ["5"], "whatever the handler's framing was");
        assert_eq!(header(&answer, "transfer-encoding"), [""; 0]);
        assert_eq!(header(&answer, "date").len(), 1);
        assert_eq!(header(&answer, "idempotent-replayed").len(), usize::from(replay));
    }
}

#[tokio::test]
async fn w10_expect_is_answered_before_the_body_is_sent_and_not_where_it_is_refused() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "charged");
    let wire = Wire::serve(bench, app).await;
    let request = post_charge("Expect: 100-continue\r\n", "{}");
    let (head, body) = request.split_at(request.len() - 2);

    let mut stream = wire.connect().await;
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut interim = [0; 25];
    timeout(BOUND, stream.read_exact(&mut interim)).await.expect("in time").expect("read");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(wire.bench.store.seen(Call::Claim), 0, "no claim without the body");
    stream.write_all(body.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    timeout(BOUND, stream.read_to_string(&mut answer)).await.expect("in time").expect("read");
    assert!(answer.ends_with("charged"), "{answer}");

    let refused = head.replace("\"k\"", "\"k");
    let answer = wire.exchange(&refused).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "no interim answer: {answer}");
}

#[tokio::test]
async fn w10_head_passes_and_can_even_be_covered() {
    let bench = Bench::new();
    let layer = bench.resumable().methods([Method::HEAD]);
    let handler = any(async || ([("content-length", "5")], Body::empty()));
    let app = Router::new().route("/charges", handler.layer(layer));
    let wire = Wire::serve(bench, app).await;
    for replay in [false, true] {
        let answer = wire.exchange(&post_charge("", "").replace("POST", "HEAD")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
        assert_eq!(header(&answer, "idempotent-replayed").len(), usize::from(replay));
    }
}

#[tokio::test]
async fn answers_without_a_body_have_none_on_the_wire() {
    for code in [204, 304] {
        let bench = Bench::new();
        let app = bench.app(bench.resumable(), move |_| crate::bench::status(code));
        let wire = Wire::serve(bench, app).await;
        for _ in 0..2 {
            let answer = wire.exchange(&post_charge("", "{}")).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {code} ")) && answer.ends_with("\r\n\r\n"),
                "{answer}"
            );
            assert_eq!(header(&answer, "content-length"), [""; 0]);
        }
    }
}

#[tokio::test]
async fn the_framing_of_an_answer_that_is_not_sent_is_not_sent_either() {
    let bench = Bench::new();
    let handler = post(async |Idempotent(op): Idempotent| {
        let answer = StoredResponse::new(201, "committed").expect("valid");
        let _committed = op.complete(answer).await.expect("the store answers");
        ([("content-length", "3"), ("x-other", "sent")], "abc")
    });
    let app = Router::new().route("/charges", handler.layer(bench.resumable()));
    let wire = Wire::serve(bench, app).await;
    let answer = wire.exchange(&post_charge("", "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.ends_with("\r\n\r\ncommitted"), "{answer}");
    assert_eq!((header(&answer, "content-length"), header(&answer, "x-other")), (vec!["9"], vec!["sent"]));
}

#[tokio::test]
async fn b056_a_broken_answer_is_broken_on_the_wire_too() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| {
        let chunks =
            [Ok(Frame::data(Bytes::from_static(b"12"))), Err(std::io::Error::other("planned by the test"))];
        Response::new(Body::new(StreamBody::new(stream::iter(chunks))))
    });
    let wire = Wire::serve(bench, app).await;
    let answer = wire.exchange(&post_charge("", "{}")).await;
    assert!(!answer.ends_with("0\r\n\r\n"), "no clean end: {answer}");
    assert!(wire.exchange(&post_charge("", "{}")).await.contains("response-not-kept"));
}

#[tokio::test]
async fn e13_a_client_that_vanishes_amid_its_body_leaves_no_claim() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "charged");
    let wire = Wire::serve(bench, app).await;
    let request = post_charge("", r#"{"amount":1000}"#);
    let mut stream = wire.connect().await;
    stream.write_all(&request.as_bytes()[..request.len() - 5]).await.expect("sent");
    stream.shutdown().await.expect("closed");
    let mut answer = Vec::new();
    let _reset_or_end = timeout(BOUND, stream.read_to_end(&mut answer)).await.expect("in time");
    assert_eq!((wire.bench.runs(), wire.bench.store.seen(Call::Claim)), (0, 0));
    assert!(wire.exchange(&request).await.ends_with("charged"));
}

#[tokio::test]
async fn w01_a_connection_that_is_closed_amid_the_work_does_not_stop_it() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "charged");
    let mut held = bench.store.hold(Call::Complete);
    let wire = Wire::serve(bench, app).await;
    let mut stream = wire.connect().await;
    stream.write_all(post_charge("", "{}").as_bytes()).await.expect("sent");
    timeout(BOUND, held.arrived()).await.expect("the handler ran");
    drop(stream);
    held.release();
    let answer = timeout(BOUND, async {
        loop {
            let answer = wire.exchange(&post_charge("", "{}")).await;
            if !answer.contains("409 Conflict") {
                break answer;
            }
        }
    });
    let answer = answer.await.expect("in time");
    assert!(answer.ends_with("charged"), "{answer}");
    assert_eq!(header(&answer, "idempotent-replayed"), ["true"]);
    assert_eq!(wire.bench.runs(), 1);
}
