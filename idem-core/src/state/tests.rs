//! The table, row by row, and every write's own rules.

mod whole;

use std::time::{Duration, SystemTime};

use super::*;
use crate::{
    AttemptId, Claim, Decision, Fingerprint, Fingerprints, KeyId, RecoveryPoint, Rerun, Scope, StoredRequest,
    StoredResponse,
};

const LEASE: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_hours(1);
const TICK: Duration = Duration::from_nanos(1);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn print(version: u8, fill: u8) -> Fingerprint {
    let mut bytes = [fill; 33];
    bytes[0] = version;
    Fingerprint::from_bytes(bytes)
}

fn asks(same: Fingerprints) -> ClaimRequest {
    let id = KeyId::new(Scope::new("tenant").expect("valid"), "key".parse().expect("valid"));
    ClaimRequest::new(id, same, LEASE, KEEP).expect("valid")
}

fn request() -> ClaimRequest {
    asks(Fingerprints::new(print(1, 1)))
}

fn answer(body: &'static str) -> StoredResponse {
    StoredResponse::new(201, body).expect("valid")
}

fn point(number: u64, data: &'static str) -> RecoveryPoint {
    RecoveryPoint::new(number, "here", data).expect("valid")
}

/// A claimed record at `start()`, with its claim.
fn owned() -> (Record, Claim) {
    let transition = claim(None, &request(), start(), OperationId::random());
    let Ok(ClaimOutcome::Claimed(claim)) = transition.answer else { panic!("{transition:?}") };
    (transition.write.expect("a new record"), claim)
}

fn wrote(record: &Record, command: &Command<'_>, now: SystemTime) -> Record {
    let transition = write(Some(record), command, now);
    assert!(transition.answer.is_ok(), "{transition:?}");
    transition.write.expect("a write")
}

fn refused(record: Option<&Record>, command: &Command<'_>, now: SystemTime) -> StoreErrorKind {
    let transition = write(record, command, now);
    assert!(transition.write.is_none(), "an error writes nothing");
    transition.answer.expect_err("refused").kind()
}

fn quiet(record: &Record, command: &Command<'_>, now: SystemTime) {
    let transition = write(Some(record), command, now);
    assert!(transition.write.is_none() && transition.answer.is_ok(), "{transition:?}");
}

fn outcome(record: &Record, request: &ClaimRequest, now: SystemTime) -> (Option<Record>, ClaimOutcome) {
    let transition = claim(Some(record), request, now, OperationId::random());
    (transition.write, transition.answer.expect("an outcome"))
}

fn in_doubt() -> (Record, Claim) {
    let (record, claim) = owned();
    (wrote(&record, &Command::Checkpoint(&claim, &point(1, "mark"), Rerun::Never), start()), claim)
}

#[test]
fn row_1_nothing_recorded() {
    let (record, claim) = owned();
    assert_eq!((record.token, record.version, record.checkpoint), (1, 1, 0));
    assert_eq!(
        (record.created_at, record.locked_at, record.lease_until),
        (start(), start(), start() + LEASE)
    );
    assert_eq!((record.rerun_until, record.expires_at), (RerunUntil::Always, start() + LEASE + KEEP));
    assert_eq!((claim.origin(), claim.fence(), claim.checkpoint()), (Origin::New, record.fence(), 0));
}

#[test]
fn row_2_an_expired_record_is_wiped_whatever_its_fingerprint() {
    let (record, claim) = owned();
    let record = wrote(&record, &Command::Complete(&claim, &answer("old"), KEEP), start());
    let other = asks(Fingerprints::new(print(1, 9)));
    let (write, before) = outcome(&record, &other, record.expires_at - TICK);
    assert!(write.is_none() && matches!(before, ClaimOutcome::Mismatch), "{before:?}");
    let (write, at) = outcome(&record, &other, record.expires_at);
    let (write, ClaimOutcome::Claimed(claim)) = (write.expect("wiped"), at) else { panic!("not claimed") };
    assert_eq!(
        (claim.origin(), write.token, write.version, write.point),
        (Origin::Expired, 1, record.version + 1, None)
    );
    assert_ne!(write.operation, record.operation);
    assert_eq!(write.state, State::InProgress);
}

