//! What came up in many random runs.

use std::{collections::BTreeMap, fmt};

/// How often each answer came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// How often `call` was answered with `answer`, such as `("claim", "taken over")` or `("renew", "claim_lost")`.
    pub fn of(&self, call: &str, answer: &str) -> u64 {
        self.0.get(&format!("{call}: {answer}")).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn count(&mut self, call: &str, answer: &str) {
        *self.0.entry(format!("{call}: {answer}")).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:>8} {what}"))
    }
}
