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
/// Within so many walks each wrong rule shows that shows in one call at a time.
const WALKS: u64 = 100;
/// How long one walk is.
const STEPS: usize = 60;
/// Within so many histories of callers at work at the same time each wrong rule mostly shows that takes two at once.
const HISTORIES: u64 = 1_000;
/// The most calls that are needed to show a wrong rule.
const ENOUGH: usize = 8;

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
        if let Err(difference) = trial::walk(exhibit, 0..WALKS, STEPS) {
            panic!("{exhibit:?}: {difference}");
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
    let (mut seen, mut wrong_about) = (0, Vec::new());
    for &defect in Defect::ALL {
        // Those that escape would use up all of them.
        let walks = if defect.escapes_a_walk() { WALKS / 10 } else { WALKS };
        let difference = trial::walk(wrong(defect), 0..walks, STEPS).err();
        if difference.is_none() != defect.escapes_a_walk() {
            wrong_about.push(format!("{defect:?}: {difference:?}"));
        }
        let Some(difference) = difference else { continue };
        seen += 1;
        println!("{defect:?} ({}): walk {}, {} calls", defect.wrong(), difference.seed(), difference.calls());
        if difference.calls() > ENOUGH {
            wrong_about.push(format!("{defect:?} is not cut short: {difference}"));
        }
    }
    println!("{seen} of {} wrong stores seen by a walk", Defect::ALL.len());
    assert!(wrong_about.is_empty(), "{wrong_about:#?}");
}

#[test]
fn n04_a_walk_sees_a_wrong_rule_by_a_clock_that_runs_too() {
    for defect in [
        Defect::TakeoverKeepsToken,
        Defect::LeaseWrittenByAppClock,
        Defect::RenewNotCounted,
        Defect::EndKeepsExpiry,
        Defect::RerunNeverEnds,
        Defect::SweepByAge,
    ] {
        let exhibit = Exhibit { wrong: Some(defect), time: Time::Shifted };
        let Err(difference) = trial::walk(exhibit, 0..WALKS, STEPS) else { panic!("{defect:?} is not seen") };
        assert!(difference.calls() <= ENOUGH, "{defect:?}: {difference}");
    }
}

#[test]
fn n04_every_history_of_the_store_without_a_defect_is_explained() {
    for exhibit in RIGHT {
        if let Err(unexplained) = trial::race(exhibit, 0..HISTORIES / 5) {
            panic!("{exhibit:?}: {unexplained}");
        }
    }
}

#[test]
fn n04_histories_show_every_wrong_rule_that_takes_two_calls_at_once() {
    let (mut seen, mut unseen) = (0, Vec::new());
    for &defect in Defect::ALL.iter().filter(|defect| defect.shows_in_histories()) {
        // How the calls meet is left to chance, so a store that is lucky is tried again.
        match (0..TRIES).find_map(|_| trial::race(wrong(defect), 0..HISTORIES).err()) {
            Some(unexplained) => {
                println!("{defect:?} ({}): history {}", defect.wrong(), unexplained.seed());
                seen += 1;
            }
            None => unseen.push(defect),
        }
    }
    println!("{seen} wrong stores are seen by histories");
    assert!(unseen.is_empty(), "{unseen:?}");
}