#[test]
fn row_3_another_fingerprint_is_a_mismatch_in_every_state() {
    let (live, claim) = owned();
    let (doubtful, _) = in_doubt();
    let completed = wrote(&live, &Command::Complete(&claim, &answer("a"), KEEP), start());
    let failed = wrote(&live, &Command::Release(&claim, KEEP), start());
    for record in [&live, &doubtful, &completed, &failed] {
        for now in [start(), start() + LEASE] {
            let other = asks(Fingerprints::new(print(1, 9)));
            assert!(matches!(outcome(record, &other, now), (None, ClaimOutcome::Mismatch)));
            let unknown = asks(Fingerprints::new(print(2, 1)));
            let transition = claim_at(record, &unknown, now);
            assert_eq!(transition.answer.expect_err("not comparable").kind(), StoreErrorKind::Unavailable);
            assert!(transition.write.is_none());
        }
    }
    let newer = asks(Fingerprints::new(print(2, 5)).accept(print(1, 1)));
    let (_, ClaimOutcome::Claimed(claim)) = outcome(&failed, &newer, start()) else {
        panic!("the older one fits")
    };
    assert_eq!(claim.fingerprint(), print(1, 1), "the record's own");
}

fn claim_at(record: &Record, request: &ClaimRequest, now: SystemTime) -> Transition<ClaimOutcome> {
    claim(Some(record), request, now, OperationId::random())
}

#[test]
fn row_4_my_own_attempt_is_recognised_lease_over_or_not() {
    let request = request();
    let record = claim(None, &request, start(), OperationId::random()).write.expect("new");
    for (now, lease_until) in
        [(start() + TICK, start() + TICK + LEASE), (start() + LEASE * 2, start() + LEASE * 3)]
    {
        let (write, again) = outcome(&record, &request, now);
        let ClaimOutcome::Claimed(claim) = again else { panic!("{again:?}") };
        assert_eq!((claim.origin(), claim.fence()), (Origin::Reissued, record.fence()));
        assert_eq!(write, Some(Record { lease_until, version: 2, ..record.clone() }));
    }
}

#[test]
fn rows_5_and_6_completed_replays_and_live_waits() {
    let (record, claim) = owned();
    let (write, live) = outcome(&record, &request(), start() + LEASE - TICK);
    assert!(write.is_none() && matches!(live, ClaimOutcome::InProgress { retry_after: TICK }), "{live:?}");
    let completed = wrote(&record, &Command::Complete(&claim, &answer("done"), KEEP), start() + LEASE * 9);
    let (write, replay) = outcome(&completed, &request(), start() + LEASE * 10);
    assert!(
        write.is_none() && matches!(&replay, ClaimOutcome::Completed(it) if *it == answer("done")),
        "{replay:?}"
    );
}

#[test]
fn rows_7_and_8_the_next_owner_resumes() {
    let (record, claim) = owned();
    let record = wrote(&record, &Command::Checkpoint(&claim, &point(3, "data"), Rerun::Always), start());
    let failed = wrote(&record, &Command::Release(&claim, KEEP), start());
    for (record, now, origin) in
        [(&failed, start(), Origin::Retried), (&record, start() + LEASE, Origin::TakenOver)]
    {
        let (write, taken) = outcome(record, &request(), now);
        let (write, ClaimOutcome::Claimed(claim)) = (write.expect("a write"), taken) else {
            panic!("not claimed")
        };
        assert_eq!((claim.origin(), claim.checkpoint(), claim.point()), (origin, 3, Some(&point(3, "data"))));
        let expected = Record {
            token: 2,
            attempt: write.attempt,
            state: State::InProgress,
            version: record.version + 1,
            locked_at: now,
            lease_until: now + LEASE,
            ..record.clone()
        };
        assert_eq!(write, expected);
        assert_ne!(write.attempt, record.attempt);
    }
}

#[test]
fn rows_8_and_9_meet_at_rerun_until() {
    let (record, claim) = owned();
    let window = LEASE + Duration::from_secs(5);
    let record =
        wrote(&record, &Command::Checkpoint(&claim, &point(1, "mark"), Rerun::Until(window)), start());
    assert!(matches!(outcome(&record, &request(), start() + window - TICK).1, ClaimOutcome::Claimed(_)));
    let (write, doubt) = outcome(&record, &request(), start() + window);
    assert!(
        write.is_none() && matches!(doubt, ClaimOutcome::InDoubt { since } if since == start() + window),
        "{doubt:?}"
    );
    let (never, _) = in_doubt();
    let (_, doubt) = outcome(&never, &request(), start() + LEASE);
    assert!(matches!(doubt, ClaimOutcome::InDoubt { since } if since == start() + LEASE), "{doubt:?}");
    assert!(matches!(outcome(&never, &request(), start() + LEASE - TICK).1, ClaimOutcome::InProgress { .. }));
}

