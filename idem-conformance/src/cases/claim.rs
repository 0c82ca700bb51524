//! Taking a key: who gets it, and what the record says then.
//!
//! Every `bench.` call compares answer and record with the state functions; a case adds what it wants to say aloud.

use std::{sync::Arc, time::Duration};

use idem_core::{ClaimOutcome, ClaimRequest, Origin, Rerun, RerunUntil, Scope, State, StoreErrorKind};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, body, key, point, request, request_of},
    step::{Reply, Step},
};

pub(super) async fn claim_first_takes_the_key(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let claim = bench.take_by(&request).await;
    assert_eq!((claim.origin(), claim.fence().token, claim.checkpoint()), (Origin::New, 1, 0));
    let record = bench.record(&id).await.expect("there is a record");
    assert_eq!((record.attempt, record.version, &record.state), (request.attempt, 1, &State::InProgress));
    assert_eq!((record.rerun_until, record.point), (RerunUntil::Always, None));
    assert_eq!(record.created_at, record.locked_at);
    let (lease, retention) = (
        record.lease_until.duration_since(record.locked_at),
        record.expires_at.duration_since(record.lease_until),
    );
    assert!(lease.is_ok_and(|lease| lease.abs_diff(LEASE) < MARGIN), "the lease counts from the claim");
    assert!(
        retention.is_ok_and(|span| span.abs_diff(RETENTION) < MARGIN),
        "retention counts from the lease's end"
    );
}

pub(super) async fn claim_second_waits_for_the_lease(bench: &Bench) {
    let id = bench.id();
    let _claim = bench.take(&id).await;
    for left in [LEASE, LEASE / 2] {
        match bench.ask(&id).await {
            ClaimOutcome::InProgress { retry_after } => {
                assert!(
                    retry_after <= left && retry_after > left.saturating_sub(MARGIN),
                    "{retry_after:?} of {left:?}"
                );
            }
            other => panic!("answered with {other:?}"),
        }
        bench.elapse(LEASE / 2).await;
    }
}

pub(super) async fn claim_is_visible_before_it_returns(bench: &Bench) {
    let id = bench.id();
    let claim = bench.take(&id).await;
    let record = bench.other.find(&id).await.expect("find answers");
    assert_eq!(record.map(|record| record.fence()), Some(claim.fence()));
    let second = bench.step_on(&bench.other, Step::Claim(request(&id))).await;
    assert!(matches!(second, Reply::Claim(Ok(ClaimOutcome::InProgress { .. }))), "{second:?}");
}

pub(super) async fn claim_again_by_its_owner_is_his(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let first = bench.take_by(&request).await;
    bench.elapse(LEASE / 2).await;
    let before = bench.record(&id).await.expect("there is a record");
    let again = bench.take_by(&request).await;
    assert_eq!((again.fence(), again.origin()), (first.fence(), Origin::Reissued));
    let after = bench.record(&id).await.expect("there is a record");
    assert_eq!((after.version, after.locked_at), (before.version + 1, before.locked_at));
    assert!(after.lease_until > before.lease_until, "the lease is renewed");
}

pub(super) async fn claim_again_is_his_after_the_lease(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let first = bench.take_by(&request).await;
    bench.elapse(LEASE + MARGIN).await;
    let again = bench.take_by(&request).await;
    assert_eq!((again.fence(), again.origin()), (first.fence(), Origin::Reissued));
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::InProgress { .. }), "its lease is renewed");

    // An open effect does not make it a stranger's.
    bench.checkpoint(&again, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
    bench.elapse(LEASE + MARGIN).await;
    assert_eq!(bench.take_by(&request).await.fence(), first.fence());
}

pub(super) async fn claim_again_never_shortens_the_lease(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let claim = bench.take_by(&request).await;
    bench.renew(&claim, LEASE * 4).await.expect("renew");
    let before = bench.record(&id).await.expect("there is a record");
    bench.take_by(&request).await;
    let after = bench.record(&id).await.expect("there is a record");
    assert_eq!((after.lease_until, after.version), (before.lease_until, before.version + 1));
}

pub(super) async fn claim_again_hands_over_the_checkpoint(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let claim = bench.take_by(&request).await;
    bench.checkpoint(&claim, &point(1, "ride created"), Rerun::Always).await.expect("checkpoint");
    let again = bench.take_by(&request).await;
    assert_eq!((again.checkpoint(), again.point()), (1, Some(&point(1, "ride created"))));
}

