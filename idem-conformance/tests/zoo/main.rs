//! The zoo: one store that keeps every promise, and many that break one. The suite has to tell them apart.
#![expect(
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "the zoo is test code; a switch that is not named changes nothing"
)]

mod bytes;
mod defect;
mod halves;
mod rows;
mod rules;
mod store;
mod trial;
mod writes;

use defect::Defect;
use idem_conformance::cases;
use trial::{Exhibit, Time, Verdict};

/// How often a case is run that depends on how two tasks meet.
const TRIES: usize = 5;
/// How many walks a wrong store has to survive to pass for unseen.
const WALKS: u64 = 4;

const fn wrong(defect: Defect) -> Exhibit {
    Exhibit { wrong: Some(defect), time: Time::Moved }
}

const RIGHT: [Exhibit; 2] =
    [Exhibit { wrong: None, time: Time::Moved }, Exhibit { wrong: None, time: Time::Shifted }];

#[test]
fn n01_the_store_without_a_defect_passes_every_case() {
    for exhibit in RIGHT {
        for case in cases() {
            if let Verdict::Rejected(why) = trial::run(exhibit, case.name) {
                panic!("{exhibit:?}: {why}");
            }
        }
    }
}

#[test]
fn n04_the_store_without_a_defect_goes_in_step_with_the_state_functions() {
    for exhibit in RIGHT {
        for seed in 0..WALKS {
            trial::walk(exhibit, seed).expect("in step");
        }
    }
}

#[test]
fn n01_every_wrong_store_is_rejected() {
    let mut accepted = Vec::new();
    for &defect in Defect::ALL {
        println!("{defect:?}: {}", defect.wrong());
        for &killer in defect.killers() {
            let promise = cases().iter().find(|case| case.name == killer).expect("the case exists").promise;
            let verdict = (0..TRIES).map(|_| trial::run(wrong(defect), killer)).find(Verdict::is_rejected);
            if let Some(Verdict::Rejected(why)) = verdict {
                assert!(why.starts_with(&format!("{killer}: {promise}")), "{defect:?}: {why}");
                assert_eq!(why.ends_with(trial::HUNG), defect == Defect::WedgedByDrop, "{defect:?}: {why}");
                println!("    rejected by {killer}: {promise}");
            } else {
                accepted.push(format!("{defect:?} ({}) passes {killer}", defect.wrong()));
            }
        }
    }
    println!("{} wrong stores, {} accepted", Defect::ALL.len(), accepted.len());
    assert!(accepted.is_empty(), "{accepted:#?}");
}

#[test]
fn n04_a_walk_sees_every_wrong_rule_that_shows_in_one_call_at_a_time() {
    let mut seen = 0;
    for &defect in Defect::ALL {
        let difference = (0..WALKS).find_map(|seed| trial::walk(wrong(defect), seed).err());
        seen += u32::from(difference.is_some());
        assert_eq!(difference.is_none(), defect.escapes_a_walk(), "{defect:?}: {difference:?}");
    }
    println!("{seen} of {} wrong stores seen by a walk", Defect::ALL.len());
}
