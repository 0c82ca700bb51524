//! Leases are renewed while the work runs, and a lost one is noticed in time.

use std::{sync::Arc, time::Duration};

use idem::{Answer, Maintain, Operation, Policy, StoreErrorKind, conformance::Call};
use tokio::sync::Notify;

use crate::rig::{LEASE, Ran, Rig, executed, id, pay, resumable};

/// A run whose work waits until it is told to pay, and says when its claim may be lost.
struct Slow {
    run: tokio::task::JoinHandle<Ran>,
    go: Arc<Notify>,
    lost: Arc<tokio::sync::Semaphore>,
}

impl Slow {
    async fn start(rig: &Rig, policy: Policy) -> Self {
        let (go, lost) = (Arc::new(Notify::new()), Arc::new(tokio::sync::Semaphore::new(0)));
        let (wait, tell, rig) = (Arc::clone(&go), Arc::clone(&lost), rig.clone());
        let before = rig.runs();
        let counted = rig.clone();
        let run = tokio::spawn(async move {
            rig.run(policy.clone(), async move |op: Operation| {
                let mut told = false;
                loop {
                    tokio::select! {
                        () = wait.notified() => break,
                        () = op.lost(), if !told => { told = true; tell.add_permits(1); }
                    }
                }
                pay(op).await
            })
            .await
        });
        counted.started(before + 1).await;
        Self { run, go, lost }
    }

    fn is_lost(&self) -> bool {
        self.lost.available_permits() > 0
    }

    async fn finish(self) -> Ran {
        self.go.notify_one();
        self.run.await.expect("no panic")
    }
}

#[tokio::test(start_paused = true)]
async fn l09_a_slow_owner_keeps_its_lease() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    for _ in 0..10 {
        rig.elapse(LEASE / 2).await;
        assert!(matches!(rig.run_on(&rig.other(), resumable(), pay).await, Ok(Answer::InProgress { .. })));
    }
    assert!(!slow.is_lost());
    // 150 s of work, one renewal every 10 s or so.
    assert!((14..=16).contains(&rig.faulty.seen(Call::Renew)), "{}", rig.faulty.seen(Call::Renew));
    assert!(executed(&slow.finish().await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn b026_one_failed_renewal_is_no_lost_lease() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    rig.faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    rig.faulty.lose_request(Call::Renew);
    rig.faulty.lose_reply(Call::Renew);
    rig.elapse(LEASE * 2).await;
    assert!(!slow.is_lost());
    assert!(executed(&slow.finish().await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn l09_renewals_that_fail_tell_the_work_before_the_lease_can_have_ended() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    for _ in 0..100 {
        rig.faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    }
    while !slow.is_lost() {
        assert!(rig.clock.now() < rig.record().await.lease_until, "the lease ended unnoticed");
        rig.elapse(Duration::from_millis(250)).await;
    }
    assert!(rig.clock.now() < rig.record().await.lease_until, "told after the lease had ended");
    // Nobody else came: the fence is still current.
    assert!(executed(&slow.finish().await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn l10_the_owner_counts_its_lease_from_when_it_asked_and_not_from_the_reply() {
    let rig = Rig::new();
    let mut claim = rig.faulty.hold_reply(Call::Claim);
    for _ in 0..100 {
        rig.faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    }
    let starting = tokio::spawn({
        let rig = rig.clone();
        async move { Slow::start(&rig, resumable().settle_within(LEASE)).await }
    });
    claim.arrived().await;
    rig.elapse(LEASE * 2 / 3).await;
    claim.release();
    let slow = starting.await.expect("no panic");
    while !slow.is_lost() {
        assert!(rig.clock.now() < rig.record().await.lease_until, "the lease ended unnoticed");
        rig.elapse(Duration::from_millis(250)).await;
    }
    assert!(executed(&slow.finish().await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn l09_a_takeover_is_noticed_by_the_next_renewal() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    // The host was paused: the store's clock ran, this process' did not.
    rig.clock.advance(LEASE);
    assert!(executed(&rig.run_on(&rig.other(), resumable(), pay).await, "paid"));
    rig.elapse(LEASE / 2).await;
    assert!(slow.is_lost());
    assert!(matches!(slow.finish().await, Ok(Answer::InProgress { .. })));
}

#[tokio::test(start_paused = true)]
async fn max_execution_ends_the_renewals() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable().max_execution(LEASE * 2)).await;
    rig.elapse(LEASE * 2).await;
    assert!(slow.is_lost());
    rig.elapse(LEASE * 2).await;
    assert!(rig.store.stuck(10).await.expect("memory answers").iter().any(|stuck| stuck.record.id == id()));
    assert!(executed(&rig.run_on(&rig.other(), resumable(), pay).await, "paid"), "taken over");
    assert!(matches!(slow.finish().await, Ok(Answer::InProgress { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_answered_before_the_end_is_sent() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    let renewal = rig.faulty.hold(Call::Renew);
    rig.elapse(LEASE / 2).await;
    slow.go.notify_one();
    rig.elapse(Duration::from_secs(1)).await;
    assert_eq!(rig.faulty.seen(Call::Complete), 0, "the end waits for the renewal's answer");
    renewal.release();
    assert!(executed(&slow.run.await.expect("no panic"), "paid"));
}

#[tokio::test(start_paused = true)]
async fn b028_a_renewal_never_takes_a_key_back() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    rig.clock.advance(LEASE);
    let other = rig.other();
    assert!(matches!(
        rig.run_on(&other, resumable(), async |op: Operation| Ok(op.release().await?)).await,
        Ok(Answer::Released)
    ));
    let released = rig.record().await;
    rig.elapse(LEASE).await;
    assert_eq!(rig.record().await, released, "renewals of the old owner change nothing");
    assert!(matches!(slow.finish().await, Ok(Answer::InProgress { .. })));
    assert_eq!(rig.record().await, released);
}

#[tokio::test(start_paused = true)]
async fn l09_a_renewed_lease_counts_from_when_it_was_asked_for() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    let mut held = rig.faulty.hold_reply(Call::Renew);
    for _ in 0..100 {
        rig.faulty.fail(Call::Renew, StoreErrorKind::Unavailable);
    }
    // Asked for after a third of the lease, answered late, and the last one that is.
    rig.elapse(LEASE / 3 + Duration::from_secs(1)).await;
    held.arrived().await;
    rig.elapse(LEASE / 2).await;
    assert!(!slow.is_lost());
    held.release();
    rig.elapse(LEASE / 3).await;
    assert!(!slow.is_lost(), "the answer came in time, and counts");
    rig.elapse(LEASE / 6).await;
    assert!(slow.is_lost(), "by the store's count the lease is over a lease after it was asked for");
    assert!(matches!(slow.finish().await, Ok(Answer::Executed(_))), "nobody else came: the fence decides");
}

#[tokio::test(start_paused = true)]
async fn l09_a_renewal_that_is_not_answered_is_none() {
    let rig = Rig::new();
    let slow = Slow::start(&rig, resumable()).await;
    let _held = rig.faulty.hold(Call::Renew);
    rig.elapse(LEASE).await;
    assert!(slow.is_lost());
}
