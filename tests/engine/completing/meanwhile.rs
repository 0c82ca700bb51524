//! What others do while a completer is at work.

use std::future::pending;

use tokio::{
    sync::{Barrier, Notify},
    task::JoinSet,
    time::Instant,
};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l06_of_two_completers_and_a_client_one_runs() {
    for _ in 0..100 {
        let rig = Rig::new();
        drop(claimed(&rig, id(), Some(order())).await);
        rig.clock.advance(LEASE + COMPLETE_GRACE);
        let barrier = Arc::new(Barrier::new(3));
        let mut racers = JoinSet::new();
        for _ in 0..2 {
            let (completer, barrier) = (completer(&rig, pay), Arc::clone(&barrier));
            racers.spawn(async move {
                barrier.wait().await;
                let report = pass(&completer).await;
                assert!([SETTLED, UNSETTLED, NOTHING].contains(&report), "{report:?}");
            });
        }
        let client = rig.clone();
        racers.spawn(async move {
            barrier.wait().await;
            let told = client.run(resumable(), pay).await;
            let answered = matches!(told, Ok(Answer::Executed(_) | Answer::Replayed(_)));
            assert!(answered || matches!(told, Ok(Answer::InProgress { .. })), "{told:?}");
        });
        racers.join_all().await;
        assert_eq!(rig.runs(), 1);
        assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_client_at_work_is_not_disturbed() {
    let (rig, enter, leave) = (Rig::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    drop(claimed(&rig, id(), Some(order())).await);
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    let (entered, left) = (Arc::clone(&enter), Arc::clone(&leave));
    let listed = completer(&rig, pay);
    let client = rig.run(resumable(), async move |op| {
        entered.notify_one();
        left.notified().await;
        pay(op).await
    });
    let meanwhile = async {
        enter.notified().await;
        assert_eq!(pass(&listed).await, NOTHING);
        leave.notify_one();
    };
    let (client, ()) = tokio::join!(client, meanwhile);
    assert!(matches!(client, Ok(Answer::Executed(_))) && rig.runs() == 1);
}

/// What was listed may be gone when its turn comes: its claim would begin another operation.
#[tokio::test(start_paused = true)]
async fn s01_an_operation_that_is_forgotten_meanwhile_is_not_begun_anew() {
    let rig = Rig::new();
    abandoned(&rig, 2).await;
    let meanwhile = rig.clone();
    let completer = completer(&rig, move |op| {
        let rig = meanwhile.clone();
        async move {
            let client = rig.other().run(key(1), same(), &resumable(), pay).await;
            assert!(matches!(client, Ok(Answer::Executed(_))), "{client:?}");
            rig.clock.advance(KEEP + LEASE);
            assert_eq!(rig.store.sweep(10).await.expect("memory answers"), 1);
            pay(op).await
        }
    });
    let completer = completer.at_once(1);
    assert_eq!(pass(&completer).await, Report { settled: 1, unsettled: 1, left: 0 });
    assert_eq!(rig.runs(), 1, "of the other nothing runs again");
    let other = rig.store.find(&key(1)).await.expect("memory answers").expect("its claim began it");
    assert!(matches!(other.state, State::Failed { .. }) && other.request.is_none(), "{other:?}");
    rig.clock.advance(LEASE + COMPLETE_GRACE);
    tokio::time::advance(Duration::from_hours(2)).await;
    assert_eq!((pass(&completer).await, rig.runs()), (NOTHING, 1));
}

/// And what took its place may be somebody's: it is handed back as it was.
#[tokio::test(start_paused = true)]
async fn s01_another_operation_under_its_key_is_not_run_with_its_request() {
    let rig = Rig::new();
    abandoned(&rig, 2).await;
    let meanwhile = rig.clone();
    let completer = completer(&rig, move |op| {
        let rig = meanwhile.clone();
        async move {
            let client = rig.other().run(key(1), same(), &resumable(), pay).await;
            assert!(matches!(client, Ok(Answer::Executed(_))), "{client:?}");
            rig.clock.advance(KEEP + LEASE);
            let again = claimed(&rig, key(1), Some(StoredRequest::new("charges", "other")?)).await;
            let point =
                RecoveryPoint::new(1, "drafted", r#"{"v":1,"effects":[{"name":"drafted","result":1}]}"#)?;
            rig.store.checkpoint(&again, &point, Rerun::Always).await?;
            rig.store.renew(&again, Duration::ZERO).await?;
            pay(op).await
        }
    });
    assert_eq!(pass(&completer.at_once(1)).await, Report { settled: 1, unsettled: 1, left: 0 });
    assert_eq!(rig.runs(), 1);
    let other = rig.store.find(&key(1)).await.expect("memory answers").expect("it is kept");
    assert_eq!((&other.state, other.checkpoint, other.token), (&State::InProgress, 1, 2));
    assert_eq!(other.request.as_ref().map(|asked| asked.data().as_ref()), Some(&b"other"[..]));
    let stuck = rig.store.stuck(10).await.expect("memory answers");
    assert_eq!(stuck.len(), 1, "the next claim resumes at once");
}

#[tokio::test(start_paused = true)]
async fn l03_a_handler_that_hangs_holds_up_nobody_else() {
    let rig = Rig::new();
    abandoned(&rig, 2).await;
    let hung = Arc::new(AtomicUsize::new(0));
    let hangs = Arc::clone(&hung);
    let completer = completer(&rig, move |op: Operation| {
        let hangs = hangs.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if hangs {
                pending::<()>().await;
            }
            pay(op).await
        }
    });
    assert_eq!(pass(&completer.at_once(1)).await, Report { settled: 1, unsettled: 1, left: 0 });
}

/// A route's clients may wait for each other; a completer has other work.
#[tokio::test(start_paused = true)]
async fn t18_nobody_is_waited_for() {
    let rig = Rig::new();
    abandoned(&rig, 2).await;
    let meanwhile = rig.clone();
    let patient = resumable().wait(Duration::from_mins(5));
    let completer =
        Completer::new(rig.store.clone(), rig.other()).handle("charges", patient, move |op, _| {
            let rig = meanwhile.clone();
            async move {
                drop(claimed(&rig, key(1), None).await);
                pay(op).await
            }
        });
    let began = Instant::now();
    assert_eq!(pass(&completer.at_once(1)).await, Report { settled: 1, unsettled: 1, left: 0 });
    assert_eq!(began.elapsed(), Duration::ZERO);
}
