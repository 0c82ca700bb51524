//! The table of what can be left out, read from `drops.md`.

use std::fmt;

/// What follows where something is left out.
#[derive(Debug)]
pub(super) enum Verdict {
    /// These cases fail.
    Killed(Vec<&'static str>),
    /// Nothing: the server plans to do the very same.
    SamePlan,
    /// Nothing, for this reason.
    Redundant(&'static str),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(cases) => write!(f, "`{}`", cases.join("`, `")),
            Self::SamePlan => f.write_str("same plan"),
            Self::Redundant(reason) => write!(f, "redundant: {reason}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) statement: &'static str,
    pub(super) what: &'static str,
    pub(super) verdict: Verdict,
}

/// The table, from top to bottom.
pub(super) fn lines() -> Vec<Line> {
    let mut statement = None;
    let mut lines = Vec::new();
    for line in include_str!("drops.md").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            statement = Some(name);
        }
        let Some(entry) = line.strip_prefix("- ") else { continue };
        let (what, verdict) = entry.split_once(" — ").unwrap_or_else(|| panic!("no verdict: {line}"));
        let verdict = match verdict {
            "same plan" => Verdict::SamePlan,
            _ => match verdict.strip_prefix("redundant: ") {
                Some(reason) => Verdict::Redundant(reason),
                None => Verdict::Killed(verdict.split(", ").map(|name| name.trim_matches('`')).collect()),
            },
        };
        lines.push(Line { statement: statement.expect("a heading"), what, verdict });
    }
    lines
}
