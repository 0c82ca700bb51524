//! Seeds: what brings a random run back.

use std::env;

use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

/// Draws one thing from `seed` alone, and keeps no files.
pub(crate) fn config(seed: u64) -> Config {
    Config {
        cases: 1,
        rng_seed: RngSeed::Fixed(seed),
        // Good enough to pick calls with, and so much faster in a debug build.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        ..Config::default()
    }
}

/// What the environment asks for.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number; seen={text}")))
}
