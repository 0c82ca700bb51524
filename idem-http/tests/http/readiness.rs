//! The rules of tower about readiness, under services that hold to them.

use std::{
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{body::Body, http::Request, response::Response};
use idem_conformance::Call;
use idem_http::ResponseBody;
use tower::{BoxError, Layer as _, Service, ServiceBuilder, ServiceExt as _, service_fn};

use crate::bench::{Bench, keyed, read};

/// Panics if an instance is called that was not polled ready.
#[derive(Debug, Default)]
struct Strict {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Response::new(Body::from("ran"))))
    }
}

#[tokio::test(start_paused = true)]
async fn w04_b060_the_instance_that_was_polled_is_the_one_that_is_called() {
    let bench = Bench::new();
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let mut service = bench.resumable().layer(strict);
    for n in 0..20 {
        let key = (n / 2).to_string();
        let got =
            read(service.ready().await.expect("infallible").call(keyed(&key)).await.expect("infallible"))
                .await;
        assert_eq!((got.text(), got.is_replay()), ("ran", n % 2 == 1));
    }
    let unkeyed = crate::bench::charge().body(Body::empty()).expect("a request");
    service.ready().await.expect("infallible").call(unkeyed).await.expect("infallible");
    assert_eq!(calls.load(Ordering::SeqCst), 11);
}

/// A hundred keyed requests, each sent twice, many at once.
async fn many<S>(service: S)
where
    S: Service<Request<Body>, Response = Response<ResponseBody<Body>>, Error: Into<BoxError>> + Clone,
{
    let requests = (0..200).map(|n| {
        let service = service.clone();
        async move {
            let response = service.oneshot(keyed(&(n / 2).to_string())).await.map_err(Into::into);
            read(response.expect("answered")).await.status
        }
    });
    let statuses = futures_util::future::join_all(requests).await;
    assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 200).count() >= 100);
}

#[tokio::test(start_paused = true)]
async fn w04_b060_it_holds_over_a_concurrency_limit() {
    let bench = Bench::new();
    let inner = ServiceBuilder::new().concurrency_limit(3).service(Strict::default());
    many(bench.resumable().layer(inner)).await;
}

#[tokio::test(start_paused = true)]
async fn w04_b060_it_holds_over_a_buffer() {
    let bench = Bench::new();
    let inner = ServiceBuilder::new().buffer(3).concurrency_limit(2).service(Strict::default());
    many(bench.resumable().layer(inner)).await;
}

#[tokio::test(start_paused = true)]
async fn w04_b060_it_holds_over_load_shedding() {
    let bench = Bench::new();
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let inner = ServiceBuilder::new().load_shed().concurrency_limit(1).service(strict);
    let mut service = bench.resumable().layer(inner);
    let mut held = bench.store.hold(Call::Claim);
    let first = service.ready().await.expect("never refused here").call(keyed("a"));
    let second = service.ready().await.expect("never refused here").call(keyed("b"));
    let (first, second) = tokio::join!(first, async {
        held.arrived().await;
        let shed = second.await;
        held.release();
        shed
    });
    assert_eq!(read(first.expect("served")).await.text(), "ran");
    assert!(
        second.is_err_and(|error| error.is::<tower::load_shed::error::Overloaded>()),
        "the place was taken"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(bench.state("b").await, "failed", "nothing ran: the key is free");
}

#[tokio::test(start_paused = true)]
async fn b060_nothing_is_claimed_before_the_service_is_ready() {
    let bench = Bench::new();
    let inner = ServiceBuilder::new().concurrency_limit(1).service(Strict::default());
    let mut service = bench.resumable().layer(inner);
    // The only place is held by a request that was not sent yet.
    service.ready().await.expect("infallible");
    let held = service.call(keyed("a"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_pending(), "busy");
    assert_eq!(bench.store.seen(Call::Claim), 0);
    drop(held);
    poll_fn(|cx| service.poll_ready(cx)).await.expect("infallible");
}

#[tokio::test(start_paused = true)]
async fn w03_b052_a_late_answer_is_stored_as_it_is_and_a_timeout_further_in_is_judged() {
    // Further out: the client gets the timeout's answer, the work goes on, the retry gets the work's answer.
    let bench = Bench::new();
    let slow = {
        let bench = bench.clone();
        service_fn(move |_: Request<Body>| {
            let bench = bench.clone();
            async move {
                bench.run();
                tokio::time::timeout(Duration::from_secs(20), std::future::pending::<()>())
                    .await
                    .expect_err("late");
                Ok::<_, Infallible>(
                    Response::builder()
                        .header("content-type", "text/csv")
                        .body(Body::from("a,b"))
                        .expect("valid"),
                )
            }
        })
    };
    let outside =
        ServiceBuilder::new().timeout(Duration::from_secs(5)).layer(bench.resumable()).service(slow.clone());
    let late = outside.clone().oneshot(keyed("k")).await.expect_err("w03: a timeout");
    assert!(late.is::<tower::timeout::error::Elapsed>());
    let busy =
        read(bench.resumable().layer(slow.clone()).oneshot(keyed("k")).await.expect("infallible")).await;
    assert_eq!(busy.problem(), "in-progress");
    tokio::time::advance(Duration::from_secs(20)).await;
    let got = loop {
        let got =
            read(bench.resumable().layer(slow.clone()).oneshot(keyed("k")).await.expect("infallible")).await;
        if got.status != 409 {
            break got;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        (got.status, got.header("content-type"), got.text(), got.is_replay()),
        (200, Some("text/csv"), "a,b", true)
    );
    assert_eq!(bench.runs(), 1);

    // Further in: the timeout is the service's own error, and the key of a resumable handler is free again.
    let inside = ServiceBuilder::new().layer(bench.resumable()).timeout(Duration::from_secs(5)).service(slow);
    assert!(inside.oneshot(keyed("other")).await.is_err());
    assert_eq!(bench.state("other").await, "failed");
}
