//! A store with all the parts in memory passes their cases, and with each of its flaws fails the case that names it.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod database;
mod deliveries;
mod messages;
mod phases;
mod trial;

use trial::{Toy, fails, passes};

idem_conformance::phases!(Toy);
idem_conformance::messages!(Toy);
idem_conformance::deliveries!(Toy);

use database::Flaw;
use idem_conformance::parts;

/// Each flaw, with the case that has to see it.
const FLAWS: [(Flaw, &str); 29] = [
    (Flaw::MessageLost, "phase_leaves_row_message_and_answer"),
    (Flaw::RowBeside, "phase_given_up_leaves_nothing"),
    (Flaw::MessageBeside, "phase_given_up_leaves_nothing"),
    (Flaw::HandsOn, "phase_holds_others_off"),
    (Flaw::NoFence, "phase_of_an_owner_left_behind_is_lost"),
    (Flaw::FenceUnread, "step_of_an_owner_left_behind_is_lost"),
    (Flaw::UnknownIsDone, "phase_whose_commit_was_lost_is_settled"),
    (Flaw::UnknownIsUndone, "phase_whose_commit_was_lost_is_settled"),
    (Flaw::UnknownIsDone, "step_whose_commit_was_lost_is_settled"),
    (Flaw::UnknownIsUndone, "step_whose_commit_was_lost_is_settled"),
    (Flaw::IdsWithoutStep, "step_leaves_row_and_message"),
    (Flaw::DrawnIds, "phase_done_over_keeps_its_message"),
    (Flaw::StepUnrecorded, "step_is_done_once"),
    (Flaw::StepBeside, "step_given_up_leaves_nothing"),
    (Flaw::NeverMarks, "message_committed_is_published"),
    (Flaw::KeepsRolledBack, "message_rolled_back_is_never_seen"),
    (Flaw::Cursor, "message_committed_late_is_not_skipped"),
    (Flaw::MarksUpTo, "message_committed_meanwhile_is_not_marked"),
    (Flaw::SeesOpen, "message_open_is_not_seen_yet"),
    (Flaw::MarksFirst, "message_whose_relay_died_is_published_again"),
    (Flaw::NewIdEachTry, "message_whose_relay_died_is_published_again"),
    (Flaw::StopsAtPoison, "message_refused_is_tried_again"),
    (Flaw::NoOrder, "message_order_within_a_key_is_kept"),
    (Flaw::NoLease, "message_many_relays_share_the_work"),
    (Flaw::ForgetsMarkers, "delivery_first_has_its_effect"),
    (Flaw::SharesMarkers, "delivery_is_told_apart_by_consumer"),
    (Flaw::FoldsCase, "delivery_is_told_apart_byte_for_byte"),
    (Flaw::ChecksThenInserts, "delivery_of_many_at_once_has_one_effect"),
    (Flaw::MarkerBeside, "delivery_that_fails_is_taken_again"),
];

#[test]
fn n10_every_flaw_is_seen_by_the_case_that_names_it() {
    for (flaw, case) in FLAWS {
        assert!(passes(case), "{case} fails a sound store");
        assert!(fails(flaw, case), "{case} passes a store with {flaw:?}");
    }
}

#[test]
fn n10_every_case_sees_a_flaw() {
    let all = [parts::phases::CASES, parts::messages::CASES, parts::deliveries::CASES].concat();
    let idle: Vec<_> = all.iter().filter(|(name, _)| !FLAWS.iter().any(|(_, case)| case == name)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn n10_every_case_names_itself_and_what_it_holds_a_store_to() {
    for (part, cases) in [
        ("phase", parts::phases::CASES),
        ("message", parts::messages::CASES),
        ("delivery", parts::deliveries::CASES),
    ] {
        for (name, promise) in cases {
            let own = name.starts_with(&format!("{part}_")) || part == "phase" && name.starts_with("step_");
            assert!(own && !promise.ends_with('.') && !promise.contains(['\n', '|']), "{name}");
        }
    }
}
