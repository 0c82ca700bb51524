//! Copies a crate's sources as they ship, with another `std` before every file and faults behind switches.
//!
//! Called by build scripts. What the copy does while every switch is off is what the crate does: an edit keeps the text
//! that it stands before.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Where an edit keeps the text that ships.
const SHIPPED: &str = "{shipped}";
/// Where an edit asks whether its fault is switched on.
const ON: &str = "{on}";

/// A fault, put into the text of a file.
pub struct Fault {
    /// The name that switches it on.
    pub name: &'static str,
    /// The file, from the crate's `src`.
    pub file: &'static str,
    /// The text that ships; stands in the file exactly once.
    pub shipped: &'static str,
    /// What is put in its place: `{shipped}` is that text, `{on}` is whether the fault is switched on.
    pub flawed: &'static str,
}

/// Copies `<package>/src` to the build's output folder.
///
/// `std_from` is the path of the `std` that every file but the root sees; `instead` are texts that are replaced for
/// good: `(file, shipped, instead)`.
///
/// # Panics
/// Where an edit does not fit the file any more: the code has changed, and so must the fault.
pub fn copy(package: &str, std_from: &str, instead: &[(&str, &str, &str)], faults: &[Fault]) {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let source = here.join("../../..").join(package).join("src");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", source.display());
    for file in files(&source, Path::new("")) {
        let mut text = fs::read_to_string(source.join(&file)).expect("a source file is text");
        for &(edited, shipped, instead) in instead {
            if file == Path::new(edited) {
                text = replace(&text, edited, shipped, instead);
            }
        }
        for fault in faults.iter().filter(|fault| file == Path::new(fault.file)) {
            let on = format!("{std_from}::fault({:?})", fault.name);
            assert!(fault.flawed.contains(SHIPPED), "{}: the shipped text must stay", fault.name);
            let flawed = fault.flawed.replace(ON, &on).replace(SHIPPED, fault.shipped);
            text = replace(&text, fault.file, fault.shipped, &flawed);
        }
        // The root is included into another file, where inner attributes and docs may not stand.
        let root = file == Path::new("lib.rs");
        let (head, body) = split_head(&text);
        let head =
            if root { String::new() } else { format!("{head}#[allow(unused_imports)]\nuse {std_from};\n") };
        let path = target.join(&file);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
        fs::write(path, head + body).expect("a file can be written");
    }
    for file in instead.iter().map(|edit| edit.0).chain(faults.iter().map(|fault| fault.file)) {
        assert!(
            source.join(file).is_file(),
            "{package}/src/{file} is gone: what was edited there must move too"
        );
    }
}

fn replace(text: &str, file: &str, shipped: &str, instead: &str) -> String {
    let found = text.matches(shipped).count();
    assert!(found == 1, "{file}: this text stands there {found} times, not once:\n{shipped}");
    text.replace(shipped, instead)
}

/// The module's own docs and attributes, and the rest.
fn split_head(text: &str) -> (&str, &str) {
    let inner = |line: &str| line.starts_with("//!") || line.starts_with("#![") || line.trim().is_empty();
    let head = text.split_inclusive('\n').take_while(|line| inner(line)).map(str::len).sum();
    text.split_at(head)
}

fn files(source: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(source.join(folder)).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            found.extend(files(source, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
