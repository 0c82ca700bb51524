//! Checks the machine exhaustively, and checks the check.
//!
//! `idem-model` explores every interleaving of a few attempts on one key, with the decisions that ship
//! ([`idem_core::state`]), and then breaks every rule once: each must be noticed. ARCHITECTURE.md has a page that begins
//! at the beginning.
//!
//! | command (`cargo run --release -p idem-model -- …`) | does |
//! |---|---|
//! | (none) | the base configurations, then all mutants; exits with 1 if anything is wrong |
//! | `wide` | the wide configurations |
//! | `trace RULE` | the shortest way in which the absence of a rule shows, as a story |
//! | `rules` | every mutant: what it does instead, and what notices |

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a check that stops has failed, and what it says is what it is for"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a lie names the rules and calls that it is about, a table of mutants names all of them"
)]

mod action;
mod configuration;
mod lies;
mod machine;
mod model;
mod mutants;
mod owner;
mod promise;
mod reconciler;
mod rule;
mod run;
mod solo;
mod sometimes;
mod step;
mod store;
mod tell;
#[cfg(test)]
mod tests;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{model::Model, mutants::Mutant, rule::Rule, run::explore, sometimes::Reached};

#[derive(Debug, Parser)]
#[command(about = "Checks the machine exhaustively, and checks the check")]
struct Arguments {
    /// Threads of an exploration.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    #[command(subcommand)]
    command: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Explores the wide configurations.
    Wide,
    /// Tells the shortest way in which the absence of a rule shows.
    Trace {
        /// The rule's name, as `rules` prints it.
        rule: String,
    },
    /// Lists every mutant.
    Rules,
}

fn main() -> ExitCode {
    let Arguments { threads, command } = Arguments::parse();
    let good = match command {
        None => all(&configuration::base(), threads) & kill_all(threads),
        Some(What::Wide) => all(&configuration::wide(), threads),
        Some(What::Trace { rule }) => trace(&rule),
        Some(What::Rules) => {
            list();
            true
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores each, and looks whether everything that must happen sometimes did.
fn all(models: &[Model], threads: usize) -> bool {
    let (started, reached) = (run::clock(), Reached::default());
    let (mut states, mut violations) = (0, 0);
    for model in models {
        let outcome = explore(model, threads);
        println!("{outcome}");
        for (promise, steps) in &outcome.broken {
            println!("  {promise} is broken:\n{}", steps.join("\n"));
        }
        reached.add(&model.reached);
        states += outcome.states;
        violations += outcome.broken.len();
    }
    let (count, seconds) = (models.len(), started.elapsed().as_secs_f64());
    println!("{count} configurations, {states} states, {seconds:.1} s, {violations} violations");
    let missing = reached.missing();
    let sometimes = sometimes::ALL.len();
    println!("reached {} of {sometimes} states that must be reached", sometimes - missing.len());
    for missed in &missing {
        println!("  never reached: {missed}");
    }
    violations == 0 && missing.is_empty()
}

/// Looks whether each broken rule is noticed, and whether what cannot be noticed is not.
fn kill_all(threads: usize) -> bool {
    let started = run::clock();
    let (equal, killable): (Vec<_>, Vec<_>) = mutants::all().partition(|mutant| mutant.equivalent.is_some());
    let noticed = |mutant: &Mutant| !explore(&mutant.model(), threads).broken.is_empty();
    let mut killed = 0;
    for mutant in &killable {
        if noticed(mutant) {
            killed += 1;
        } else {
            println!("  lives: {}", mutant.text);
        }
    }
    let mut stale = 0;
    println!("equivalent, each explored to the end:");
    for mutant in &equal {
        println!("  {}: {}", mutant.text, mutant.equivalent.unwrap_or_default());
        if noticed(mutant) {
            stale += 1;
            println!("    but something notices");
        }
    }
    let (total, seconds) = (killable.len(), started.elapsed().as_secs_f64());
    println!("mutants killed: {killed} of {total}, and {} equivalent, in {seconds:.1} s", equal.len());
    killed == total && stale == 0
}

/// One thread, so that the first trace is a shortest one.
fn trace(rule: &str) -> bool {
    let is = |broken: &Rule| format!("{broken:?}").eq_ignore_ascii_case(rule);
    let named = |mutant: &&Mutant| mutant.broken.iter().any(is);
    let mut told = false;
    for mutant in mutants::all().filter(named) {
        told = true;
        println!("{}", mutant.text);
        for (promise, steps) in explore(&mutant.model(), 1).broken {
            println!("  {promise}: {}\n{}", promise::wording(promise), steps.join("\n"));
        }
        if let Some(reason) = mutant.equivalent {
            println!("  nothing notices: {reason}");
        }
    }
    if !told {
        println!("no rule is called {rule}; `rules` lists them");
    }
    told
}

fn list() {
    for mutant in mutants::all() {
        let noticed = match mutant.equivalent {
            Some(reason) => format!("nothing: {reason}"),
            None => format!("noticed by {}", explore(&mutant.model(), 1).promises().join(" ")),
        };
        println!("{:?}: {}\n    {noticed}", mutant.broken, mutant.text);
    }
    println!("\nwhat notices:");
    for &(_, promise, wording) in promise::ALL {
        println!("{promise:>8}  {wording}");
    }
}