#[test]
fn s08_a_stale_or_invented_fence_writes_nothing() {
    let (record, old) = owned();
    let (taken, _) = outcome(&record, &request(), start() + LEASE);
    let taken = taken.expect("taken over");
    let invented = Claim::new(
        record.id.clone(),
        crate::Fence { operation: OperationId::random(), token: 2 },
        print(1, 1),
        Origin::New,
    );
    for claim in [&old, &invented] {
        for command in [
            Command::Renew(claim, LEASE),
            Command::Renew(claim, Duration::ZERO),
            Command::Checkpoint(claim, &point(1, "x"), Rerun::Never),
            Command::Complete(claim, &answer("x"), KEEP),
            Command::Release(claim, KEEP),
        ] {
            assert_eq!(refused(Some(&taken), &command, start()), StoreErrorKind::ClaimLost, "{command:?}");
            assert_eq!(refused(None, &command, start()), StoreErrorKind::ClaimLost, "{command:?}");
        }
    }
}

#[test]
fn a_renewal_never_shortens_and_zero_gives_up() {
    let (record, claim) = owned();
    let at = |lease, now| wrote(&record, &Command::Renew(&claim, lease), now).lease_until;
    assert_eq!(at(Duration::from_secs(1), start()), start() + LEASE);
    assert_eq!(at(LEASE, start() + TICK), start() + TICK + LEASE);
    assert_eq!(at(Duration::ZERO, start() + TICK), start() + TICK);
    for lease in [TICK, Duration::MAX] {
        assert_eq!(refused(Some(&record), &Command::Renew(&claim, lease), start()), StoreErrorKind::Invalid);
    }
}

#[test]
fn checkpoints_are_numbered() {
    let (record, claim) = owned();
    let second = wrote(&record, &Command::Checkpoint(&claim, &point(2, "two"), Rerun::Always), start());
    quiet(&second, &Command::Checkpoint(&claim, &point(2, "two"), Rerun::Always), start());
    for late in [point(1, "one"), point(2, "other")] {
        let command = Command::Checkpoint(&claim, &late, Rerun::Never);
        assert_eq!(refused(Some(&second), &command, start()), StoreErrorKind::Invalid);
    }
}

#[test]
fn rerun_says_until_when_a_new_owner_may_run() {
    let (record, claim) = owned();
    let mark = |record: &Record, number, rerun, now| {
        wrote(record, &Command::Checkpoint(&claim, &point(number, "m"), rerun), now)
    };
    let minute = Duration::from_mins(1);
    let marked = mark(&record, 1, Rerun::Until(minute), start());
    assert_eq!(
        mark(&marked, 2, Rerun::Until(minute * 9), start()).rerun_until,
        RerunUntil::At(start() + minute)
    );
    assert_eq!(mark(&marked, 2, Rerun::Until(TICK), start()).rerun_until, RerunUntil::At(start() + TICK));
    assert_eq!(
        mark(&marked, 2, Rerun::Keep, start() + minute * 9).rerun_until,
        RerunUntil::At(start() + minute)
    );
    assert_eq!(mark(&marked, 2, Rerun::Always, start()).rerun_until, RerunUntil::Always);
    let again = mark(&marked, 2, Rerun::Again, start() + minute - TICK);
    assert_eq!(again.rerun_until, RerunUntil::At(start() + minute));
    let repeat = Command::Checkpoint(&claim, &point(2, "m"), Rerun::Again);
    quiet(&again, &repeat, start() + minute - TICK);
    assert_eq!(refused(Some(&again), &repeat, start() + minute), StoreErrorKind::TooLate);
    let never = mark(&record, 1, Rerun::Never, start());
    assert_eq!(mark(&never, 2, Rerun::Until(minute), start()).rerun_until, RerunUntil::Never);
    assert_eq!(refused(Some(&never), &Command::Release(&claim, KEEP), start()), StoreErrorKind::Invalid);
}

