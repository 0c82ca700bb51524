//! A handler that calls the outside world.

use std::{sync::Arc, time::Duration};

use axum::{Router, routing::post};
use idem_core::{Effect, Fault, Policy, StoredResponse};
use idem_http::{Idempotent, Problem, Reply};

use crate::bench::{Bench, PAST_LEASE, keyed, send};

/// How the provider takes its first call; every later one is answered.
#[derive(Clone, Copy, Debug)]
enum First {
    Answers,
    Hides,
    Refuses,
    Panics,
}

fn app(bench: &Bench, effect: Effect, first: First) -> Router {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let handler = async move |Idempotent(mut op): Idempotent| {
        let charge: String = op
            .effect("charge", effect, async |_key| {
                let call = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                let broken = || std::io::Error::other("the connection broke");
                match first {
                    First::Hides if call == 1 => Err(broken().into()),
                    First::Refuses if call == 1 => Err(Fault::not_done(broken())),
                    First::Panics if call == 1 => panic!("planned by the test"),
                    _ => Ok(format!("charged by call {call}")),
                }
            })
            .await?;
        Ok::<_, Problem>(Reply::from(op.complete(StoredResponse::new(201, charge)?).await?))
    };
    Router::new().route("/charges", post(handler).layer(bench.layer(Policy::resumable())))
}

#[tokio::test(start_paused = true)]
async fn what_a_client_is_told_of_an_effect_and_what_its_retry_gets() {
    let (keyed_effect, once) = (Effect::keyed(Duration::from_hours(24)), Effect::at_most_once());
    // effect, how the first call goes, status of the first answer, then of the retry after the lease with its body
    let table = [
        (keyed_effect, First::Answers, 201, 201, "charged by call 1"),
        (keyed_effect, First::Hides, 503, 201, "charged by call 2"),
        (keyed_effect, First::Panics, 503, 201, "charged by call 2"),
        (keyed_effect, First::Refuses, 503, 201, "charged by call 2"),
        (once, First::Answers, 201, 201, "charged by call 1"),
        (once, First::Hides, 503, 409, ""),
        (once, First::Panics, 503, 409, ""),
        (once, First::Refuses, 503, 201, "charged by call 2"),
        (Effect::natural(), First::Hides, 503, 201, "charged by call 2"),
    ];
    for (effect, first, told, then, body) in table {
        let bench = Bench::new();
        let app = app(&bench, effect, first);
        let answer = send(&app, keyed("k")).await;
        assert_eq!(answer.status, told, "{effect:?} {first:?}: {}", answer.text());
        let type_of = match first {
            First::Answers => None,
            First::Refuses => Some("urn:idem:problem:effect-not-done"),
            First::Hides | First::Panics => Some("urn:idem:problem:outcome-unknown"),
        };
        if let Some(type_of) = type_of {
            assert!(answer.text().contains(type_of), "{effect:?} {first:?}: {}", answer.text());
        }
        bench.clock.advance(PAST_LEASE);
        let retry = send(&app, keyed("k")).await;
        assert_eq!(retry.status, then, "{effect:?} {first:?}: {}", retry.text());
        assert!(retry.text().contains(body), "{effect:?} {first:?}: {}", retry.text());
    }
}

#[tokio::test(start_paused = true)]
async fn no_success_is_sent_over_an_open_effect_that_nobody_recorded() {
    let bench = Bench::new();
    let handler = async move |Idempotent(mut op): Idempotent| {
        let told = op.effect("charge", Effect::at_most_once(), async |_| {
            Err::<u8, _>(std::io::Error::other("the connection broke").into())
        });
        let error = told.await.expect_err("nobody knows");
        (http::StatusCode::ACCEPTED, Problem::from(error))
    };
    let app = Router::new().route("/charges", post(handler).layer(bench.layer(Policy::resumable())));
    let answer = send(&app, keyed("k")).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("urn:idem:problem:outcome-unknown"), "{}", answer.text());
}
