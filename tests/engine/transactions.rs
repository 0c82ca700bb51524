//! Transactions of the store's in which an operation comes on or ends: joined, committed, settled.
//!
//! A commit here writes the record as a store's last statement would, or does not, and says so, or does not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, Claim, Completed, Effect, Engine, Error, ErrorKind, KeyStore as _, MemoryStore,
    Operation, RecoveryPoint, Rerun, RunError, State, StoreError, StoreErrorKind, StoredResponse,
    conformance::Call,
    policy::RETENTION,
    transaction::{InTransaction, Step},
};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use crate::{
    gateway::{KEYED, ONCE, work_error},
    rig::{LEASE, Ran, Rig, answer, engine_error, executed, opaque, replayed, resumable},
};

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    /// It happened, and the answer was lost.
    Hidden,
    /// It did not happen, and nobody said so.
    Vanished,
    /// The server undid it and said so.
    Undone,
    /// The record was not under the fence.
    Overtaken,
}

impl Fate {
    fn happens(self) -> bool {
        matches!(self, Self::Committed | Self::Hidden)
    }

    fn told(self) -> Result<(), StoreError> {
        let kind = match self {
            Self::Committed => return Ok(()),
            Self::Hidden | Self::Vanished => StoreErrorKind::Unknown,
            Self::Undone => StoreErrorKind::Unavailable,
            Self::Overtaken => StoreErrorKind::ClaimLost,
        };
        Err(StoreError::new(kind, "commit"))
    }
}

/// Ends the operation in a transaction.
async fn end(
    tx: InTransaction,
    store: MemoryStore,
    fate: Fate,
    body: &'static str,
) -> Result<Completed, Error> {
    let claim = Arc::clone(tx.claim());
    let commit = move |kept: StoredResponse| async move {
        if fate.happens() {
            store.complete(&claim, &kept, RETENTION).await.expect("the fence is current");
        }
        fate.told()
    };
    tx.complete(answer(201, body), commit).await
}

/// A run that ends in a transaction.
async fn phase(rig: &Rig, fate: Fate) -> Ran {
    phase_on(rig, &rig.engine, fate).await
}

async fn phase_on(rig: &Rig, engine: &Engine, fate: Fate) -> Ran {
    let store = rig.store.clone();
    let work = async move |op: Operation| Ok(end(op.join_transaction().await?, store, fate, "paid").await?);
    rig.run_on(engine, resumable(), work).await
}

/// A step that counts how often its work was done, and returns the count.
async fn step(
    op: &mut Operation,
    store: &MemoryStore,
    name: &str,
    done: &AtomicUsize,
    fate: Fate,
) -> Result<usize, Error> {
    let step = match op.join_step::<usize>(name).await? {
        Step::Recorded(count) => return Ok(count),
        Step::Begun(step) => step,
    };
    let count = done.load(Ordering::SeqCst) + 1;
    let (claim, store): (Arc<Claim>, _) = (Arc::clone(step.claim()), store.clone());
    if fate.happens() {
        done.store(count, Ordering::SeqCst);
    }
    let commit = move |point: RecoveryPoint, rerun: Rerun| async move {
        if fate.happens() {
            store.checkpoint(&claim, &point, rerun).await.expect("the fence is current");
        }
        fate.told()
    };
    step.checkpoint(count, commit).await
}

