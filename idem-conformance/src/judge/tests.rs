use std::sync::Arc;

use idem_core::Claim;

use super::*;
use crate::bench::{LEASE, MARGIN, RETENTION, answer, asked, key, point, request};

fn record() -> Record {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let drawn = Drawn { passed_over: false, operation: OperationId::random(), attempt: AttemptId::random() };
    let (record, _) = Step::Claim(request(&key("s", "k"))).decide(None, now, &drawn);
    Record {
        rerun_until: RerunUntil::At(now + LEASE),
        state: State::Completed { response: answer("done"), ended_at: now },
        point: Some(point(1, "step")),
        request: Some(asked("charges", b"asked")),
        ..record.expect("a claim writes a record")
    }
}

#[test]
fn every_field_of_a_record_is_compared() {
    let seen = record();
    assert_eq!(differences(&seen, &seen, &seen), Vec::<String>::new());
    let later = seen.locked_at + MARGIN;
    let spoilt: [fn(&mut Record, SystemTime); 18] = [
        |record, _| record.id = key("s", "other"),
        |record, _| record.operation = OperationId::random(),
        |record, _| record.attempt = AttemptId::random(),
        |record, _| record.token += 1,
        |record, _| record.fingerprint = crate::bench::body("other").current(),
        |record, _| {
            let ended_at = record.state.ended_at().expect("it has ended");
            record.state = State::Completed { response: answer("other"), ended_at };
        },
        |record, at| record.state = State::Completed { response: answer("done"), ended_at: at },
        |record, _| record.version += 1,
        |record, _| record.checkpoint += 1,
        |record, at| record.locked_at = at,
        |record, at| record.lease_until = at,
        |record, at| record.rerun_until = RerunUntil::At(at),
        |record, _| record.rerun_until = RerunUntil::Never,
        |record, _| record.point = None,
        |record, _| record.request = None,
        |record, _| record.request = Some(asked("charges", b"Asked")),
        |record, at| record.created_at = at,
        |record, at| record.expires_at = at,
    ];
    for (number, spoil) in spoilt.into_iter().enumerate() {
        let mut other = seen.clone();
        spoil(&mut other, later);
        assert_eq!(differences(&other, &seen, &seen).len(), 1, "number {number}");
    }
}

#[test]
fn a_written_time_may_lie_anywhere_between_two_readings() {
    let early = record();
    let late = Record { lease_until: early.lease_until + MARGIN, ..early.clone() };
    for (at, fits) in [(MARGIN / 2, true), (MARGIN, true), (MARGIN * 2, false)] {
        let seen = Record { lease_until: early.lease_until + at, ..early.clone() };
        assert_eq!(differences(&seen, &early, &late).is_empty(), fits, "{at:?}");
    }
}

#[test]
fn a_race_is_explained_by_one_of_its_orders_or_not_at_all() {
    let start = record();
    let stale = Record {
        state: State::InProgress,
        rerun_until: RerunUntil::Always,
        lease_until: start.locked_at,
        ..start
    };
    let window = Window { before: stale.locked_at + MARGIN, after: stale.locked_at + MARGIN };
    let claim = Claim::new(stale.id.clone(), stale.fence(), stale.fingerprint, Origin::New);
    let end = Step::Complete(Arc::new(claim), answer("slow"), RETENTION);
    let take = Step::Claim(request(&stale.id));
    let drawn = Drawn { passed_over: false, operation: stale.operation, attempt: AttemptId::random() };
    let (ended, done) = end.decide(Some(stale.clone()), window.before, &drawn);
    let (_, replayed) = take.decide(ended.clone(), window.before, &drawn);
    let (_, taken) = take.decide(Some(stale.clone()), window.before, &drawn);

    let explained = |first: (&Step, &Reply), second: (&Step, &Reply)| {
        let history = [(first.0, Some(first.1)), (second.0, Some(second.1))];
        explain(Some(&stale), &history, ended.as_ref(), window).is_ok()
    };
    assert!(explained((&end, &done), (&take, &replayed)));
    assert!(!explained((&take, &replayed), (&end, &done)), "a replay before there was an answer");
    assert!(!explained((&end, &done), (&take, &taken)), "ended and taken over");
    assert!(!explained((&take, &taken), (&end, &done)), "taken over and ended by the old owner");
}
