//! Duplicates that wait for the owner's answer.

use std::time::Duration;

use idem_core::{Answer, Operation, State};
use idem_interleavings::check;
use scheduled::{sync::oneshot, time::Instant};
use shuttle::future::block_on;

use crate::rig::{Call, LEASE, Ran, Rig, answer, executed, pay, replayed, resumable};

const WAIT: Duration = Duration::from_secs(2);

/// Replayed, or told that its time is over, not before it is.
fn waited(ran: &Ran, since: Instant) -> bool {
    replayed(ran) || matches!(ran, Ok(Answer::InProgress { .. }) if since.elapsed() >= WAIT)
}

#[test]
fn s01_one_of_two_callers_runs_and_the_other_waits_for_its_answer() {
    check(
        || {
            block_on(async {
                let (rig, start) = (Rig::new(), Instant::now());
                Rig::let_pass(LEASE / 4);
                let engine = rig.engine();
                let one = rig.call(&engine, "a", resumable().wait(WAIT), pay);
                let other = rig.call(&engine, "a", resumable().wait(WAIT), pay);
                let ran = [one.await.expect("no panic"), other.await.expect("no panic")];
                let owners = ran.iter().filter(|ran| executed(ran)).count();
                let waiters = ran.iter().filter(|ran| waited(ran, start)).count();
                assert_eq!((owners, waiters, rig.works()), (1, 1, 1), "{ran:?}");
            });
        },
        &["torn step"],
    );
}

#[test]
fn s21_a_duplicate_that_waits_holds_no_place() {
    check(
        || {
            block_on(async {
                let (rig, since) = (Rig::new(), Instant::now());
                let (elsewhere, engine) = (rig.engine(), rig.engine().max_running(1));
                let (started, has_started) = oneshot::channel();
                let (end, ends) = oneshot::channel();
                let owner = rig.call(&elsewhere, "a", resumable(), async move |op: Operation| {
                    let _ = started.send(());
                    let _ = ends.await;
                    pay(op).await
                });
                has_started.await.expect("the key is free");
                let waiter = rig.call(&engine, "a", resumable().wait(WAIT), pay);
                // While time stands still the waiter sleeps: the one place must be free for another key.
                let guest = rig.call(&engine, "b", resumable(), pay).await.expect("no panic");
                assert!(executed(&guest), "{guest:?}");
                let _ = end.send(());
                Rig::let_pass(LEASE / 4);
                let ran = waiter.await.expect("no panic");
                assert!(waited(&ran, since), "{ran:?}");
                assert!(executed(&owner.await.expect("no panic")));
                assert_eq!(rig.works(), 2);
            });
        },
        &["a waiter keeps its place"],
    );
}

#[test]
fn s21_a_duplicate_whose_caller_is_gone_asks_once_more_at_most() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let (elsewhere, engine) = (rig.engine(), rig.engine());
                let (started, has_started) = oneshot::channel();
                let (end, ends) = oneshot::channel();
                let owner = rig.call(&elsewhere, "a", resumable(), async move |op: Operation| {
                    let _ = started.send(());
                    let _ = ends.await;
                    pay(op).await
                });
                has_started.await.expect("the key is free");
                Rig::let_pass(LEASE / 4);
                // The work goes with the task of its run: this tells when that is over.
                let (held, is_over) = oneshot::channel::<()>();
                let waiter = rig.call(&engine, "a", resumable().wait(WAIT), move |op| {
                    drop(held);
                    pay(op)
                });
                waiter.abort();
                let _ = waiter.await;
                let before = rig.wire.sent(Call::Claim);
                let _ = is_over.await;
                assert!(rig.wire.sent(Call::Claim) <= before + 1, "{:?}", rig.wire.log());
                let _ = end.send(());
                assert!(executed(&owner.await.expect("no panic")));
                assert_eq!(rig.works(), 1);
            });
        },
        &["a hang-up is not seen"],
    );
}

#[test]
fn l08_a_duplicate_whose_time_is_over_leaves_no_key_behind() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                Rig::let_pass(LEASE / 4);
                let (elsewhere, engine) = (rig.engine(), rig.engine());
                let owner =
                    rig.call(&elsewhere, "a", resumable(), async |_: Operation| Ok(answer(503, "try again")));
                let short = Duration::from_millis(100);
                let waiter = rig.call(&engine, "a", resumable().wait(short), pay);
                let ran = [owner.await.expect("no panic"), waiter.await.expect("no panic")];
                // Nobody crashed and nobody runs: nobody may have the key.
                let record = rig.record("a").await.expect("it was claimed");
                assert_ne!(record.state, State::InProgress, "{ran:?}");
            });
        },
        &["a time-out over a claim"],
    );
}
