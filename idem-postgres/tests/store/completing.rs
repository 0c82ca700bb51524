//! What its client abandoned, finished by a completer on another connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_core::{
    Answer, BoxError, COMPLETE_GRACE, Completed, Completer, Effect, Engine, Operation, Policy, ProviderKey,
    RunError, State, StoredRequest, StoredResponse,
};
use idem_postgres::PostgresStore;
use tokio::{sync::Barrier, task::JoinSet};

use crate::rig::{LEASE, Rig, id, print};

/// The key and the body of each call that reached the provider, which loses its first answer.
type Calls = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Every byte there is: nothing on the way takes it for text.
fn order() -> Vec<u8> {
    (0..=u8::MAX).collect()
}

async fn charge(mut op: Operation, order: Vec<u8>, calls: Calls) -> Result<Completed, BoxError> {
    let call = async |key: ProviderKey| {
        let mut calls = calls.lock().expect("no panic inside");
        calls.push((key.hex(), order.clone()));
        let lost = || std::io::Error::other("the connection broke");
        if calls.len() == 1 { Err(lost().into()) } else { Ok(calls.len()) }
    };
    let charge = op.effect("charge", Effect::keyed(Duration::from_hours(24)), call).await?;
    Ok(op.complete(StoredResponse::json(201, &charge)?).await?)
}

async fn ask(store: PostgresStore, calls: Calls) -> Result<Answer, RunError<BoxError>> {
    let (engine, asked) = (Engine::new(store), StoredRequest::new("charges", order()).expect("valid"));
    let prepared = engine.prepare(id("k"), print(1), &policy()).store_request(asked);
    prepared.run(move |op| charge(op, order(), calls)).await
}

fn policy() -> Policy {
    Policy::resumable().lease(LEASE)
}

fn completer(store: PostgresStore, calls: Calls) -> Completer {
    Completer::new(store.clone(), Engine::new(store))
        .handle("charges", policy(), move |op, order| charge(op, order.to_vec(), Arc::clone(&calls)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t17_t11_of_two_completers_and_a_late_client_one_finishes_with_the_same_key_and_body() {
    for _ in 0..5 {
        let (rig, calls) = (Rig::new().await, Calls::default());
        assert!(matches!(ask(rig.store.clone(), Arc::clone(&calls)).await, Err(RunError::Work(_))));
        let record = rig.record(&id("k")).await.expect("there is a record");
        assert_eq!(record.request.map(|asked| asked.data().to_vec()), Some(order()));
        rig.elapse(COMPLETE_GRACE).await;
        let barrier = Arc::new(Barrier::new(3));
        let mut racers = JoinSet::new();
        for _ in 0..2 {
            let (completer, barrier) = (completer(rig.another(2), Arc::clone(&calls)), Arc::clone(&barrier));
            racers.spawn(async move {
                barrier.wait().await;
                let report = completer.pass().await.expect("the server answers");
                assert!(report.settled + report.unsettled <= 1 && report.left == 0, "{report:?}");
            });
        }
        let client = ask(rig.another(2), Arc::clone(&calls));
        racers.spawn(async move {
            barrier.wait().await;
            let told = client.await;
            let fine =
                matches!(told, Ok(Answer::Executed(_) | Answer::Replayed(_) | Answer::InProgress { .. }));
            assert!(fine, "{told:?}");
        });
        racers.join_all().await;
        let record = rig.record(&id("k")).await.expect("there is a record");
        let State::Completed { response, .. } = record.state else { panic!("it is completed: {record:?}") };
        assert_eq!((response.body().as_ref(), record.request), (&b"2"[..], None));
        match ask(rig.store.clone(), Arc::clone(&calls)).await {
            Ok(Answer::Replayed(late)) => assert_eq!(late, response, "byte for byte"),
            other => panic!("the late client gets the answer: {other:?}"),
        }
        let calls = calls.lock().expect("no panic inside");
        let [first, second] = &**calls else { panic!("two calls: {calls:?}") };
        assert_eq!(first, second);
    }
}

#[tokio::test]
async fn t18_what_is_at_work_or_in_doubt_is_left_alone() {
    let (rig, calls) = (Rig::new().await, Calls::default());
    assert!(matches!(ask(rig.store.clone(), Arc::clone(&calls)).await, Err(RunError::Work(_))));
    let completer = completer(rig.another(2), Arc::clone(&calls));
    rig.sql("UPDATE idempotency_key SET lease_until = clock_timestamp() + interval '1 minute'").await;
    assert_eq!(completer.pass().await.expect("the server answers"), idem_core::Report::default());
    rig.sql("UPDATE idempotency_key SET rerun_until = '-infinity'").await;
    rig.elapse(LEASE + COMPLETE_GRACE).await;
    assert_eq!(completer.pass().await.expect("the server answers"), idem_core::Report::default());
    assert_eq!(calls.lock().expect("no panic inside").len(), 1);
}
