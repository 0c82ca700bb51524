//! What is logged and counted, and what never is.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Body, http::Request, routing::post};
use idem_http::{Idempotent, Problem};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::bench::{Bench, Caller, charge, keyed, send};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged, at every level, while this runs.
fn logged(work: impl Future<Output = ()>) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || on_one_thread(work));
    String::from_utf8(lines.0.lock().expect("one thread").clone()).expect("text")
}

fn on_one_thread(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(work);
}

#[test]
fn v04_no_key_scope_or_body_reaches_the_log() {
    let text = logged(async {
        let bench = Bench::new();
        let app = bench.app(bench.resumable().pepper("SECRET-pepper"), |_| "SECRET-answer");
        let other = || Request::post("/charges?q=SECRET-query").extension(Caller("SECRET-scope"));
        for key in ["SECRET-key", "SECRET-key", "\"SECRET-malformed"] {
            let request = other().header("idempotency-key", key).body("SECRET-body".into());
            send(&app, request.expect("a request")).await;
        }
        let mismatch = other().header("idempotency-key", "SECRET-key").body("SECRET-other".into());
        assert_eq!(send(&app, mismatch.expect("a request")).await.problem(), "mismatch");
        let panicking = bench.app(bench.opaque(), |_| -> &'static str { panic!("planned by the test") });
        send(&panicking, keyed("SECRET-panic")).await;
        let debugged = format!("{app:?} {:?} {:?}", bench.resumable().pepper("SECRET-pepper"), bench.engine);
        tracing::info!("{debugged}");
    });
    assert!(text.contains("claimed") && text.contains("rejected"), "{text}");
    assert!(!text.contains("SECRET"), "{text}");
}

#[test]
fn a_wiring_fault_and_a_foreign_error_are_logged_as_errors() {
    let text = logged(async {
        let layered = Bench::new();
        let taking = Router::new().route("/charges", post(async |_: Idempotent| "never"));
        assert_eq!(send(&taking, keyed("k")).await.problem(), "not-layered");
        let unscoped = Request::post("/charges").header("idempotency-key", "k").body(Body::empty());
        let app = layered.app(layered.resumable(), |_| Problem::from(std::io::Error::other("disk on fire")));
        assert_eq!(send(&app, unscoped.expect("a request")).await.problem(), "no-scope");
        assert_eq!(send(&app, keyed("k")).await.status, 500);
    });
    let errors: Vec<_> = text.lines().filter(|line| line.contains(" ERROR ")).collect();
    for expected in ["not-layered", "no-scope", "disk on fire"] {
        assert!(errors.iter().any(|line| line.contains(expected)), "{expected}: {text}");
    }
}

#[test]
fn a_client_s_mistake_is_no_error_of_the_service() {
    let text = logged(async {
        let bench = Bench::new();
        let app = bench.app(bench.resumable().required(), |_| "never");
        send(&app, charge().body(Body::empty()).expect("a request")).await;
        send(&app, keyed("\"")).await;
    });
    assert!(!text.contains(" ERROR ") && !text.contains(" WARN "), "{text}");
}

#[test]
fn rejections_are_counted_by_cause() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        on_one_thread(async {
            let bench = Bench::new();
            let app = bench.app(bench.resumable().required(), |_| "ran");
            for key in ["\"", "'", "k"] {
                send(&app, keyed(key)).await;
            }
            send(&app, charge().body(Body::empty()).expect("a request")).await;
        });
    });
    let count = |cause: &str| {
        snapshotter.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
            let key = key.key();
            let is_it =
                key.name() == "idem_rejections_total" && key.labels().any(|label| label.value() == cause);
            is_it.then_some(value)
        })
    };
    // A snapshot takes the counts with it: one look at one counter.
    assert_eq!(count("malformed-key"), Some(DebugValue::Counter(2)));
}
