//! Operations that nobody comes back for, and the completer that finishes them.

mod meanwhile;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, COMPLETE_GRACE, Claim, ClaimOutcome, ClaimRequest, Completed, Completer, Doubt, Effect,
    KeyId, KeyStore, Maintain, Operation, Policy, ProviderKey, RecoveryPoint, Report, Rerun, RunError, Scope,
    State, StoredRequest,
};

use crate::{
    gateway::{Does, Gateway, KEYED},
    rig::{LEASE, Ran, Result, Rig, answer, id, pay, replayed, resumable, same},
};

const KEEP: Duration = Duration::from_hours(24);
const ORDER: &[u8] = b"{\"amount\": 500}";
const NOTHING: Report = Report { settled: 0, unsettled: 0, left: 0 };
const SETTLED: Report = Report { settled: 1, ..NOTHING };
const UNSETTLED: Report = Report { unsettled: 1, ..NOTHING };
const LEFT: Report = Report { left: 1, ..NOTHING };

fn order() -> StoredRequest {
    StoredRequest::new("charges", ORDER).expect("valid")
}

fn key(number: usize) -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("valid"), format!("order-{number}").parse().expect("valid"))
}

/// The claim of a process that is gone since.
async fn claimed(rig: &Rig, id: KeyId, asked: Option<StoredRequest>) -> Claim {
    let mut request = ClaimRequest::new(id, same(), LEASE, KEEP).expect("valid");
    request.request = asked;
    match rig.store.claim(&request).await {
        Ok(ClaimOutcome::Claimed(claim)) => claim,
        other => panic!("the key is free: {other:?}"),
    }
}

/// So many operations, the first abandoned for longest, all for long enough.
async fn abandoned(rig: &Rig, operations: usize) {
    for number in 0..operations {
        let _owner = claimed(rig, key(number), Some(order())).await;
        rig.clock.advance(Duration::from_millis(1));
    }
    rig.clock.advance(LEASE + COMPLETE_GRACE);
}

/// A completer that counts as the rig's works are counted.
fn completer<Fut>(rig: &Rig, work: impl Fn(Operation) -> Fut + Send + Sync + 'static) -> Completer
where
    Fut: Future<Output = Result<Completed>> + Send + 'static,
{
    let runs = Arc::clone(&rig.runs);
    Completer::new(rig.store.clone(), rig.other()).handle("charges", resumable(), move |op, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        work(op)
    })
}

async fn pass(completer: &Completer) -> Report {
    completer.pass().await.expect("memory answers")
}

/// Charges what the request says, and answers with the charge.
async fn charge(mut op: Operation, request: Vec<u8>, seen: Seen, does: Does) -> Result<Completed> {
    let call = async |key: ProviderKey| {
        let sent = (key.hex(), request.clone());
        seen.sent.lock().expect("no panic inside").push(sent);
        seen.gateway.call(&key, does)
    };
    let charge: String = op.effect("charge", KEYED, call).await?;
    Ok(op.complete(answer(201, "paid").header("charge", charge)).await?)
}

/// The key and the body of a call.
type Call = (String, Vec<u8>);

/// What the provider was sent.
#[derive(Clone, Default)]
struct Seen {
    gateway: Gateway,
    sent: Arc<Mutex<Vec<Call>>>,
}

/// A client's request that stores itself.
async fn ask(rig: &Rig, seen: &Seen, does: Does) -> Ran {
    let (seen, asked) = (seen.clone(), order());
    let prepared = rig.engine.prepare(id(), same(), &resumable()).store_request(asked);
    prepared.run(move |op| charge(op, ORDER.to_vec(), seen, does)).await
}

