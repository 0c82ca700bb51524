//! A process that stops.

use std::{future::pending, time::Duration};

use idem_core::{Operation, StoredResponse};
use idem_interleavings::check;
use scheduled::sync::oneshot;
use shuttle::{
    future::block_on,
    rand::{Rng as _, thread_rng},
};

use crate::rig::{LONG, Rig, executed, opaque, pay, refused, replayed, resumable};

#[test]
fn l08_nothing_is_sent_once_the_engine_is_drained() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let engine = rig.engine();
                let caller = rig.call(&engine, "a", resumable(), pay);
                assert_eq!(engine.drain(LONG).await, 0);
                let then = (rig.wire.log(), rig.works());
                let ran = caller.await.expect("no panic");
                assert_eq!((rig.wire.log(), rig.works()), then, "after the drain: {ran:?}");
                assert!(if then.1 == 1 { executed(&ran) } else { refused(&ran) }, "{ran:?}");
            });
        },
        &["open, then a place"],
    );
}

#[test]
fn l08_work_that_does_not_end_is_dropped_and_handed_on() {
    check(
        || {
            block_on(async {
                // Time stands still: whoever misses the signal hangs, and that is seen.
                let rig = Rig::new();
                let engine = rig.engine();
                let (started, has_started) = oneshot::channel();
                let caller = rig.call(&engine, "a", resumable(), async move |_: Operation| {
                    let _ = started.send(());
                    Ok(pending::<StoredResponse>().await)
                });
                if thread_rng().gen_bool(0.5) {
                    let _ = has_started.await;
                }
                assert_eq!(engine.drain(Duration::ZERO).await, 0);
                let ran = caller.await.expect("no panic");
                assert!(refused(&ran), "{ran:?}");
                let next = rig.call(&rig.engine(), "a", resumable(), pay).await.expect("no panic");
                assert!(executed(&next), "the next request resumes at once: {next:?}");
            });
        },
        &["look, then subscribe"],
    );
}

#[test]
fn s16_opaque_work_runs_to_its_end_or_was_never_marked() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                let engine = rig.engine();
                let caller = rig.call(&engine, "a", opaque(), pay);
                let left = engine.drain(Duration::ZERO).await;
                let ran = caller.await.expect("no panic");
                let retry = rig.call(&rig.engine(), "a", opaque(), pay).await.expect("no panic");
                // What was stopped before it started is in no doubt: the next request runs it.
                let went = (executed(&ran), refused(&ran), executed(&retry), replayed(&retry));
                assert!(
                    matches!(went, (true, false, false, true) | (false, true, true, false)),
                    "{ran:?}, {retry:?}"
                );
                assert!(left == 0 || executed(&ran), "{left} were left, {ran:?}");
                assert_eq!(rig.works(), 1);
            });
        },
        &["a mark, then a pin"],
    );
}
