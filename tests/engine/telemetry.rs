//! One metric per decision.

use std::time::Duration;

use idem::{
    Answer, BoxError, COMPLETE_GRACE, ClaimOutcome, ClaimRequest, Completer, KeyId, KeyStore as _, Operation,
    Report, StoreErrorKind, StoredRequest, StoredResponse, Sweeper, conformance::Call,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::rig::{LEASE, Rig, id, opaque, pay, resumable, same};

/// Runs `test` on this thread with a recorder of its own, and returns what was counted.
fn counted(test: impl AsyncFnOnce(Rig)) -> Vec<(String, f64)> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("builds");
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(Rig::new())));
    metrics_of(&snapshotter)
}

fn metrics_of(snapshotter: &Snapshotter) -> Vec<(String, f64)> {
    let mut metrics: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let mut name = key.key().name().to_owned();
            for label in key.key().labels() {
                name.extend([" ", label.value()]);
            }
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.into_iter().map(f64::from).sum(),
            };
            (name, value)
        })
        .collect();
    metrics.sort_by(|left, right| left.0.cmp(&right.0));
    metrics
}

fn value(metrics: &[(String, f64)], name: &str) -> f64 {
    metrics.iter().find(|(metric, _)| metric == name).unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

#[test]
fn b01_claims_are_counted_by_outcome() {
    let metrics = counted(async |rig| {
        let released = rig.run(resumable(), async |op: Operation| Ok(op.release().await?)).await;
        assert!(matches!(released, Ok(Answer::Released)));
        rig.faulty.lose_reply(Call::Claim);
        let taken = rig.clone();
        let ran = rig.run(resumable(), async move |op: Operation| {
            assert!(matches!(taken.run(resumable(), pay).await, Ok(Answer::InProgress { .. })));
            taken.clock.advance(LEASE);
            assert!(matches!(taken.run(resumable(), pay).await, Ok(Answer::Executed(_))));
            pay(op).await
        });
        assert!(matches!(ran.await, Ok(Answer::InProgress { .. })));
        assert!(matches!(rig.run(resumable(), pay).await, Ok(Answer::Replayed(_))));
        let other = idem::Fingerprint::of("test").body(b"[]").finish();
        let mismatch = rig.engine.run(id(), other, &resumable(), pay).await;
        assert!(matches!(mismatch, Ok(Answer::Mismatch)));
        rig.faulty.fail(Call::Claim, StoreErrorKind::Unavailable);
        assert!(rig.run(resumable(), pay).await.is_err());
        rig.clock.advance(idem::policy::RETENTION * 2);
        assert!(matches!(rig.run(resumable(), pay).await, Ok(Answer::Executed(_))));
    });
    for outcome in
        ["new", "reissued", "in_progress", "taken_over", "replayed", "mismatch", "unavailable", "expired"]
    {
        assert!(
            (value(&metrics, &format!("idem_claims_total {outcome}")) - 1.0).abs() < 0.1,
            "{outcome} {metrics:?}"
        );
    }
    assert!((value(&metrics, "idem_ends_total completed") - 2.0).abs() < 0.1);
    assert!((value(&metrics, "idem_ends_total released") - 1.0).abs() < 0.1);
    assert!((value(&metrics, "idem_claims_lost_total complete") - 1.0).abs() < 0.1);
    assert!((value(&metrics, "idem_unknown_total claim") - 1.0).abs() < 0.1);
}

#[test]
fn b02_stuck_records_are_gauged_with_their_age() {
    let metrics = counted(async |rig| {
        let left = rig.run::<_, _, StoredResponse>(opaque(), async |_| panic!("left")).await;
        assert!(left.is_err());
        rig.clock.advance(LEASE + Duration::from_secs(7));
        assert!(matches!(rig.run(opaque(), pay).await, Ok(Answer::InDoubt { .. })));
        Sweeper::new(rig.store.clone()).pass().await.expect("memory answers");
    });
    for (name, expected) in [
        ("idem_stuck", 1.0),
        ("idem_in_doubt", 1.0),
        ("idem_stuck_oldest_seconds", 7.0),
        ("idem_panics_total", 1.0),
        ("idem_claims_total in_doubt", 1.0),
        ("idem_ends_total left", 1.0),
    ] {
        assert!((value(&metrics, name) - expected).abs() < 0.1, "{name} {metrics:?}");
    }
}

#[test]
fn b03_a_run_is_measured_against_its_lease() {
    let metrics = counted(async |rig| {
        let elapsed = rig.clone();
        let ran = rig.run(resumable(), async move |op: Operation| {
            elapsed.elapse(LEASE).await;
            pay(op).await
        });
        assert!(matches!(ran.await, Ok(Answer::Executed(_))));
        rig.clock.advance(idem::policy::RETENTION * 2);
        assert_eq!(Sweeper::new(rig.store.clone()).pass().await.expect("memory answers"), 1);
    });
    assert!((value(&metrics, "idem_run_lease_ratio") - 1.0).abs() < 0.1);
    assert!((value(&metrics, "idem_run_seconds") - LEASE.as_secs_f64()).abs() < 1.0);
    assert!((value(&metrics, "idem_swept_total") - 1.0).abs() < 0.1);
}

#[test]
fn b01_what_was_abandoned_is_counted_by_what_became_of_it() {
    let metrics = counted(async |rig| {
        let asked = |route| StoredRequest::new(route, "order").expect("valid");
        for (number, asked) in
            [Some(asked("pay")), Some(asked("fail")), Some(asked("other")), None].into_iter().enumerate()
        {
            let id = KeyId::new(id().scope().clone(), format!("order-{number}").parse().expect("valid"));
            let mut request = ClaimRequest::new(id, same(), LEASE, Duration::from_hours(1)).expect("valid");
            request.request = asked;
            assert!(matches!(rig.store.claim(&request).await, Ok(ClaimOutcome::Claimed(_))));
        }
        rig.clock.advance(LEASE + COMPLETE_GRACE);
        let completer = Completer::new(rig.store.clone(), rig.other())
            .handle("pay", resumable(), |op, _| pay(op))
            .handle("fail", resumable(), async |_: Operation, _| {
                Err::<StoredResponse, BoxError>("no".into())
            });
        let report = completer.pass().await.expect("memory answers");
        assert_eq!(report, Report { settled: 1, unsettled: 1, left: 2 });
    });
    for (outcome, count) in [("settled", 1.0), ("unsettled", 1.0), ("left", 2.0)] {
        assert!((value(&metrics, &format!("idem_completer_total {outcome}")) - count).abs() < f64::EPSILON);
    }
}