pub(super) async fn claim_again_after_a_takeover_waits(bench: &Bench) {
    let id = bench.id();
    let request = request(&id);
    let claim = bench.take_by(&request).await;
    bench.hand_on(&claim).await;
    let taker = bench.take(&id).await;
    assert!(matches!(bench.claim(&request).await, Ok(ClaimOutcome::InProgress { .. })));
    assert_eq!(bench.record(&id).await.map(|record| record.fence()), Some(taker.fence()));
}

pub(super) async fn claim_again_after_the_end_is_answered_by_it(bench: &Bench) {
    let id = bench.id();
    let completed = request(&id);
    let claim = bench.take_by(&completed).await;
    bench.complete(&claim, &answer("done")).await.expect("complete");
    match bench.claim(&completed).await {
        Ok(ClaimOutcome::Completed(stored)) => assert!(stored == answer("done"), "another answer"),
        other => panic!("answered with {other:?}"),
    }

    let id = bench.id();
    let released = request(&id);
    let claim = bench.take_by(&released).await;
    bench.release(&claim).await.expect("release");
    let retry = bench.take_by(&released).await;
    assert_eq!((retry.origin(), retry.fence().token), (Origin::Retried, 2));
}

pub(super) async fn claim_keeps_scopes_apart(bench: &Bench) {
    let (one, two) = (key("tenant 1", "same"), key("tenant 2", "same"));
    let claims = (bench.take(&one).await, bench.take(&two).await);
    assert_ne!(claims.0.fence().operation, claims.1.fence().operation);
    // The one that was claimed later ends: it is not the first that a look at both would find.
    bench.complete(&claims.1, &answer("of tenant 2")).await.expect("complete");
    assert!(matches!(bench.ask(&one).await, ClaimOutcome::InProgress { .. }), "tenant 1 sees its own record");
    assert!(matches!(bench.ask(&two).await, ClaimOutcome::Completed(_)), "tenant 2 sees its own record");
}

pub(super) async fn claim_compares_keys_byte_for_byte(bench: &Bench) {
    for (scope, text) in
        [("t", "key"), ("t", "KEY"), ("t", "key "), ("t", " key"), ("T", "key"), ("t ", "key")]
    {
        let claim = bench.take(&key(scope, text)).await;
        assert_eq!(claim.origin(), Origin::New, "{scope:?} {text:?}");
    }
    // Composed and decomposed e-acute, and two halves that join to the same text.
    for (scope, text) in [("caf\u{e9}", "k"), ("cafe\u{301}", "k"), ("a", "bc"), ("ab", "c")] {
        assert_eq!(bench.take(&key(scope, text)).await.origin(), Origin::New, "{scope:?} {text:?}");
    }
}

pub(super) async fn claim_takes_the_longest_names(bench: &Bench) {
    let longest = "k".repeat(255);
    // Text that no index can compress: a linear congruence picks the characters.
    let mut seed = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((seed >> 33) % 94).unwrap_or_default())
    })
    .take(Scope::MAX)
    .collect();
    for scope in [&"s".repeat(Scope::MAX), &"\u{20ac}".repeat(341), &"\u{1f4b6}".repeat(256), &noise] {
        let id = key(scope, &longest);
        let claim = bench.take(&id).await;
        bench.complete(&claim, &answer("kept")).await.expect("complete");
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
        let shorter = key(scope, &longest[1..]);
        assert_eq!(bench.take(&shorter).await.origin(), Origin::New, "one character less is another key");
    }
}

pub(super) async fn claim_takes_text_as_text(bench: &Bench) {
    let hostile = [
        "'; DROP TABLE idempotency_key; --",
        "%",
        "_",
        "{}",
        "{key}",
        "\\",
        "\"",
        "$1",
        "NULL",
        "*",
        ":",
        "a:b",
    ];
    for text in hostile {
        for id in [key(text, "k"), key("s", text)] {
            let claim = bench.take(&id).await;
            assert_eq!(claim.origin(), Origin::New, "{text}");
            bench.complete(&claim, &answer(text)).await.expect("complete");
            assert!(
                matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer(text))
            );
        }
    }
    let emoji = key("\u{1f4b6} \u{202e}\u{feff}\n\t", "k");
    assert_eq!(bench.take(&emoji).await.origin(), Origin::New);
}

