//! The checks are checked: every rule has a mutant, and no promise is idle.
//!
//! A promise that is not looked at ends no run either: the others are looked at in what comes after it was broken.

use crate::{mutants, promise, rule, run::explore};

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
fn n04_every_rule_is_broken_by_one_mutant_of_its_own() {
    let alone = |mutant: &&mutants::Mutant| mutant.broken.len() == 1;
    let mut broken: Vec<_> = mutants::all().filter(alone).flat_map(|mutant| mutant.broken).copied().collect();
    broken.sort_unstable();
    assert_eq!(broken, rule::ALL);
}