#[tokio::test(start_paused = true)]
async fn t17_an_abandoned_operation_is_finished_and_its_client_gets_that_answer() {
    let rig = Rig::new();
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let seen = Seen::default();
    let handled = seen.clone();
    let completer =
        Completer::new(rig.store.clone(), rig.other()).handle("charges", resumable(), move |op, request| {
            charge(op, request.to_vec(), handled.clone(), Does::Charges)
        });
    assert_eq!(pass(&completer).await, SETTLED);
    let record = rig.record().await;
    let State::Completed { response, .. } = &record.state else { panic!("it is completed: {record:?}") };
    assert_eq!((record.token, record.request), (2, None), "what was asked for went with the answer");
    match ask(&rig, &seen, Does::Charges).await {
        Ok(Answer::Replayed(late)) => assert_eq!(late, *response, "byte for byte"),
        other => panic!("the late client gets the answer: {other:?}"),
    }
    assert_eq!(seen.gateway.calls().len(), 1);
    assert_eq!(pass(&completer).await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn t11_the_provider_sees_the_same_key_and_the_same_body_again() {
    let (rig, seen) = (Rig::new(), Seen::default());
    assert!(matches!(ask(&rig, &seen, Does::Hides).await, Err(RunError::Work(_))), "its answer was lost");
    rig.clock.advance(COMPLETE_GRACE);
    let handled = seen.clone();
    let completer =
        Completer::new(rig.store.clone(), rig.other()).handle("charges", resumable(), move |op, request| {
            charge(op, request.to_vec(), handled.clone(), Does::Charges)
        });
    assert_eq!(pass(&completer).await, SETTLED);
    let sent = seen.sent.lock().expect("no panic inside");
    let [first, second] = &**sent else { panic!("two calls: {sent:?}") };
    assert_eq!(first, second);
    assert_eq!(first.1, ORDER);
}

#[tokio::test(start_paused = true)]
async fn t18_nothing_is_taken_up_before_its_grace_is_over() {
    let rig = Rig::new();
    let claim = claimed(&rig, id(), Some(order())).await;
    let completer = completer(&rig, pay);
    assert_eq!(pass(&completer).await, NOTHING, "it is at work");
    rig.clock.advance(LEASE + COMPLETE_GRACE.saturating_sub(Duration::from_millis(1)));
    assert_eq!(pass(&completer).await, NOTHING, "its client may still come");
    rig.store.renew(&claim, LEASE).await.expect("its own");
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(pass(&completer).await, NOTHING, "it was slow, not gone");
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    assert_eq!((pass(&completer).await, rig.runs()), (SETTLED, 1));
}

#[tokio::test(start_paused = true)]
async fn t18_what_is_in_doubt_is_for_somebody_else_and_taken_up_once_that_is_settled() {
    let rig = Rig::new();
    let claim = claimed(&rig, id(), Some(order())).await;
    let mark = RecoveryPoint::new(1, "sms", r#"{"v":1,"effects":[{"name":"sms","open":"never"}]}"#);
    rig.store.checkpoint(&claim, &mark.expect("valid"), Rerun::Never).await.expect("its own");
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let completer = completer(&rig, async |mut op: Operation| {
        let _: u64 = op.effect("sms", Effect::at_most_once(), async |_| panic!("it was sent")).await?;
        pay(op).await
    });
    assert_eq!((pass(&completer).await, rig.runs()), (NOTHING, 0));
    let seen = rig.record().await;
    let doubt = Doubt::of(&seen).expect("a readable journal");
    let decision = doubt.happened("sms", &1_u64).and_then(Doubt::resume).expect("one open effect");
    rig.store.resolve(&seen, &decision, KEEP).await.expect("in doubt");
    assert_eq!(pass(&completer).await, SETTLED);
}

#[tokio::test(start_paused = true)]
async fn t18_t19_what_stored_no_request_or_has_no_handler_is_only_reported() {
    for asked in [None, Some(StoredRequest::new("refunds", ORDER).expect("valid"))] {
        let rig = Rig::new();
        drop(claimed(&rig, id(), asked.clone()).await);
        rig.clock.advance(LEASE + COMPLETE_GRACE);
        let before = rig.record().await;
        let completer = completer(&rig, pay);
        assert_eq!(pass(&completer).await, LEFT);
        assert_eq!(pass(&completer).await, NOTHING, "not told with every pass");
        assert_eq!((rig.record().await, rig.runs()), (before, 0));
        tokio::time::advance(Duration::from_mins(1)).await;
        let elsewhere = completer.handle("refunds", resumable(), |op, _| pay(op));
        assert_eq!(pass(&elsewhere).await, if asked.is_some() { SETTLED } else { LEFT });
    }
}

#[tokio::test(start_paused = true)]
async fn t18_what_was_released_is_not_run_behind_its_clients_back() {
    let rig = Rig::new();
    let claim = claimed(&rig, id(), Some(order())).await;
    rig.store.release(&claim, KEEP).await.expect("its own");
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let completer = completer(&rig, pay);
    assert_eq!((pass(&completer).await, rig.runs()), (NOTHING, 0));
    // A handler of the completer's that releases ends it just so.
    let gone = Completer::new(rig.store.clone(), rig.other()).handle(
        "charges",
        resumable(),
        async |op: Operation, _| Ok::<_, BoxError>(op.release().await?),
    );
    drop(claimed(&rig, key(1), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    assert_eq!(pass(&gone).await, UNSETTLED);
    tokio::time::advance(Duration::from_hours(2)).await;
    assert_eq!((pass(&gone).await, pass(&completer).await, rig.runs()), (NOTHING, NOTHING, 0));
}

#[tokio::test(start_paused = true)]
async fn t18_what_cannot_be_finished_is_tried_again_later_and_seldomer() {
    let rig = Rig::new();
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE);
    let completer = completer(&rig, async |mut op: Operation| {
        // What is recorded is not released but handed on.
        let _: u64 = op.effect("drafted", Effect::natural(), async |_| Ok(1)).await?;
        Err("the provider is away".into())
    });
    let completer = completer.grace(Duration::ZERO);
    for (minutes, runs) in [(0, 1), (0, 1), (1, 2), (1, 2), (1, 3), (3, 3), (1, 4)] {
        rig.elapse(Duration::from_mins(minutes)).await;
        let report = pass(&completer).await;
        assert_eq!(rig.runs(), runs);
        assert!(report == UNSETTLED || report == NOTHING, "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_pass_is_bounded_and_the_longest_abandoned_come_first() {
    let rig = Rig::new();
    abandoned(&rig, 5).await;
    let completer = completer(&rig, pay).batch(2);
    for (settled, done) in [(2, 2), (2, 4), (1, 5), (0, 5)] {
        assert_eq!(pass(&completer).await, Report { settled, ..NOTHING });
        for number in 0..5 {
            let record = rig.store.find(&key(number)).await.expect("memory answers").expect("it is kept");
            assert_eq!(record.state.ended_at().is_some(), number < done, "number {number} of {done}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t18_so_many_run_at_a_time_and_no_more() {
    let rig = Rig::new();
    abandoned(&rig, 7).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (Arc::clone(&now), Arc::clone(&most));
    let completer = completer(&rig, move |op| {
        let (running, peak) = (Arc::clone(&running), Arc::clone(&peak));
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            pay(op).await
        }
    });
    assert_eq!(pass(&completer.at_once(3)).await, Report { settled: 7, ..NOTHING });
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn l03_those_that_nobody_here_finishes_hide_no_others() {
    let rig = Rig::new();
    for number in 0..6 {
        let claim = claimed(&rig, key(number), None).await;
        let fax = RecoveryPoint::new(1, "fax", r#"{"v":1,"effects":[{"name":"fax","open":"never"}]}"#);
        if number < 3 {
            rig.store.checkpoint(&claim, &fax.expect("valid"), Rerun::Never).await.expect("its own");
        }
        rig.clock.advance(Duration::from_millis(1));
    }
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let completer = completer(&rig, pay).batch(2);
    let (mut settled, mut passes) = (0, 0);
    while settled == 0 {
        settled += pass(&completer).await.settled;
        passes += 1;
        assert!(passes <= 4, "each pass sees two more");
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_black_box_that_never_began_is_finished_and_one_that_broke_is_not_run_again() {
    let rig = Rig::new();
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let runs = Arc::clone(&rig.runs);
    let policy = Policy::opaque().lease(LEASE).wait(Duration::from_mins(5));
    let completer = Completer::new(rig.store.clone(), rig.other()).handle("charges", policy, move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Err::<idem::StoredResponse, BoxError>("it broke".into()) }
    });
    assert_eq!(pass(&completer).await, UNSETTLED);
    rig.elapse(Duration::from_mins(3)).await;
    assert_eq!((pass(&completer).await, rig.runs()), (NOTHING, 1), "it is in doubt");
    assert!(rig.store.stuck(1).await.expect("memory answers")[0].in_doubt);
}

#[tokio::test(start_paused = true)]
async fn f02_a_store_that_is_away_fails_the_pass_and_no_operation() {
    let rig = Rig::new();
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    rig.faulty.lose_request(idem::conformance::Call::Stuck);
    let runs = Arc::clone(&rig.runs);
    let completer = Completer::new(rig.faulty.clone(), rig.engine.clone()).handle(
        "charges",
        resumable(),
        move |op, _| {
            runs.fetch_add(1, Ordering::SeqCst);
            pay(op)
        },
    );
    assert!(completer.pass().await.is_err());
    rig.faulty.lose_reply(idem::conformance::Call::Complete);
    assert_eq!((pass(&completer).await, rig.runs()), (SETTLED, 1));
    assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
}
