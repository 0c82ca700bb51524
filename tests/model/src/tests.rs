//! The checks are checked: every rule has a mutant, and no promise is idle.

use crate::{mutants, promise, run::explore};

const THREADS: usize = 2;

#[test]
fn n04_every_promise_is_the_only_one_that_notices_some_mutant() {
    for &(_, promise, _) in promise::ALL {
        let mutant = mutants::all().find(|mutant| mutant.only == Some(promise));
        let mutant = mutant.unwrap_or_else(|| panic!("no mutant needs {promise}"));
        let mut model = mutant.model();
        assert_eq!(explore(&model, THREADS).promises(), [promise], "{}", mutant.text);
        model.without = Some(promise);
        assert!(
            explore(&model, THREADS).broken.is_empty(),
            "without {promise}, still noticed: {}",
            mutant.text
        );
    }
}

#[test]
fn n04_every_rule_is_broken_by_some_mutant_of_its_own() {
    // The enum has no list of its variants; the mutants' `match` would not notice one that is never used, the
    // compiler does: a variant that no mutant constructs is dead code.
    let mut single: Vec<_> = mutants::all().filter(|mutant| mutant.broken.len() == 1).collect();
    let count = single.len();
    single.dedup_by_key(|mutant| mutant.broken);
    assert_eq!(single.len(), count, "one mutant a rule");
}
