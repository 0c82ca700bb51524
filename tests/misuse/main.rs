//! Misuse that the compiler refuses.
//!
//! The modules below hold the right use, which compiles with every test, and each wrong line beside it behind
//! `cfg(misuse)`, marked with the error it has to meet. The test compiles this crate again with that switch on and
//! compares the marks with the errors, by file, line and code. So a case cannot be refused for another reason, such as
//! a name that has changed, and no message text of a compiler version is written down.

#![expect(unexpected_cfgs, reason = "both are set by this test alone")]
#![expect(dead_code, reason = "compiled, never run")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test's helpers fail like the test itself"
)]

mod effects;
mod http;
mod operation;
mod phases;
mod store;

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A file's name, a line, an error code.
type Error = (String, u64, String);

#[test]
fn each_misuse_is_refused_where_it_is_marked_and_for_its_own_reason() {
    // Who may touch a private field is only asked of code that is right otherwise: forgery needs a look of its own.
    let refused = &refused("misuse") | &refused("forgery");
    let expected = marked();
    assert!(!expected.is_empty());
    let missing: Vec<_> = expected.difference(&refused).collect();
    let unexpected: Vec<_> = refused.difference(&expected).collect();
    assert!(missing.is_empty() && unexpected.is_empty(), "compiled: {missing:?}\nunexpected: {unexpected:?}");
}

/// Every mark in this folder, `//~ E0000`: behind the line that it stands for, or alone on the line before.
fn marked() -> BTreeSet<Error> {
    let mut marks = BTreeSet::new();
    for entry in fs::read_dir(Path::new(ROOT).join("tests/misuse")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for (line, text) in (1..).zip(fs::read_to_string(&path).unwrap().lines()) {
            if let Some((code, mark)) =
                text.split_once("//~ ").filter(|(_, mark)| mark.len() == "E0000".len())
            {
                let line = if code.trim().is_empty() { line + 1 } else { line };
                marks.insert((name.clone(), line, mark.to_owned()));
            }
        }
    }
    marks
}

/// Every error that the compiler reports for this crate with `misuse` in it.
fn refused(misuse: &str) -> BTreeSet<Error> {
    // The profile of this build, whose dependencies are there already.
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let arguments = format!(
        "rustc --offline --profile {profile} --package idem-keys --test misuse --message-format json -- --cfg"
    );
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo runs this test"));
    let output =
        cargo.args(arguments.split(' ')).arg(misuse).current_dir(ROOT).output().expect("cargo starts");
    let errors: BTreeSet<_> = String::from_utf8(output.stdout).unwrap().lines().filter_map(error).collect();
    assert!(!errors.is_empty(), "nothing was refused: {}", String::from_utf8_lossy(&output.stderr));
    errors
}

/// Reads one message of cargo's; `None` where it is no error of the language, such as a denied lint.
fn error(message: &str) -> Option<Error> {
    let message = &serde_json::from_str::<Value>(message).expect("cargo writes json")["message"];
    let code = message["code"]["code"].as_str().filter(|code| code.starts_with('E'))?;
    let span = message["spans"].as_array()?.iter().find(|span| span["is_primary"] == true)?;
    let file = Path::new(span["file_name"].as_str()?).file_name()?.to_str()?;
    Some((file.to_owned(), span["line_start"].as_u64()?, code.to_owned()))
}
