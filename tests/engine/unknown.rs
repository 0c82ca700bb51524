//! Calls whose outcome is not known: settled by sending them again, never by looking.

use std::time::Duration;

use idem::{Answer, ErrorKind, KeyStore, Operation, State, StoreErrorKind, conformance::Call};

use crate::rig::{LEASE, Rig, answer, engine_error, executed, id, pay, replayed, resumable, same};

#[tokio::test(start_paused = true)]
async fn p08_a_claim_whose_reply_was_lost_is_recognised() {
    let rig = Rig::new();
    rig.faulty.lose_reply(Call::Claim);
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
    assert_eq!((rig.runs(), rig.faulty.seen(Call::Claim)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn p08_a_claim_whose_request_was_lost_is_sent_again() {
    let rig = Rig::new();
    rig.faulty.lose_request(Call::Claim);
    rig.faulty.lose_request(Call::Claim);
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
    assert_eq!((rig.runs(), rig.faulty.seen(Call::Claim)), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn e07_a_store_that_is_down_at_the_claim_runs_nothing() {
    let rig = Rig::new();
    rig.faulty.fail(Call::Claim, StoreErrorKind::Unavailable);
    let ran = rig.run(resumable(), pay).await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Unavailable), "{ran:?}");
    assert_eq!(rig.runs(), 0);
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn e07_a_claim_that_cannot_be_settled_runs_nothing() {
    let rig = Rig::new();
    for _ in 0..1000 {
        rig.faulty.lose_reply(Call::Claim);
    }
    let ran = rig.run(resumable(), pay).await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Unavailable), "{ran:?}");
    assert_eq!(rig.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn e08_an_end_whose_reply_or_request_was_lost_is_settled() {
    for lose in [Faults::Reply, Faults::Request, Faults::Down] {
        let rig = Rig::new();
        for _ in 0..4 {
            match lose {
                Faults::Reply => rig.faulty.lose_reply(Call::Complete),
                Faults::Request => rig.faulty.lose_request(Call::Complete),
                Faults::Down => rig.faulty.fail(Call::Complete, StoreErrorKind::Unavailable),
            }
        }
        assert!(executed(&rig.run(resumable(), pay).await, "paid"));
        assert!(replayed(&rig.run(resumable(), pay).await, "paid"));
        assert_eq!(rig.runs(), 1);
    }
}

#[derive(Clone, Copy)]
enum Faults {
    Reply,
    Request,
    Down,
}

#[tokio::test(start_paused = true)]
async fn e08_an_end_that_cannot_be_settled_is_unknown_and_never_the_success() {
    let rig = Rig::new();
    for _ in 0..1000 {
        rig.faulty.fail(Call::Complete, StoreErrorKind::Unavailable);
    }
    let ran = rig.run(resumable(), async |op: Operation| {
        // The handler believes its own error or not: the engine's word is what is sent.
        let _ = op.complete(answer(201, "paid")).await;
        Ok(answer(201, "paid"))
    });
    let ran = ran.await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Unknown), "{ran:?}");
    assert_eq!(rig.record().await.state, State::InProgress, "the lease frees it");
    let retry = rig.run_on(&rig.other(), resumable(), pay).await;
    assert!(matches!(retry, Ok(Answer::InProgress { .. })), "{retry:?}");
}

#[tokio::test(start_paused = true)]
async fn s14_a_release_that_cannot_be_settled_is_unknown() {
    let rig = Rig::new();
    for _ in 0..1000 {
        rig.faulty.lose_request(Call::Release);
    }
    let ran = rig.run(resumable(), async |_| Ok(answer(503, "try again"))).await;
    assert_eq!(engine_error(&ran), Some(ErrorKind::Unknown), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn b020_the_loser_of_a_claim_answers_in_progress_and_never_claims_again() {
    let rig = Rig::new();
    let (clock, other) = (rig.clock.clone(), rig.other());
    let again = rig.clone();
    let ran = rig
        .run(resumable(), async move |op: Operation| {
            // Paused for longer than its lease, while another process takes over and finishes.
            clock.advance(LEASE);
            assert!(executed(
                &again
                    .run_on(&other, resumable(), async |op: Operation| {
                        Ok(op.complete(answer(201, "the winner's")).await?)
                    })
                    .await,
                "the winner's"
            ));
            let lost = op.complete(answer(201, "the loser's")).await.expect_err("the fence has moved");
            assert_eq!(lost.kind(), ErrorKind::ClaimLost);
            Ok(answer(201, "the loser's"))
        })
        .await;
    let Ok(Answer::InProgress { retry_after }) = ran else { panic!("{ran:?}") };
    assert_eq!(retry_after, Duration::from_secs(1));
    assert_eq!(rig.faulty.seen(Call::Claim), 1);
    assert!(replayed(&rig.run(resumable(), pay).await, "the winner's"));
}

#[tokio::test(start_paused = true)]
async fn b022_a_late_result_is_accepted_while_nobody_else_came() {
    let rig = Rig::new();
    let clock = rig.clock.clone();
    let ran = rig.run(resumable(), async move |op: Operation| {
        clock.advance(LEASE * 2);
        pay(op).await
    });
    assert!(executed(&ran.await, "paid"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_late_finds_its_run_ended() {
    let rig = Rig::new();
    let delayed = rig.faulty.delay(Call::Claim);
    assert!(executed(&rig.run(resumable(), pay).await, "paid"));
    let before = rig.record().await;
    let _ = delayed.land().await;
    assert_eq!(rig.record().await, before, "a completed record takes no late claim");
    let request = idem::ClaimRequest::new(id(), same(), LEASE, LEASE).expect("valid");
    assert!(matches!(rig.store.claim(&request).await, Ok(idem::ClaimOutcome::Completed(_))));
}

#[tokio::test(start_paused = true)]
async fn s15_a_corrupt_claim_runs_nothing() {
    let rig = Rig::new();
    rig.faulty.fail(Call::Claim, StoreErrorKind::Corrupt);
    let ran = rig.run(resumable(), pay).await;
    assert_eq!((engine_error(&ran), rig.runs()), (Some(ErrorKind::Corrupt), 0), "{ran:?}");
}
