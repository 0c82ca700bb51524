//! Look-ups by effect name, that settle what is in doubt.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, ClaimOutcome, ClaimRequest, Effect, Finding, KeyId, KeyStore, Maintain, Operation,
    ProviderKey, Reconciler, RecoveryPoint, Report, Rerun, RunError, Scope, StoredResponse,
    conformance::Call, policy::PROVIDER_MAX_DELAY,
};

use crate::rig::{LEASE, Ran, Rig, executed, resumable, same};

const SETTLED: Report = Report { settled: 1, unsettled: 0, left: 0 };
const UNSETTLED: Report = Report { settled: 0, unsettled: 1, left: 0 };
const LEFT: Report = Report { settled: 0, unsettled: 0, left: 1 };

async fn notify(rig: &Rig, calls: &Arc<AtomicUsize>) -> Ran {
    let calls = Arc::clone(calls);
    rig.run(resumable(), async move |mut op: Operation| {
        let call = async |_: ProviderKey| {
            let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
            if call == 1 { Err(std::io::Error::other("the connection broke").into()) } else { Ok(call) }
        };
        let sent: usize = op.effect("sms", Effect::at_most_once(), call).await?;
        Ok(op.complete(StoredResponse::json(202, &sent)?).await?)
    })
    .await
}

/// An operation whose call broke off, with its lease over for as long as a call may be under way.
async fn in_doubt() -> (Rig, Arc<AtomicUsize>) {
    let (rig, calls) = (Rig::new(), Arc::default());
    assert!(matches!(notify(&rig, &calls).await, Err(RunError::Work(_))));
    rig.clock.advance(LEASE + PROVIDER_MAX_DELAY);
    assert!(matches!(notify(&rig, &calls).await, Ok(Answer::InDoubt { .. })));
    (rig, calls)
}

fn finds(
    rig: &Rig,
    found: impl Fn() -> Result<Finding<usize>, BoxError> + Send + Sync + 'static,
) -> Reconciler {
    Reconciler::new(rig.faulty.clone()).look_up("sms", move |_| std::future::ready(found()))
}

#[tokio::test(start_paused = true)]
async fn s16_what_is_found_to_have_happened_is_not_called_again() {
    let (rig, calls) = in_doubt().await;
    assert_eq!(finds(&rig, || Ok(Finding::Happened(7))).pass().await.expect("memory answers"), SETTLED);
    assert!(executed(&notify(&rig, &calls).await, "7"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn s16_what_is_found_not_to_have_happened_is_called() {
    let (rig, calls) = in_doubt().await;
    assert_eq!(finds(&rig, || Ok(Finding::DidNotHappen)).pass().await.expect("memory answers"), SETTLED);
    assert!(executed(&notify(&rig, &calls).await, "2"));
}

#[tokio::test(start_paused = true)]
async fn s13_nothing_is_looked_up_while_a_call_may_be_under_way() {
    let (rig, calls) = (Rig::new(), Arc::default());
    assert!(matches!(notify(&rig, &calls).await, Err(RunError::Work(_))));
    rig.clock.advance(LEASE + PROVIDER_MAX_DELAY.saturating_sub(Duration::from_millis(1)));
    let reconciler = finds(&rig, || panic!("it is too early"));
    assert_eq!(reconciler.pass().await.expect("memory answers"), Report::default());
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(
        reconciler.pass().await.expect("memory answers"),
        UNSETTLED,
        "a look-up that panics is one that failed"
    );
}

#[tokio::test(start_paused = true)]
async fn l06_what_cannot_be_told_yet_is_looked_up_again_later_and_seldomer() {
    let (rig, _) = in_doubt().await;
    let looked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&looked);
    let reconciler = finds(&rig, move || match counting.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(Finding::StillUnknown),
        _ => Err("the provider is away".into()),
    });
    for (minutes, looks) in [(0, 1), (0, 1), (1, 2), (1, 2), (1, 3), (3, 3), (1, 4)] {
        rig.elapse(Duration::from_mins(minutes)).await;
        reconciler.pass().await.expect("memory answers");
        assert_eq!(looked.load(Ordering::SeqCst), looks);
    }
}

#[tokio::test(start_paused = true)]
async fn s16_an_effect_that_nobody_can_look_up_is_left_to_people() {
    let (rig, calls) = in_doubt().await;
    let reconciler = Reconciler::new(rig.store.clone());
    assert_eq!(reconciler.pass().await.expect("memory answers"), LEFT);
    assert!(matches!(notify(&rig, &calls).await, Ok(Answer::InDoubt { .. })));
    let hidden = Reconciler::new(rig.store.clone()).look_up("mail", async |_| Ok(Finding::Happened(1)));
    assert_eq!(hidden.pass().await.expect("memory answers"), LEFT, "of another name");
}

#[tokio::test(start_paused = true)]
async fn s08_a_record_that_moved_on_is_not_settled() {
    let (rig, calls) = in_doubt().await;
    let (store, seen) = (rig.store.clone(), rig.record().await);
    // While the provider is asked, somebody decides otherwise.
    let reconciler = Reconciler::new(rig.store.clone()).look_up("sms", move |_| {
        let (store, seen) = (store.clone(), seen.clone());
        async move {
            store.resolve(&seen, &idem::Decision::Fail, Duration::from_hours(1)).await?;
            Ok(Finding::Happened(7))
        }
    });
    assert_eq!(reconciler.pass().await.expect("memory answers"), UNSETTLED);
    assert!(executed(&notify(&rig, &calls).await, "2"), "the person's decision stands");
}

#[tokio::test(start_paused = true)]
async fn p08_a_decision_whose_reply_was_lost_is_recognised() {
    let (rig, calls) = in_doubt().await;
    rig.faulty.lose_reply(Call::Resolve);
    assert_eq!(finds(&rig, || Ok(Finding::Happened(7))).pass().await.expect("memory answers"), SETTLED);
    assert!(executed(&notify(&rig, &calls).await, "7"));
}

#[tokio::test(start_paused = true)]
async fn l03_those_that_wait_for_their_turn_do_not_hide_the_others() {
    let (rig, calls) = (Rig::new(), Arc::default());
    // In doubt for longer than the other, of an effect that nobody can look up.
    let other = KeyId::new(Scope::new("tenant 8").expect("valid"), "k".parse().expect("valid"));
    let request = ClaimRequest::new(other, same(), LEASE, Duration::from_hours(1)).expect("valid");
    let Ok(ClaimOutcome::Claimed(claim)) = rig.store.claim(&request).await else { panic!("it is free") };
    let fax = br#"{"v":1,"effects":[{"name":"fax","open":"never"}]}"#;
    let point = RecoveryPoint::new(1, "fax", fax.to_vec()).expect("valid");
    rig.store.checkpoint(&claim, &point, Rerun::Never).await.expect("its own");
    rig.store.renew(&claim, Duration::ZERO).await.expect("its own");
    assert!(matches!(notify(&rig, &calls).await, Err(RunError::Work(_))));
    rig.clock.advance(LEASE + PROVIDER_MAX_DELAY);
    let reconciler = finds(&rig, || Ok(Finding::Happened(7))).batch(1);
    assert_eq!(reconciler.pass().await.expect("memory answers"), LEFT);
    assert_eq!(reconciler.pass().await.expect("memory answers"), SETTLED);
    assert!(executed(&notify(&rig, &calls).await, "7"));
}
