//! `CONTRACT.md` is made from the list of cases; this test keeps it so.

use std::{env, fs};

use idem_conformance::cases;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../CONTRACT.md");
const COMMAND: &str = "IDEM_WRITE_CONTRACT=1 cargo test -p idem-conformance --test contract";

/// The groups in the order of the file, and what each is about. A group that is missing here fails the test.
const GROUPS: [(&str, &str); 15] = [
    ("claim", "Taking a key"),
    ("lease", "Holding it for a while"),
    ("fence", "Late writes"),
    ("complete", "Ending with an answer"),
    ("replay", "Giving the answer again"),
    ("fingerprint", "One key, one request"),
    ("checkpoint", "How far an operation has come, and whether it may run again"),
    ("failure", "Ending because it may be tried again"),
    ("request", "What was asked for"),
    ("resolve", "Settling what is in doubt"),
    ("sweep", "Forgetting"),
    ("ambiguity", "Lost requests, lost replies, late arrivals"),
    ("cancel", "Dropped calls"),
    ("wait", "Asking again"),
    ("admin", "Looking at records"),
];

fn contract() -> String {
    let mut text = include_str!("contract/rules.md").to_owned();
    let mut listed = 0;
    text.extend([format!("\n## The {} cases\n", cases().len())]);
    for (group, about) in GROUPS {
        let cases: Vec<_> = cases().iter().filter(|case| case.group == group).collect();
        listed += cases.len();
        text.extend([format!("\n### {about}\n\n| case | promise |\n|---|---|\n")]);
        text.extend(cases.iter().map(|case| format!("| `{}` | {} |\n", case.name, case.promise)));
    }
    assert_eq!(listed, cases().len(), "a case is of a group that the file does not list");
    text
}

#[test]
fn contract_is_current() {
    let expected = contract();
    if env::var_os("IDEM_WRITE_CONTRACT").is_some() {
        fs::write(PATH, &expected).expect("CONTRACT.md can be written");
    }
    let found = fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        found == expected,
        "CONTRACT.md is not what the cases say; write it anew with\n\n    {COMMAND}\n"
    );
}
