//! Clients that hang up, retries that cross, and processes that stop.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, http::Request, response::Response};
use futures_util::future::join_all;
use idem_conformance::Call;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::bench::{Bench, keyed, poll_once, read, send};

/// A service that yields a few times before and after what must not be cut in half.
fn charging(
    bench: &Bench,
    yields: usize,
) -> impl Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + use<>
{
    let bench = bench.clone();
    service_fn(move |_: Request<Body>| {
        let bench = bench.clone();
        async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            bench.run();
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            Ok(Response::new(Body::from("charged")))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn w01_a_client_that_hangs_up_at_any_moment_does_not_stop_the_work() {
    let (mut before_claim, mut after_claim) = (0, 0);
    for polls in 0..30 {
        for ticks in [0, 1, 3] {
            let bench = Bench::new();
            let service = bench.resumable().layer(charging(&bench, 4));
            let mut call = Box::pin(service.clone().oneshot(keyed("k")));
            let mut finished = false;
            for _ in 0..polls {
                if poll_once(&mut call).await.is_ready() {
                    finished = true;
                    break;
                }
                for _ in 0..ticks {
                    tokio::task::yield_now().await;
                }
            }
            drop(call);
            // The client comes back until it has its answer.
            let got = loop {
                let got = read(service.clone().oneshot(keyed("k")).await.expect("infallible")).await;
                if got.status != 409 {
                    break got;
                }
                tokio::task::yield_now().await;
            };
            assert_eq!(
                (got.status, got.text(), bench.runs()),
                (200, "charged", 1),
                "{polls} polls, {ticks} ticks"
            );
            match (got.is_replay(), finished) {
                (false, _) => before_claim += 1,
                (true, false) => after_claim += 1,
                (true, true) => {}
            }
        }
    }
    assert!(before_claim > 0 && after_claim > 0, "both sides were met: {before_claim} {after_claim}");
}

#[tokio::test(start_paused = true)]
async fn w11_arrivals_at_the_same_moment_run_once() {
    let bench = Bench::new();
    let service = bench.opaque().layer(charging(&bench, 2));
    let answers = join_all((0..50).map(|_| {
        let service = service.clone();
        async move { read(service.oneshot(keyed("k")).await.expect("infallible")).await }
    }))
    .await;
    assert_eq!(bench.runs(), 1);
    for got in &answers {
        match got.status {
            200 => assert_eq!(got.text(), "charged"),
            _ => assert_eq!(got.problem(), "in-progress"),
        }
    }
    assert_eq!(answers.iter().filter(|got| got.status == 200 && !got.is_replay()).count(), 1);
    assert!(send(&service, keyed("k")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn b150_nobody_sees_an_answer_before_it_is_committed() {
    let bench = Bench::new();
    let service = bench.resumable().layer(charging(&bench, 0));
    let mut held = bench.store.hold(Call::Complete);
    let mut first = Box::pin(service.clone().oneshot(keyed("k")));
    tokio::select! {
        biased;
        () = held.arrived() => {}
        _ = &mut first => unreachable!("the completion is held"),
    }
    for _ in 0..20 {
        assert!(poll_once(&mut first).await.is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(send(&service, keyed("k")).await.problem(), "in-progress");
    held.release();
    assert_eq!(read(first.await.expect("infallible")).await.text(), "charged");
    assert!(send(&service, keyed("k")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn w08_a_stopping_process_takes_nothing_on_and_frees_what_it_drops() {
    let bench = Bench::new();
    let counting = bench.clone();
    let stuck = service_fn(move |_: Request<Body>| {
        counting.run();
        std::future::pending::<Result<Response, Infallible>>()
    });
    let service = bench.resumable().layer(stuck);
    let (got, left) = tokio::join!(send(&service, keyed("k")), async {
        while bench.runs() == 0 {
            tokio::task::yield_now().await;
        }
        bench.engine.drain(Duration::from_secs(30)).await
    });
    assert_eq!((got.status, got.problem().as_str(), left), (503, "store-unavailable", 0));
    assert_eq!(send(&service, keyed("other")).await.problem(), "store-unavailable");
    assert_eq!(bench.runs(), 1);

    // Another process goes on at once, without waiting for the lease.
    let next = idem_http::IdempotencyLayer::new(
        idem_core::Engine::new(bench.store.clone()),
        idem_core::Policy::resumable(),
        |_| idem_core::Scope::new("acme").ok(),
    );
    assert_eq!(send(&next.layer(charging(&bench, 0)), keyed("k")).await.text(), "charged");
}
