//! A claim whose answer came late.

use std::time::Duration;

use idem::{ErrorKind, conformance::Call};

use crate::rig::{Rig, engine_error, executed, opaque, pay, replayed, resumable};

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