#[test]
fn ends_are_final_repeatable_and_keep_the_first() {
    let (record, claim) = owned();
    let late = start() + KEEP * 5;
    let completed = wrote(&record, &Command::Complete(&claim, &answer("first"), KEEP), late);
    assert_eq!((completed.expires_at, completed.state.ended_at()), (late + KEEP, Some(late)));
    assert_eq!(
        wrote(&record, &Command::Complete(&claim, &answer("x"), TICK), start()).expires_at,
        record.expires_at
    );
    quiet(&completed, &Command::Complete(&claim, &answer("second"), KEEP), late);
    assert_eq!(refused(Some(&completed), &Command::Release(&claim, KEEP), late), StoreErrorKind::ClaimLost);
    assert_eq!(refused(Some(&completed), &Command::Renew(&claim, LEASE), late), StoreErrorKind::ClaimLost);
    let failed = wrote(&record, &Command::Release(&claim, KEEP), late);
    assert_eq!((failed.expires_at, failed.attempt), (late + KEEP, record.attempt));
    quiet(&failed, &Command::Release(&claim, KEEP), late);
    assert_eq!(
        refused(Some(&failed), &Command::Complete(&claim, &answer("x"), KEEP), late),
        StoreErrorKind::ClaimLost
    );
    let command = Command::Complete(&claim, &answer("x"), Duration::MAX);
    assert_eq!(refused(Some(&record), &command, late), StoreErrorKind::Invalid);
}

#[test]
fn resolve_acts_once_on_what_was_seen_in_doubt() {
    let (seen, old) = in_doubt();
    let (stale, fresh) = (start() + LEASE, AttemptId::random());
    let resume = Decision::Resume(point(2, "result"));
    for decision in [Decision::Complete(answer("found")), Decision::Fail, resume.clone()] {
        let command = Command::Resolve(&seen, &decision, KEEP, fresh);
        assert_eq!(
            refused(Some(&seen), &command, stale - TICK),
            StoreErrorKind::ClaimLost,
            "not in doubt yet"
        );
        let after = wrote(&seen, &command, stale);
        assert_eq!((after.token, after.version, after.attempt), (2, seen.version + 1, fresh));
        assert_eq!((after.operation, after.rerun_until), (seen.operation, RerunUntil::Always));
        quiet(&after, &Command::Resolve(&seen, &decision, KEEP, AttemptId::random()), stale);
        let late = Command::Complete(&old, &answer("late"), KEEP);
        assert_eq!(refused(Some(&after), &late, stale), StoreErrorKind::ClaimLost);
        let renewed = wrote(&seen, &Command::Renew(&old, Duration::ZERO), stale);
        assert_eq!(
            refused(Some(&renewed), &command, stale),
            StoreErrorKind::ClaimLost,
            "it moved since it was seen"
        );
    }
    let failed = wrote(&seen, &Command::Resolve(&seen, &Decision::Fail, KEEP, fresh), stale);
    assert_eq!(
        (failed.point, failed.checkpoint, failed.expires_at),
        (None, 1, seen.expires_at.max(stale + KEEP))
    );
    let other = Decision::Complete(answer("other"));
    let done = wrote(&seen, &Command::Resolve(&seen, &Decision::Complete(answer("a")), KEEP, fresh), stale);
    assert_eq!(
        refused(Some(&done), &Command::Resolve(&seen, &other, KEEP, fresh), stale),
        StoreErrorKind::ClaimLost
    );
    let resumed = wrote(&seen, &Command::Resolve(&seen, &resume, KEEP, fresh), stale);
    assert!(matches!(outcome(&resumed, &request(), stale), (Some(_), ClaimOutcome::Claimed(_))));
    let unsendable = Decision::Complete(answer("a").header("location", "a\r\nb"));
    assert_eq!(
        refused(Some(&seen), &Command::Resolve(&seen, &unsendable, KEEP, fresh), stale),
        StoreErrorKind::Invalid
    );
    let skipped = Decision::Resume(point(3, "x"));
    assert_eq!(
        refused(Some(&seen), &Command::Resolve(&seen, &skipped, KEEP, fresh), stale),
        StoreErrorKind::Invalid
    );
}
