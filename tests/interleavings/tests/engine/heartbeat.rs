//! Renewals against the end of a run, and an owner that lost its claim.

use std::{future::pending, time::Duration};

use idem_core::{Answer, Engine, Operation, State, StoredResponse};
use idem_interleavings::check;
use scheduled::sync::oneshot;
use shuttle::future::block_on;

use crate::rig::{LEASE, Ran, Rig, answer, executed, pay, refused, resumable};

#[test]
fn l08_no_renewal_lands_after_a_hand_on() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                // The first renewal is due at some time of the drain, which has no grace.
                Rig::let_pass(LEASE / 3);
                let engine = rig.engine();
                let caller = rig.call(&engine, "a", resumable(), async |_: Operation| {
                    Ok(pending::<StoredResponse>().await)
                });
                assert_eq!(engine.drain(Duration::ZERO).await, 0);
                let ran = caller.await.expect("no panic");
                assert!(refused(&ran), "{ran:?}");
                let next = rig.call(&rig.engine(), "a", resumable(), pay).await.expect("no panic");
                assert!(executed(&next), "the key was handed on: {next:?}; {:?}", rig.wire.log());
            });
        },
        &["an end beside a renewal"],
    );
}

#[test]
fn s08_a_loser_of_its_claim_never_answers_from_memory() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let cut_off = Engine::new(rig.wire.clone().without_renewals());
                let (started, has_started) = oneshot::channel();
                let owner = rig.call(&cut_off, "a", resumable(), async move |op: Operation| {
                    let _ = started.send(());
                    // It goes on when it should stop.
                    op.lost().await;
                    op.complete(answer(201, "paid by the first")).await
                });
                has_started.await.expect("the key is free");
                Rig::let_pass(LEASE + Duration::from_secs(2));
                let rival =
                    rig.call(&rig.engine(), "a", resumable().wait(LEASE + Duration::from_secs(1)), pay);
                let ran = [owner.await.expect("no panic"), rival.await.expect("no panic")];
                let record = rig.record("a").await.expect("it was claimed");
                let State::Completed { response, .. } = record.state else {
                    panic!("nobody ended it: {ran:?}")
                };
                let sent = |ran: &Ran| match ran {
                    Ok(Answer::Executed(sent) | Answer::Replayed(sent)) => Some(sent.clone()),
                    _ => None,
                };
                let answers: Vec<_> = ran.iter().filter_map(sent).collect();
                assert!(!answers.is_empty() && answers.iter().all(|sent| *sent == response), "{ran:?}");
            });
        },
        &["a loser believes itself", "torn step"],
    );
}