pub(super) async fn claim_of_many_has_one_winner(bench: &Bench) {
    for _ in 0..25 {
        one_winner(bench, &bench.id(), 16, Origin::New).await;
    }
}

pub(super) async fn claim_storm_is_answered(bench: &Bench) {
    for _ in 0..5 {
        one_winner(bench, &bench.id(), 64, Origin::New).await;
    }
}

pub(super) async fn claim_of_an_expired_record_starts_anew(bench: &Bench) {
    let id = bench.id();
    let claim = bench.take(&id).await;
    bench.checkpoint(&claim, &point(7, "charged"), Rerun::Never).await.expect("checkpoint");
    bench.complete(&claim, &answer("old")).await.expect("complete");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let old = bench.record(&id).await;
    // Another request than the first may have the key now.
    let anew = bench.take_by(&request_of(&id, body("second"))).await;
    assert_eq!((anew.origin(), anew.fence().token), (Origin::Expired, 1));
    assert_eq!((anew.checkpoint(), anew.point()), (0, None));
    assert_ne!(anew.fence().operation, claim.fence().operation);
    // A store may have swept it meanwhile; what it kept continues.
    let record = bench.record(&id).await.expect("there is a record");
    assert_eq!(record.version, old.map_or(1, |old| old.version + 1));
    assert_eq!((record.rerun_until, record.created_at), (RerunUntil::Always, record.locked_at));

    let id = bench.id();
    // An expired failed record too, whoever had it last.
    let first = bench.take(&id).await;
    bench.hand_on(&first).await;
    let second = bench.take(&id).await;
    bench.release(&second).await.expect("release");
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    let anew = bench.take(&id).await;
    assert_eq!((second.fence().token, anew.origin(), anew.fence().token), (2, Origin::Expired, 1));
}

pub(super) async fn claim_of_an_expired_record_has_one_winner(bench: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..25 {
        let id = bench.id();
        let claim = bench.take(&id).await;
        bench.complete(&claim, &answer("old")).await.expect("complete");
        ids.push(id);
    }
    bench.elapse(RETENTION + LEASE + MARGIN).await;
    for id in ids {
        one_winner(bench, &id, 16, Origin::Expired).await;
    }
}

pub(super) async fn claim_never_expires_what_is_in_progress(bench: &Bench) {
    let id = bench.id();
    let claim = bench.take(&id).await;
    bench.elapse(RETENTION * 400).await;
    let taker = bench.take(&id).await;
    assert_eq!(taker.origin(), Origin::TakenOver);
    assert_eq!(taker.fence().operation, claim.fence().operation);
}

pub(super) async fn claim_refuses_absurd_spans(bench: &Bench) {
    let id = bench.id();
    let absurd: [fn(&mut ClaimRequest); 4] = [
        |request| request.lease = Duration::MAX,
        |request| request.lease = Duration::from_nanos(1),
        |request| request.lease = Duration::ZERO,
        |request| request.retention = Duration::MAX,
    ];
    for spoil in absurd {
        let mut request =
            ClaimRequest::new(id.clone(), body("first"), LEASE, RETENTION).expect("valid spans");
        spoil(&mut request);
        let refused = bench.claim(&Arc::new(request)).await;
        assert!(matches!(refused, Err(StoreErrorKind::Invalid)), "{refused:?}");
    }
    assert_eq!(bench.record(&id).await, None);
}

/// Claims one key many times at once: one is told `origin`, the others what is left of its lease.
pub(super) async fn one_winner(bench: &Bench, id: &idem_core::KeyId, callers: usize, origin: Origin) {
    let steps: Vec<_> = (0..callers).map(|_| Step::Claim(request(id))).collect();
    let replies = bench.rush(&steps).await;
    let claims: Vec<_> = replies.iter().filter_map(Reply::claim).collect();
    assert_eq!(claims.len(), 1, "so many were told that the key is theirs: {claims:?}");
    let record = bench.record(id).await.expect("there is a record");
    assert_eq!((claims[0].fence(), claims[0].origin()), (record.fence(), origin));
    for reply in replies {
        let fits = match &reply {
            Reply::Claim(Ok(ClaimOutcome::Claimed(_))) => true,
            Reply::Claim(Ok(ClaimOutcome::InProgress { retry_after })) => {
                *retry_after <= LEASE && *retry_after > LEASE.saturating_sub(MARGIN)
            }
            _ => false,
        };
        assert!(fits, "a loser was answered with {reply:?}");
    }
}
