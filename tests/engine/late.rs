//! A claim, or a mark, whose answer came late.

use std::time::Duration;

use idem::{
    Decision, ErrorKind, Maintain, Policy,
    conformance::{Call, Held},
    policy::RETENTION,
};
use tokio::task::JoinHandle;

use crate::rig::{LEASE, Ran, Rig, engine_error, executed, opaque, pay, replayed, resumable};

#[tokio::test(start_paused = true)]
async fn s03_work_does_not_start_on_a_claim_that_was_answered_after_its_lease() {
    const SHORT: Duration = Duration::from_secs(1);
    for policy in [resumable(), opaque()] {
        let rig = Rig::new();
        let mut held = rig.faulty.hold_reply(Call::Claim);
        let slow = tokio::spawn({
            let (rig, policy) = (rig.clone(), policy.clone().lease(SHORT));
            async move { rig.run(policy, pay).await }
        });
        held.arrived().await;
        rig.elapse(SHORT * 2).await;
        let other = rig.run_on(&rig.other(), policy.clone(), pay).await;
        assert!(executed(&other, "paid"), "{other:?}");
        held.release();
        let late = slow.await.expect("no panic");
        assert_eq!(engine_error(&late), Some(ErrorKind::Unavailable), "{late:?}");
        assert_eq!(rig.runs(), 1, "by its own count the key was somebody else's");
        assert!(replayed(&rig.run(policy, pay).await, "paid"));
    }
}

#[tokio::test(start_paused = true)]
async fn s03_a_claim_that_was_answered_after_its_lease_is_handed_on() {
    const SHORT: Duration = Duration::from_secs(1);
    let rig = Rig::new();
    let mut held = rig.faulty.hold_reply(Call::Claim);
    let slow = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(resumable().lease(SHORT), pay).await }
    });
    held.arrived().await;
    rig.elapse(SHORT).await;
    held.release();
    let late = slow.await.expect("no panic");
    assert_eq!((engine_error(&late), rig.runs()), (Some(ErrorKind::Unavailable), 0), "{late:?}");
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
}

/// Decides of everything that is in doubt that it did not happen.
async fn nothing_happened(rig: &Rig) {
    for stuck in
        rig.store.stuck(100).await.expect("memory answers").into_iter().filter(|stuck| stuck.in_doubt)
    {
        rig.store.resolve(&stuck.record, &Decision::Fail, RETENTION).await.expect("as it was seen");
    }
}

/// A run whose mark is committed, and the answer to it held.
async fn waiting_for_its_mark(rig: &Rig, policy: Policy) -> (JoinHandle<Ran>, Held) {
    let mut held = rig.faulty.hold_reply(Call::Checkpoint);
    let slow = tokio::spawn({
        let rig = rig.clone();
        async move { rig.run(policy, pay).await }
    });
    held.arrived().await;
    (slow, held)
}

#[tokio::test(start_paused = true)]
async fn s03_work_does_not_start_on_a_mark_that_was_answered_after_the_lease() {
    let rig = Rig::new();
    let (slow, held) = waiting_for_its_mark(&rig, opaque()).await;
    // The host is suspended for two leases: no task of it runs. It looks as if the handler had died before it did anything.
    rig.clock.advance(LEASE * 2);
    nothing_happened(&rig).await;
    assert!(executed(&rig.run_on(&rig.other(), opaque(), pay).await, "paid"));
    held.release();
    tokio::time::advance(LEASE * 2).await;
    let late = slow.await.expect("no panic");
    assert_eq!(rig.runs(), 1, "it was started twice: {late:?}");
    assert_eq!(engine_error(&late), Some(ErrorKind::Unavailable), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn s03_nor_on_one_whose_renewals_were_lost_meanwhile() {
    const SHORT: Duration = Duration::from_secs(3);
    let rig = Rig::new();
    for _ in 0..40 {
        rig.faulty.lose_request(Call::Renew);
    }
    let (slow, held) = waiting_for_its_mark(&rig, opaque().lease(SHORT)).await;
    rig.elapse(SHORT * 2).await;
    nothing_happened(&rig).await;
    assert!(executed(&rig.run_on(&rig.other(), opaque(), pay).await, "paid"));
    held.release();
    let late = slow.await.expect("no panic");
    assert_eq!(rig.runs(), 1, "it was started twice: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn s16_a_mark_that_was_answered_late_is_taken_back() {
    let rig = Rig::new();
    let (slow, held) = waiting_for_its_mark(&rig, opaque()).await;
    rig.clock.advance(LEASE * 2);
    held.release();
    tokio::time::advance(LEASE * 2).await;
    assert_eq!(engine_error(&slow.await.expect("no panic")), Some(ErrorKind::Unavailable));
    assert!(executed(&rig.run(opaque(), pay).await, "paid"), "nothing is in doubt");
    assert_eq!(rig.runs(), 1);
}
