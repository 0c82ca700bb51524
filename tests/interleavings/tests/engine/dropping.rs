//! What is dropped, or left behind: a caller's future, one that ends its operation, an operation.

use idem_core::{Answer, Ending, ErrorKind, Operation, State};
use idem_interleavings::check;
use scheduled::{
    select,
    task::{spawn, yield_now},
};
use shuttle::future::block_on;

use crate::rig::{Call, LONG, Rig, Sent, answer, executed, pay, replayed, resumable};

#[test]
fn s15_a_caller_that_is_dropped_stops_nothing() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let engine = rig.engine();
                let caller = rig.call(&engine, "a", resumable(), pay);
                yield_now().await;
                caller.abort();
                let _ = caller.await;
                assert_eq!(engine.drain(LONG).await, 0);
                let state = rig.record("a").await.map(|record| record.state);
                let retry = rig.call(&rig.engine(), "a", resumable(), pay).await.expect("no panic");
                // Nothing has happened, or everything.
                match state {
                    None => assert!(executed(&retry), "{retry:?}"),
                    Some(State::Completed { .. }) => assert!(replayed(&retry), "{retry:?}"),
                    Some(state) => panic!("the run was stopped: {state:?}"),
                }
                assert_eq!(rig.works(), 1);
            });
        },
        &["a run in its caller"],
    );
}

#[test]
fn s15_an_end_that_is_dropped_is_carried_out_whole() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let ran = rig.call(&rig.engine(), "a", resumable(), async |op: Operation| {
                    let patience = async {
                        for _ in 0..3 {
                            yield_now().await;
                        }
                    };
                    // Biased: unbiased it draws by chance, of which no schedule knows.
                    select! {
                        biased;
                        completed = pay(op) => Ok(Ending::from(completed?)),
                        () = patience => Ok(Ending::from(answer(503, "out of patience"))),
                    }
                });
                let ran = ran.await.expect("no panic");
                assert!(executed(&ran), "what is committed is what is sent: {ran:?}");
                let log = rig.wire.log();
                assert!(log.iter().all(|entry| entry.1 != Sent::CutOff), "a statement was cut off: {log:?}");
            });
        },
        &["an end in its caller"],
    );
}

#[test]
fn s21_a_caller_that_is_dropped_in_the_queue_leaves_no_place_taken() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let engine = rig.engine().max_running(1);
                let first = rig.call(&engine, "a", resumable(), pay);
                let gone = rig.call(&engine, "b", resumable(), pay);
                yield_now().await;
                gone.abort();
                let _ = gone.await;
                let last = rig.call(&engine, "c", resumable(), pay);
                assert!(executed(&first.await.expect("no panic")));
                assert!(executed(&last.await.expect("no panic")));
                assert_eq!(engine.drain(LONG).await, 0);
            });
        },
        &["counted, then a place"],
    );
}

#[test]
fn s05_an_operation_that_is_left_behind_ends_as_its_run_does_or_not_at_all() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let (behind, left) = std::sync::mpsc::channel();
                let ran = rig.call(&rig.engine(), "a", resumable(), async move |op: Operation| {
                    let _ = behind.send(spawn(pay(op)));
                    yield_now().await;
                    Ok(answer(200, "done"))
                });
                let ran = ran.await.expect("no panic");
                let left = left.recv().expect("the work started").await.expect("no panic");
                match (left, &ran) {
                    (Ok(_), ran) => assert!(executed(ran), "{ran:?}"),
                    (Err(error), Ok(Answer::Executed(sent))) => {
                        assert_eq!((error.kind(), sent), (ErrorKind::ClaimLost, &answer(200, "done")));
                    }
                    both => panic!("{both:?}"),
                }
                assert_eq!(rig.wire.sent(Call::Complete), 1, "one run ends once");
            });
        },
        &["running, then an end"],
    );
}
