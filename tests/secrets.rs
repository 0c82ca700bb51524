//! What is logged names a record by its digest and holds no secret.
//!
//! One test, in a process of its own: what other threads log or do not log decides which lines a process keeps.

#![expect(clippy::expect_used, reason = "a test ends on the first surprise")]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem::{
    BoxError, COMPLETE_GRACE, Completer, Effect, Engine, Fingerprint, KeyId, MemoryStore, Operation, Policy,
    Report, Scope, StoreErrorKind, StoredRequest, StoredResponse,
    conformance::{Call, Faulty},
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic while logging").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn v04_logs_name_records_by_digest_and_hold_no_secret() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("builds").block_on(decide_everything()).expect("it runs");

    let log = String::from_utf8(log.0.lock().expect("no panic while logging").clone()).expect("text");
    for line in [
        "idem{key=",
        "took over a stale claim",
        "key reused",
        "claim lost",
        "panicked",
        "in doubt",
        "not done",
        "took up what was abandoned",
        "what was abandoned could not be finished",
    ] {
        assert!(log.contains(line), "no {line} in {log}");
    }
    // A run's span names its operation, its token and what the claim was answered.
    assert!(log.contains("outcome=\"reissued\" operation=") && log.contains(" token=1}"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

/// Goes through every decision that logs, with secrets in all that must not be logged.
async fn decide_everything() -> Result<(), BoxError> {
    let clock = idem::ManualClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    let faulty = Faulty::new(Arc::new(store.clone()));
    let engine = Engine::new(faulty.clone());
    let lease = Duration::from_secs(30);
    let (resumable, opaque) = (Policy::resumable().lease(lease), Policy::opaque().lease(lease));
    let id =
        |key: &str| -> Result<KeyId, BoxError> { Ok(KeyId::new(Scope::new("scope-secret")?, key.parse()?)) };
    let same = || Fingerprint::of("test").body(b"request-secret").finish();
    let pay = async |op: Operation| {
        let answer = StoredResponse::new(201, "body-secret")?.header("x", "header-secret");
        Ok::<_, BoxError>(op.complete(answer).await?)
    };

    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Corrupt, StoreErrorKind::Invalid] {
        faulty.fail(Call::Claim, kind);
        assert!(engine.run(id("key-secret-1")?, same(), &resumable, pay).await.is_err());
    }
    faulty.lose_reply(Call::Claim);
    faulty.lose_reply(Call::Complete);
    for _ in 0..2 {
        assert!(engine.run(id("key-secret-1")?, same(), &opaque, pay).await.is_ok());
    }
    let other = Fingerprint::of("test").body(b"other-secret").finish();
    assert!(matches!(
        engine.run(id("key-secret-1")?, other, &resumable, pay).await,
        Ok(idem::Answer::Mismatch)
    ));

    let (winner, late) = (Engine::new(store.clone()), clock.clone());
    let (same_again, key) = (same(), id("key-secret-2")?);
    let work = async move |op: Operation| {
        late.advance(lease);
        let won = winner.run(key, same_again, &Policy::resumable().lease(lease), pay).await;
        assert!(matches!(won, Ok(idem::Answer::Executed(_))));
        pay(op).await
    };
    let loser = engine.run(id("key-secret-2")?, same(), &resumable, work).await;
    assert!(matches!(loser, Ok(idem::Answer::InProgress { .. })));

    let crash = async |_: Operation| -> Result<StoredResponse, BoxError> { panic!("a bug") };
    assert!(engine.run(id("key-secret-3")?, same(), &opaque, crash).await.is_err());
    clock.advance(lease);
    assert!(matches!(
        engine.run(id("key-secret-3")?, same(), &opaque, pay).await,
        Ok(idem::Answer::InDoubt { .. })
    ));

    let broken = async |mut op: Operation| -> Result<StoredResponse, BoxError> {
        let _: u64 = op.effect("drafted", Effect::natural(), async |_| Ok(1)).await?;
        Err("planned by the test".into())
    };
    for route in ["charges", "refunds"] {
        let asked = StoredRequest::new(route, "order-secret")?;
        let prepared =
            engine.prepare(id(&format!("{route}-secret"))?, same(), &resumable).store_request(asked);
        assert!(prepared.run(broken).await.is_err());
    }
    clock.advance(COMPLETE_GRACE);
    let completer =
        Completer::new(store.clone(), engine).handle("charges", resumable, move |op, _| broken(op));
    assert_eq!(completer.pass().await?, Report { settled: 0, unsettled: 1, left: 1 });
    idem::Sweeper::new(store).pass().await?;
    Ok(())
}
