//! The memory store and the state functions go in step.

mod memory;

use idem_conformance::lockstep;
use memory::Memory;

const WALKS: u64 = 300;
const STEPS: usize = 60;

/// Every answer that the state functions can give.
const EVERY_ANSWER: [(&str, &[&str]); 10] = [
    (
        "claim",
        &[
            "new",
            "expired",
            "reissued",
            "retried",
            "taken over",
            "completed",
            "in progress",
            "in doubt",
            "mismatch",
            "unavailable",
            "invalid",
        ],
    ),
    ("renew", &["written", "claim_lost", "invalid"]),
    ("checkpoint", &["written", "ok", "claim_lost", "too_late", "invalid"]),
    ("complete", &["written", "ok", "claim_lost", "invalid"]),
    ("release", &["written", "ok", "claim_lost", "invalid"]),
    ("resolve", &["written", "ok", "claim_lost", "invalid"]),
    ("sweep", &["some", "none"]),
    ("stuck", &["some", "none"]),
    ("find", &["some", "none"]),
    ("elapse", &["ok"]),
];

#[test]
fn n04_the_memory_store_goes_in_step_with_the_state_functions() {
    let tally = lockstep::run::<Memory>(WALKS, STEPS);
    println!("{tally}");
    for (call, answers) in EVERY_ANSWER {
        for answer in answers {
            let count = tally.of(call, answer);
            assert!(count >= WALKS / 20, "the walks seldom came to {call}: {answer} ({count})\n{tally}");
        }
    }
}

#[test]
fn n04_a_seed_brings_the_same_walk_back() {
    let walk = |seed| lockstep::check::<Memory>(seed..seed + 1, 500).expect("in step");
    assert_eq!(walk(7), walk(7));
    assert_ne!(walk(7), walk(8));
}