fn kind(result: &Result<Completed, Error>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

#[tokio::test(start_paused = true)]
async fn o01_an_answer_committed_in_a_transaction_is_what_is_sent_and_replayed() {
    let rig = Rig::new();
    assert!(executed(&phase(&rig, Fate::Committed).await, "paid"));
    assert!(replayed(&phase(&rig, Fate::Committed).await, "paid"));
    assert_eq!((rig.runs(), rig.faulty.seen(Call::Complete)), (1, 0));
    // The notice to a cache delays nobody: it is on its way when the answer leaves.
    rig.elapse(Duration::from_millis(250)).await;
    assert_eq!(rig.faulty.seen(Call::Ended), 1);
}

#[tokio::test(start_paused = true)]
async fn p07_a_commit_that_was_not_answered_is_settled_by_claiming_again() {
    let rig = Rig::new();
    assert!(executed(&phase(&rig, Fate::Hidden).await, "paid"));
    assert_eq!((rig.faulty.seen(Call::Claim), rig.faulty.seen(Call::Complete)), (2, 0));

    let rig = Rig::new();
    let ran = phase(&rig, Fate::Vanished).await;
    assert_eq!(work_error(&ran), Some(ErrorKind::RolledBack));
    assert!(
        matches!(rig.record().await.state, State::Failed { .. }),
        "nothing of it is there, and it may be tried again"
    );
    assert!(executed(&phase(&rig, Fate::Committed).await, "paid"));
    assert_eq!(rig.faulty.seen(Call::Complete), 0, "an unknown commit is never settled by an end beside it");
}

#[tokio::test(start_paused = true)]
async fn p07_a_settlement_is_sent_again_until_it_is_answered() {
    for fate in [Fate::Hidden, Fate::Vanished] {
        let rig = Rig::new();
        rig.faulty.pass(Call::Claim);
        rig.faulty.fail(Call::Claim, StoreErrorKind::Unavailable);
        rig.faulty.lose_reply(Call::Claim);
        rig.faulty.lose_request(Call::Claim);
        let ran = phase(&rig, fate).await;
        assert_eq!(executed(&ran, "paid"), fate == Fate::Hidden, "{ran:?}");
        assert_eq!(rig.faulty.seen(Call::Claim), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_commit_that_cannot_be_settled_is_neither_a_success_nor_a_failure() {
    for fate in [Fate::Hidden, Fate::Vanished] {
        let rig = Rig::new();
        rig.faulty.pass(Call::Claim);
        for _ in 0..100 {
            rig.faulty.fail(Call::Claim, StoreErrorKind::Unavailable);
        }
        let ran = phase(&rig, fate).await;
        assert_eq!(engine_error(&ran), Some(ErrorKind::Unknown), "{ran:?}");
        assert_eq!((rig.faulty.seen(Call::Release), rig.faulty.seen(Call::Complete)), (0, 0));
        rig.clock.advance(LEASE);
        let again = phase_on(&rig, &rig.other(), Fate::Committed).await;
        assert!(
            if fate.happens() { replayed(&again, "paid") } else { executed(&again, "paid") },
            "{again:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn s08_an_owner_that_was_overtaken_before_its_commit_answers_in_progress() {
    // Another owner took over while the commit was unknown.
    let rig = Rig::new();
    let (clock, other) = (rig.clock.clone(), rig.clone());
    let ran = rig.run(resumable(), async move |op: Operation| {
        let tx = op.join_transaction().await?;
        let commit = move |_| async move {
            clock.advance(LEASE);
            let another = other.other();
            let work = async |op: Operation| Ok(op.complete(answer(201, "by another")).await?);
            assert!(executed(&other.run_on(&another, resumable(), work).await, "by another"));
            Fate::Vanished.told()
        };
        Ok(tx.complete(answer(201, "paid"), commit).await?)
    });
    // The operation has an answer, and it is not the one of the transaction that vanished.
    assert!(executed(&ran.await, "by another"));

    let rig = Rig::new();
    let ran = phase(&rig, Fate::Overtaken).await;
    assert!(matches!(ran, Ok(Answer::InProgress { .. })), "{ran:?}");
    assert_eq!(
        (rig.faulty.seen(Call::Release), rig.faulty.seen(Call::Renew)),
        (0, 0),
        "a loser writes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn s01_a_settlement_that_finds_nothing_gives_up_the_key_that_it_took() {
    let rig = Rig::new();
    let (store, clock) = (rig.store.clone(), rig.clock.clone());
    let ran = rig.run(resumable(), async move |op: Operation| {
        let tx = op.join_transaction().await?;
        let claim = Arc::clone(tx.claim());
        let commit = move |kept: StoredResponse| async move {
            // It was committed, and has been kept for as long as was promised.
            store.complete(&claim, &kept, RETENTION).await.expect("the fence is current");
            clock.advance(RETENTION * 2);
            Fate::Hidden.told()
        };
        Ok(tx.complete(answer(201, "paid"), commit).await?)
    });
    assert!(matches!(ran.await, Ok(Answer::InProgress { .. })));
    let record = rig.record().await;
    assert_eq!((record.state, record.token), (State::InProgress, 1), "a new operation, that nobody runs");
    assert!(executed(&phase(&rig, Fate::Committed).await, "paid"), "and its key is free");
}

#[tokio::test(start_paused = true)]
async fn t15_an_end_that_was_undone_is_no_end_whatever_the_work_answers() {
    for body in [201, 503] {
        let rig = Rig::new();
        let store = rig.store.clone();
        let ran = rig.run(resumable(), async move |op: Operation| {
            let undone = end(op.join_transaction().await?, store, Fate::Undone, "paid").await;
            assert_eq!(kind(&undone), Some(ErrorKind::RolledBack));
            Ok(answer(body, "all is well"))
        });
        let ran = ran.await;
        match body {
            201 => assert_eq!(
                engine_error(&ran),
                Some(ErrorKind::RolledBack),
                "a success that nothing stands behind"
            ),
            _ => assert!(matches!(ran, Ok(Answer::Released)), "{ran:?}"),
        }
        assert!(matches!(rig.record().await.state, State::Failed { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn t15_a_transaction_that_was_given_up_leaves_the_answer_to_the_work() {
    for dropped in [true, false] {
        let rig = Rig::new();
        let ran = rig.run(resumable(), async move |op: Operation| {
            let tx = op.join_transaction().await?;
            if dropped {
                drop(tx);
                return Ok(answer(409, "out of stock"));
            }
            let _completed = tx.rolled_back().complete(answer(409, "out of stock")).await?;
            Ok(answer(409, "out of stock"))
        });
        assert!(executed(&ran.await, "out of stock"));
        assert!(matches!(rig.record().await.state, State::Completed { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn t05_a_step_is_done_once_and_a_resumed_run_gets_its_result() {
    let (rig, first, second) = (Rig::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let run = async |fails: bool| {
        let (first, second, store) = (Arc::clone(&first), Arc::clone(&second), rig.store.clone());
        let work = async move |mut op: Operation| {
            assert_eq!(step(&mut op, &store, "first", &first, Fate::Committed).await?, 1);
            assert_eq!(step(&mut op, &store, "second", &second, Fate::Hidden).await?, 1);
            if fails { Err("killed".into()) } else { Ok(op.complete(answer(201, "paid")).await?) }
        };
        rig.run(resumable(), work).await
    };
    assert!(matches!(run(true).await, Err(RunError::Work(_))));
    assert_eq!(rig.record().await.state, State::InProgress, "what is recorded is handed on, not released");
    assert!(executed(&run(false).await, "paid"));
    assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(rig.record().await.checkpoint, 2);
}

#[tokio::test(start_paused = true)]
async fn t08_a_step_that_was_undone_is_done_again_under_another_number() {
    for fate in [Fate::Undone, Fate::Vanished] {
        let (rig, done) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
        let (store, counted) = (rig.store.clone(), Arc::clone(&done));
        let ran = rig.run(resumable(), async move |mut op: Operation| {
            let undone = step(&mut op, &store, "draft", &counted, fate).await;
            assert_eq!(undone.map_err(|error| error.kind()), Err(ErrorKind::RolledBack));
            assert_eq!(step(&mut op, &store, "draft", &counted, Fate::Committed).await?, 1);
            Ok(op.complete(answer(201, "paid")).await?)
        });
        assert!(executed(&ran.await, "paid"), "{fate:?}");
        assert_eq!((done.load(Ordering::SeqCst), rig.record().await.checkpoint), (1, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_step_that_cannot_be_settled_ends_the_run_and_not_the_operation() {
    for fate in [Fate::Hidden, Fate::Vanished] {
        let (rig, done) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
        rig.faulty.pass(Call::Claim);
        for _ in 0..100 {
            rig.faulty.fail(Call::Claim, StoreErrorKind::Unavailable);
        }
        let run = async |engine: &Engine, fate| {
            let (done, store) = (Arc::clone(&done), rig.store.clone());
            let work = async move |mut op: Operation| {
                let drafted = step(&mut op, &store, "draft", &done, fate).await;
                if drafted.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown) {
                    // Nothing more is done under a claim of which it is not known how far it has come.
                    let told = op.effect("charge", Effect::natural(), async |_| Ok(())).await;
                    assert_eq!(told.map_err(|error| error.kind()), Err(ErrorKind::ClaimLost));
                    return Ok(answer(201, "all is well"));
                }
                Ok(answer(201, "paid"))
            };
            rig.run_on(engine, resumable(), work).await
        };
        let ran = run(&rig.engine, fate).await;
        assert_eq!(engine_error(&ran), Some(ErrorKind::Unknown), "{ran:?}");
        rig.clock.advance(LEASE);
        let again = run(&rig.other(), Fate::Committed).await;
        assert!(executed(&again, "paid"), "{again:?}");
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn t04_a_recorded_step_is_passed_before_the_end_and_a_name_used_once() {
    let (rig, done) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
    let (store, counted) = (rig.store.clone(), Arc::clone(&done));
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        step(&mut op, &store, "draft", &counted, Fate::Committed).await?;
        let twice = step(&mut op, &store, "draft", &counted, Fate::Committed).await;
        assert_eq!(twice.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        let as_effect = op.effect("draft", KEYED, async |_| Ok(7)).await;
        assert_eq!(as_effect.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        Err::<StoredResponse, BoxError>("killed".into())
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    let ran = rig.run(resumable(), async move |op: Operation| {
        let refused = op.join_transaction().await.expect_err("the step was renamed");
        Err::<StoredResponse, BoxError>(refused.into())
    });
    assert_eq!(work_error(&ran.await), Some(ErrorKind::Invalid));
    assert_eq!((done.load(Ordering::SeqCst), rig.record().await.state), (1, State::InProgress));
}

#[tokio::test(start_paused = true)]
async fn t12_a_step_is_none_of_an_opaque_run_and_a_transaction_may_end_one() {
    let rig = Rig::new();
    let store = rig.store.clone();
    let ran = rig.run(opaque(), async move |mut op: Operation| {
        let refused = op.join_step::<()>("draft").await;
        assert_eq!(refused.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        Ok(end(op.join_transaction().await?, store, Fate::Hidden, "paid").await?)
    });
    assert!(executed(&ran.await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn l09_nothing_is_renewed_while_a_transaction_is_open_and_at_once_after_it() {
    let rig = Rig::new();
    let (inside, done) = (rig.clone(), Arc::new(AtomicUsize::new(0)));
    let ran = rig.run(resumable(), async move |mut op: Operation| {
        let Step::Begun(step) = op.join_step::<usize>("draft").await? else { panic!("it is new") };
        let before = inside.faulty.seen(Call::Renew);
        inside.elapse(LEASE * 3).await;
        assert_eq!(inside.faulty.seen(Call::Renew), before, "the lock on the record holds");
        assert!(timeout(Duration::ZERO, op.lost()).await.is_err(), "and the claim is not lost");
        let (claim, store) = (Arc::clone(step.claim()), inside.store.clone());
        let commit = move |point: RecoveryPoint, rerun: Rerun| async move {
            store.checkpoint(&claim, &point, rerun).await
        };
        assert_eq!(step.checkpoint(1, commit).await?, 1);
        assert_eq!(inside.faulty.seen(Call::Renew), before + 1);
        // The lease is good for a call again.
        op.effect("charge", ONCE, async |_| Ok(done.fetch_add(1, Ordering::SeqCst))).await?;
        Ok(op.complete(answer(201, "paid")).await?)
    });
    assert!(executed(&ran.await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn s15_a_commit_goes_on_when_its_work_is_dropped_and_its_answer_is_the_answer() {
    for fate in [Fate::Committed, Fate::Hidden, Fate::Vanished, Fate::Undone, Fate::Overtaken] {
        let rig = Rig::new();
        let (store, (go, wait)) = (rig.store.clone(), oneshot::channel::<()>());
        let ran = rig.run(resumable(), async move |op: Operation| {
            let tx = op.join_transaction().await?;
            let claim = Arc::clone(tx.claim());
            let commit = move |kept: StoredResponse| async move {
                let _ = wait.await;
                if fate.happens() {
                    store.complete(&claim, &kept, RETENTION).await.expect("the fence is current");
                }
                fate.told()
            };
            // The work's own time-out.
            let dropped = timeout(Duration::from_millis(1), tx.complete(answer(201, "paid"), commit)).await;
            assert!(dropped.is_err());
            drop(go);
            Ok(answer(504, "too slow"))
        });
        let ran = ran.await;
        match fate {
            Fate::Committed | Fate::Hidden => assert!(executed(&ran, "paid"), "{ran:?}"),
            Fate::Vanished | Fate::Undone => assert!(matches!(ran, Ok(Answer::Released)), "{fate:?} {ran:?}"),
            Fate::Overtaken => assert!(matches!(ran, Ok(Answer::InProgress { .. })), "{ran:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n04_a_transaction_in_a_task_of_its_own_commits_nothing_once_its_work_has_returned() {
    let rig = Rig::new();
    let (store, returned, (tell, told)) = (rig.store.clone(), Arc::new(Notify::new()), oneshot::channel());
    let waits = Arc::clone(&returned);
    let ran = rig.run(resumable(), async move |op: Operation| {
        let tx = op.join_transaction().await?;
        tokio::spawn(async move {
            waits.notified().await;
            let _ = tell.send(end(tx, store, Fate::Committed, "paid").await);
        });
        Ok(answer(200, "all is well"))
    });
    assert_eq!(engine_error(&ran.await), Some(ErrorKind::Invalid), "an answer that nothing stands behind");
    returned.notify_one();
    assert_eq!(kind(&told.await.expect("it answers")), Some(ErrorKind::ClaimLost));
    assert_eq!(rig.record().await.state, State::InProgress);
}

#[tokio::test(start_paused = true)]
async fn s15_a_draining_engine_drops_no_work_with_an_open_transaction() {
    let rig = Rig::new();
    let (store, go) = (rig.store.clone(), Arc::new(Notify::new()));
    let wait = Arc::clone(&go);
    let inside = rig.clone();
    let run = tokio::spawn(async move {
        inside
            .run(resumable(), async move |op: Operation| {
                let tx = op.join_transaction().await?;
                wait.notified().await;
                Ok(end(tx, store, Fate::Committed, "paid").await?)
            })
            .await
    });
    rig.started(1).await;
    let drained = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.drain(Duration::from_secs(1)).await }
    });
    rig.elapse(Duration::from_secs(2)).await;
    go.notify_one();
    let ran: Ran = run.await.expect("no panic");
    assert!(executed(&ran, "paid"), "{ran:?}");
    assert_eq!(drained.await.expect("no panic"), 0);
}
