//! Whole records: what a step does not write stays as it was.

use super::*;

/// Long after the lease of [`owned`] is over.
fn late() -> SystemTime {
    start() + LEASE * 3
}

#[test]
fn a_wiped_record_is_the_new_callers_and_nobody_elses() {
    let (record, claim) = owned();
    let ended = wrote(&record, &Command::Complete(&claim, &answer("a"), KEEP), start());
    let (now, request) = (ended.expires_at, request());
    let transition = claim_at(&ended, &request, now);
    let wiped = transition.write.expect("a write");
    assert_eq!(
        wiped,
        Record {
            operation: wiped.operation,
            attempt: request.attempt,
            version: ended.version + 1,
            ..first(&request, now, wiped.operation, 1)
        }
    );
    assert_ne!((wiped.operation, wiped.attempt), (record.operation, record.attempt));
}

#[test]
fn a_retry_of_a_failed_operation_has_the_lease_that_it_asks_for() {
    let (record, claim) = owned();
    let failed = wrote(&record, &Command::Release(&claim, KEEP), start());
    let mut request = request();
    request.lease = LEASE / 3;
    let now = start() + TICK;
    let (write, _) = outcome(&failed, &request, now);
    let lease_until = now + request.lease;
    assert_eq!(
        write,
        Some(Record {
            attempt: request.attempt,
            token: 2,
            state: State::InProgress,
            version: failed.version + 1,
            locked_at: now,
            lease_until,
            ..failed
        })
    );
}

#[test]
fn a_recognised_claim_renews_and_changes_nothing_else() {
    let mut asked = asks(Fingerprints::new(print(2, 1)).accept(print(1, 1)));
    let (record, _) = owned();
    asked.attempt = record.attempt;
    let (write, _) = outcome(&record, &asked, late());
    let lease_until = late() + LEASE;
    assert_eq!(write, Some(Record { lease_until, version: record.version + 1, ..record }));
}

#[test]
fn a_renewal_changes_the_lease_alone() {
    let (record, claim) = owned();
    for (lease, lease_until) in [(KEEP * 2, late() + KEEP * 2), (Duration::ZERO, late())] {
        let renewed = wrote(&record, &Command::Renew(&claim, lease), late());
        assert_eq!(renewed, Record { lease_until, version: record.version + 1, ..record.clone() });
    }
}

#[test]
fn a_checkpoint_past_the_lease_leaves_the_lease() {
    let (record, claim) = owned();
    let window = LEASE * 10;
    let reruns = [
        (Rerun::Always, RerunUntil::Always),
        (Rerun::Until(window), RerunUntil::At(late() + window)),
        (Rerun::Never, RerunUntil::Never),
        (Rerun::Again, RerunUntil::Always),
        (Rerun::Keep, RerunUntil::Always),
    ];
    for (rerun, rerun_until) in reruns {
        let point = point(1, "here");
        let noted = wrote(&record, &Command::Checkpoint(&claim, &point, rerun), late());
        let (version, checkpoint) = (record.version + 1, 1);
        assert_eq!(noted, Record { rerun_until, version, checkpoint, point: Some(point), ..record.clone() });
    }
}

#[test]
fn a_resolution_changes_what_it_decides_and_hands_the_key_on() {
    let (seen, _) = in_doubt();
    let fresh = AttemptId::random();
    let settled = Record {
        token: seen.token + 1,
        attempt: fresh,
        rerun_until: RerunUntil::Always,
        version: seen.version + 1,
        ..seen.clone()
    };
    let ended = late();
    let expires_at = seen.expires_at.max(ended + KEEP);
    let resume = point(2, "there");
    let decisions = [
        (
            Decision::Complete(answer("a")),
            Record {
                state: State::Completed { response: answer("a"), ended_at: ended },
                expires_at,
                ..settled.clone()
            },
        ),
        (
            Decision::Fail,
            Record { state: State::Failed { ended_at: ended }, expires_at, point: None, ..settled.clone() },
        ),
        (Decision::Resume(resume.clone()), Record { checkpoint: 2, point: Some(resume), ..settled }),
    ];
    for (decision, expected) in decisions {
        assert_eq!(wrote(&seen, &Command::Resolve(&seen, &decision, KEEP, fresh), ended), expected);
    }
}

#[test]
fn a_record_of_another_key_is_nobodys() {
    let (record, claim) = owned();
    let other = KeyId::new(Scope::new("tenant").expect("valid"), "other".parse().expect("valid"));
    let foreign = Record { id: other, ..record };
    for command in [
        Command::Renew(&claim, LEASE),
        Command::Checkpoint(&claim, &point(1, "here"), Rerun::Always),
        Command::Complete(&claim, &answer("a"), KEEP),
        Command::Release(&claim, KEEP),
    ] {
        assert_eq!(refused(Some(&foreign), &command, start()), StoreErrorKind::ClaimLost);
    }
    let (seen, _) = in_doubt();
    let foreign = Record { id: foreign.id, ..seen.clone() };
    let command = Command::Resolve(&seen, &Decision::Fail, KEEP, AttemptId::random());
    assert_eq!(refused(Some(&foreign), &command, late()), StoreErrorKind::ClaimLost);
}

#[test]
fn t19_what_was_asked_for_is_the_first_claims_and_goes_with_the_answer() {
    let asked = |data: &'static str| StoredRequest::new("charges", data).expect("valid");
    let asks_for = |data| request().with_request(asked(data));
    let step = claim(None, &asks_for("first"), start(), OperationId::random());
    let Ok(ClaimOutcome::Claimed(owner)) = step.answer else { panic!("the key is free") };
    let record = step.write.expect("a new record");
    assert_eq!(record.request, Some(asked("first")));
    assert_eq!(asks_for("first").again().request, Some(asked("first")), "a new caller asks for the same");
    let (taken, _) = outcome(&record, &asks_for("second"), late());
    assert_eq!(taken.expect("taken over").request, record.request);
    let failed = wrote(&record, &Command::Release(&owner, KEEP), start());
    let (retried, _) = outcome(&failed, &asks_for("second"), start());
    assert_eq!(retried.expect("retried").request, record.request);
    let (wiped, _) = outcome(&failed, &request(), failed.expires_at);
    assert_eq!(wiped.expect("a new operation").request, None);
    assert_eq!(wrote(&record, &Command::Complete(&owner, &answer("a"), KEEP), start()).request, None);
    let seen = Record { rerun_until: RerunUntil::Never, ..record.clone() };
    for (decision, stays) in [(Decision::Complete(answer("a")), false), (Decision::Fail, true)] {
        let resolve = Command::Resolve(&seen, &decision, KEEP, AttemptId::random());
        assert_eq!(wrote(&seen, &resolve, late()).request.is_some(), stays, "{decision:?}");
    }
}
