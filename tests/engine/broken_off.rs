//! Runs that are broken off at each of their waits: by a caller who leaves, by work that gives up or panics, by a store that
//! panics.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::poll;
use idem::{Answer, Ending, ErrorKind, RunError, State};
use tokio::time::timeout;

use crate::{
    gateway::{ONCE, work_error},
    rig::{LEASE, Ran, Result, answer, engine_error, executed, resumable},
    shop::{End, Shop, each_kind},
};

/// What the work does once it has given up.
#[derive(Clone, Copy, Debug)]
enum Then {
    Fails,
    Answers,
    Panics,
}

/// The work until it has waited so often: dropped then, where it stands. `None` if it was.
async fn given_up<T>(work: impl Future<Output = T> + Send, waits: usize) -> Option<T> {
    let (mut work, mut left) = (pin!(work), waits);
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A run whose work gives up after so many waits, and whether it did.
async fn run_until(shop: &Shop, waits: usize, then: Then) -> (Ran, bool) {
    let gave_up = Arc::new(AtomicBool::new(false));
    let (inside, noted) = (shop.clone(), Arc::clone(&gave_up));
    let work = async move |op| -> Result<Ending> {
        if let Some(done) = given_up(inside.work(op), waits).await {
            return Ok(done?.into());
        }
        noted.store(true, Ordering::SeqCst);
        match then {
            Then::Fails => Err("it took too long".into()),
            Then::Answers => Ok(answer(503, "come again").into()),
            Then::Panics => panic!("it took too long"),
        }
    };
    let ran = shop.rig.run_on(&shop.engine, resumable(), work).await;
    (ran, gave_up.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn s15_work_that_is_dropped_or_panics_at_any_of_its_waits_is_done_once_in_the_end() {
    for (effect, end) in each_kind() {
        for then in [Then::Fails, Then::Answers, Then::Panics] {
            let (mut waits, mut doubts, mut ended) = (0, 0, 0);
            loop {
                let shop = Shop::new(effect, end);
                let (told, gave_up) = run_until(&shop, waits, then).await;
                let point = format!("{effect:?}, {end:?}, {then:?} after {waits} waits: {told:?}");
                doubts += usize::from(shop.settle(&told, &point).await);
                if !gave_up {
                    assert!(executed(&told, "1"), "{point}");
                    break;
                }
                // An end that was begun is carried out; the work's last word comes too late.
                match &told {
                    Ok(Answer::Executed(_)) => ended += 1,
                    Ok(Answer::Released) => assert!(matches!(then, Then::Answers), "{point}"),
                    Err(RunError::Work(_)) => assert!(matches!(then, Then::Fails), "{point}"),
                    Err(RunError::Panicked) => assert!(matches!(then, Then::Panics), "{point}"),
                    _ => assert_eq!(engine_error(&told), Some(ErrorKind::EffectUnknown), "{point}"),
                }
                waits += 1;
            }
            assert!(waits > 7 && ended > 0, "{effect:?} {end:?} {then:?}: {waits} waits, {ended} ended");
            assert_eq!(doubts > 0, effect == ONCE, "{effect:?} {end:?} {then:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s15_a_caller_that_leaves_at_any_moment_of_its_run_stops_nothing() {
    for (effect, end) in each_kind() {
        let mut turns = 0;
        loop {
            let shop = Shop::new(effect, end);
            let caller = shop.clone();
            let mut run = Box::pin(caller.run());
            assert!(poll!(&mut run).is_pending());
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            let answered = poll!(&mut run).is_ready();
            drop(run);
            shop.rig.elapse(Duration::from_secs(1)).await;
            let point = format!("{effect:?}, {end:?}, left after {turns} turns");
            assert!(matches!(shop.rig.record().await.state, State::Completed { .. }), "{point}");
            assert_eq!(shop.charges(), 1, "{point}");
            assert!(!shop.settle(&Ok(Answer::Released), &point).await, "{point}");
            assert_eq!(shop.charges(), 1, "{point}");
            if answered {
                break;
            }
            turns += 1;
        }
        assert!(turns > 10, "{effect:?} {end:?}: {turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn s15_a_caller_that_never_waits_has_asked_for_nothing() {
    for (effect, end) in each_kind() {
        let shop = Shop::new(effect, end);
        drop(shop.run());
        shop.rig.elapse(LEASE).await;
        assert_eq!((shop.waits(), shop.charges()), (0, 0));
    }
}

/// Wherever the store, the provider's client or a commit panics: the caller is told, and the work is done once in the end.
#[tokio::test(start_paused = true)]
async fn b158_a_panic_at_any_wait_of_a_run_is_a_doubt_and_settled() {
    for (effect, end) in each_kind() {
        let (mut wait, mut executions, mut rolled_back, mut unknown) = (0, 0, 0, 0);
        loop {
            let shop = Shop::that_panics_at(wait, effect, end);
            let told = timeout(Duration::from_hours(1), shop.run()).await.expect("it is told");
            let point = format!("{effect:?}, {end:?}, panic at wait {wait}: {told:?}");
            match (work_error(&told), &told) {
                (_, Ok(Answer::Executed(_))) => executions += 1,
                // A commit that panicked before it had happened.
                (Some(ErrorKind::RolledBack), _) => rolled_back += 1,
                // The call itself, or the work beside it.
                (_, Err(RunError::Panicked)) => unknown += 1,
                _ => {
                    assert_eq!(engine_error(&told), Some(ErrorKind::EffectUnknown), "{point}");
                    unknown += 1;
                }
            }
            shop.settle(&told, &point).await;
            if shop.waits() <= wait {
                break;
            }
            wait += 1;
        }
        let transactions = if end == End::Transaction { 2 } else { 1 };
        assert_eq!(rolled_back, transactions, "{effect:?} {end:?}");
        // Two of the call, and one in each open transaction.
        assert_eq!(unknown, 2 + transactions, "{effect:?} {end:?}");
        assert!(executions > 7, "{effect:?} {end:?}: {executions}");
    }
}
