//! No condition is idle: whatever is left out of a statement, a case fails, or `drops.md` says why none can.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{Write as _, stdout},
};

use super::{
    damaged::every_damage,
    plans::same_plans,
    split::Damage,
    table::{Line, Verdict, lines},
    trial::{Trial, every_case, try_all},
};

/// Set to `wide` it has every case tried with every damaged store; set to `redundant`, or to the name of a statement, with
/// those that nothing is said to notice, or with those of the statement.
const WIDE: &str = "IDEM_SQL_DROPS";

/// Connections for cases that make one call after the other, as those of the table do: each new one prepares everything.
const FEW: u32 = 2;

/// Connections for cases that make many calls at once.
const CROWD: u32 = 16;

#[test]
fn n10_whatever_a_statement_lacks_is_noticed_or_redundant_for_a_reason() {
    let (damages, lines) = (every_damage(), lines());
    assert_eq!(unmatched(&damages, &lines), Vec::<String>::new(), "drops.md and the statements");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let same = runtime.block_on(same_plans(&damages));
    let mut drops: Vec<Drop<'_>> = Vec::new();
    for ((damage, line), same_plan) in damages.iter().zip(&lines).zip(same) {
        drops.push(Drop { damage, verdict: &line.verdict, same_plan });
    }
    let complaints = match env::var(WIDE) {
        Err(_) => short(&drops),
        Ok(which) => wide(&drops, &which),
    };
    assert!(complaints.is_empty(), "{complaints:#?}");
    let killed = drops.iter().filter(|drop| matches!(drop.verdict, Verdict::Killed(_))).count();
    say(&format!("killed {killed}, redundant {}, total {}", drops.len() - killed, drops.len()));
}

/// One thing left out, and what is said of it.
struct Drop<'d> {
    damage: &'d Damage,
    verdict: &'d Verdict,
    same_plan: bool,
}

impl Drop<'_> {
    fn killers(&self) -> &[&'static str] {
        match self.verdict {
            Verdict::Killed(cases) => cases,
            Verdict::SamePlan | Verdict::Redundant(_) => &[],
        }
    }

    fn is_of(&self, which: &str) -> bool {
        match which {
            "wide" => true,
            "redundant" => matches!(self.verdict, Verdict::Redundant(_)),
            statement => statement == self.damage.statement,
        }
    }

    /// Whether the table says that the plan is the same, and it is not. A plan does not show everything, but it shows
    /// what is computed apart.
    fn misjudged(&self) -> Option<String> {
        let is_shown = self.same_plan && self.damage.what.contains(" AS MATERIALIZED");
        let says_same = matches!(self.verdict, Verdict::SamePlan);
        (says_same && !is_shown).then(|| format!("{}: another plan", self.damage))
    }
}

/// What stands on one side only, or elsewhere.
fn unmatched(damages: &[Damage], lines: &[Line]) -> Vec<String> {
    let found: Vec<_> = damages.iter().map(|damage| (damage.statement, damage.what.as_str())).collect();
    let told: Vec<_> = lines.iter().map(|line| (line.statement, line.what)).collect();
    let new = found.iter().filter(|it| !told.contains(it)).map(|it| format!("without a line: {it:?}"));
    let old = told.iter().filter(|it| !found.contains(it)).map(|it| format!("no longer there: {it:?}"));
    let mut unmatched: Vec<_> = new.chain(old).collect();
    if unmatched.is_empty() && found != told {
        let first = found.iter().zip(&told).find(|(found, told)| found != told);
        unmatched.push(format!("out of order or twice: {first:?}"));
    }
    unmatched
}

