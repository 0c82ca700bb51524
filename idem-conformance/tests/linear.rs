//! Callers of the memory store are told what some order of their calls explains.

mod memory;

use idem_conformance::linear;
use memory::Memory;

const HISTORIES: u64 = 400;

#[test]
fn s01_every_history_of_the_memory_store_is_explained_by_an_order_of_its_calls() {
    let tally = linear::run::<Memory>(HISTORIES);
    println!("{tally}");
    for (call, answer) in [
        ("claim", "new"),
        ("claim", "expired"),
        ("claim", "reissued"),
        ("claim", "retried"),
        ("claim", "taken over"),
        ("claim", "completed"),
        ("claim", "in progress"),
        ("claim", "in doubt"),
        ("claim", "mismatch"),
        ("claim", "unknown"),
        ("complete", "unknown"),
        ("resolve", "ok"),
        ("overlap", "claim"),
        ("overlap", "complete"),
        ("overlap", "checkpoint"),
        ("overlap", "resolve"),
    ] {
        let count = tally.of(call, answer);
        assert!(count >= HISTORIES / 100, "the histories seldom came to {call}: {answer} ({count})\n{tally}");
    }
}