/// Tries each damaged store with the cases that are said to notice it, and a sound one with all of those.
fn short(drops: &[Drop<'_>]) -> Vec<String> {
    let cases: BTreeSet<_> = drops.iter().flat_map(Drop::killers).copied().collect();
    let mut trials: Vec<Trial<'_>> = cases.into_iter().map(|case| (None, case)).collect();
    trials.extend(drops.iter().flat_map(|drop| drop.killers().iter().map(|case| (Some(drop.damage), *case))));
    let outcomes = try_all(&trials, FEW);
    let surprises = trials.iter().zip(outcomes).filter_map(|(trial, outcome)| surprise(trial, outcome));
    drops.iter().filter_map(Drop::misjudged).chain(surprises).collect()
}

/// What is wrong with an outcome: a sound store that fails, a damaged one that passes.
fn surprise((damage, case): &Trial<'_>, outcome: Option<String>) -> Option<String> {
    match (damage, outcome) {
        (None, Some(why)) => Some(format!("the sound store fails {case}: {why}")),
        (Some(damage), None) => Some(format!("{damage}: passes {case}")),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// Tries each damaged store with every case, and prints the table as it comes out.
fn wide(drops: &[Drop<'_>], which: &str) -> Vec<String> {
    let cases = every_case();
    let sound: Vec<Trial<'_>> = cases.iter().map(|case| (None, *case)).collect();
    let outcomes = try_all(&sound, CROWD);
    let mut complaints: Vec<_> =
        sound.iter().zip(outcomes).filter_map(|(trial, it)| surprise(trial, it)).collect();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for drop in drops.iter().filter(|drop| drop.is_of(which)) {
        let count = seen.entry(drop.damage.statement).or_default();
        if *count == 0 {
            say(&format!("\n## {}\n", drop.damage.statement));
        }
        *count += 1;
        let trials: Vec<Trial<'_>> = cases.iter().map(|case| (Some(drop.damage), *case)).collect();
        let outcomes = try_all(&trials, CROWD).into_iter().zip(&cases);
        let killers: Vec<_> = outcomes.filter_map(|(outcome, case)| outcome.map(|_| *case)).collect();
        let listed = killers.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join(", ");
        match drop.verdict {
            Verdict::Killed(cases) => {
                let passed = cases.iter().filter(|case| !killers.contains(case));
                complaints.extend(passed.map(|case| format!("{}: passes {case}", drop.damage)));
                say(&format!("- {} — {listed}", drop.damage.what));
            }
            Verdict::SamePlan | Verdict::Redundant(_) if killers.is_empty() => {
                say(&format!("- {} — {}", drop.damage.what, drop.verdict));
            }
            Verdict::SamePlan | Verdict::Redundant(_) => {
                complaints.push(format!("{}: not redundant, {listed}", drop.damage));
            }
        }
        complaints.extend(drop.misjudged());
    }
    assert!(!seen.is_empty(), "{WIDE} is wide, redundant or the name of a statement, not {which:?}");
    complaints
}

/// Past the test harness, which would keep it to itself.
fn say(line: &str) {
    writeln!(stdout().lock(), "{line}").expect("standard output");
}

#[test]
fn n10_a_condition_without_a_line_and_a_line_without_a_condition_are_told() {
    let (damages, mut lines) = (every_damage(), lines());
    let mut more = damages.clone();
    more.push(Damage { what: "`k.new = $1` → true".to_owned(), ..damages[0].clone() });
    assert_eq!(unmatched(&more, &lines), [r#"without a line: ("claim", "`k.new = $1` → true")"#]);
    assert!(unmatched(&damages[1..], &lines)[0].starts_with("no longer there: "));
    lines.swap(0, 1);
    assert!(unmatched(&damages, &lines)[0].starts_with("out of order"));
}

#[test]
fn n10_a_damaged_store_that_passes_and_a_sound_one_that_fails_are_told() {
    let harmless = Damage { what: "nothing".to_owned(), ..every_damage()[0].clone() };
    let trials = [(Some(&harmless), "claim_first_takes_the_key"), (None, "no such case")];
    let told: Vec<_> = trials
        .iter()
        .zip(try_all(&trials, FEW))
        .filter_map(|(trial, outcome)| surprise(trial, outcome))
        .collect();
    assert_eq!(told[0], "claim without nothing: passes claim_first_takes_the_key");
    assert!(told[1].starts_with("the sound store fails no such case: there is no case"), "{told:?}");
}
