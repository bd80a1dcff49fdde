//! Rules about unsafe code, atomics, lints, and the comment and attributes at the top of each file.

use gristmill_tidy::{SourceFile, sources};

/// Crates that may hold unsafe code.
const UNSAFE_CRATES: &[&str] = &["sync", "shm", "keeper", "native", "function"];

/// Files outside `sync` that name the standard library's atomics: their words are not part of a protocol between threads that
/// is model-checked.
const OWN_ATOMICS: &[&str] = &[
    "crates/native/src/fork.rs",
    "crates/native/src/engine/configure.rs",
    "crates/native/src/engine/mod.rs",
    "crates/native/src/engine/service.rs",
];

fn roots() -> Vec<SourceFile> {
    let is_root = |file: &SourceFile| file.path.ends_with("/src/lib.rs");
    sources().into_iter().filter(is_root).collect()
}

/// Returns the line without comments and without the text of its strings.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect()
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    for file in sources() {
        let owner = file.crate_name().unwrap_or_default();
        if UNSAFE_CRATES.contains(&owner) || owner == "tidy" {
            continue;
        }
        for (number, line) in file.lines() {
            let has_unsafe = code(line)
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .any(|word| word == "unsafe");
            assert!(!has_unsafe, "{}:{number}: {line}", file.path);
        }
    }
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    for file in roots() {
        let may = UNSAFE_CRATES.contains(&file.crate_name().unwrap_or_default());
        let forbids = file.text.contains("#![forbid(unsafe_code)]");
        assert!(may || forbids, "{} has to say #![forbid(unsafe_code)]", file.path);
    }
}

#[test]
fn every_file_says_what_it_is() {
    for file in sources() {
        assert!(file.text.starts_with("//!"), "{} does not begin with a `//!` comment", file.path);
    }
}

#[test]
fn atomics_come_through_the_facade() {
    for file in sources() {
        let owner = file.crate_name().unwrap_or_default();
        if matches!(owner, "sync" | "tidy") || OWN_ATOMICS.contains(&file.path.as_str()) {
            continue;
        }
        for (number, line) in file.lines() {
            let has_own = code(line).contains("std::sync::atomic")
                || code(line).contains("core::sync::atomic");
            assert!(!has_own, "{}:{number} bypasses gristmill_sync::atomic", file.path);
        }
    }
}

#[test]
fn lints_are_expected_with_a_reason() {
    let needle = concat!("#[", "allow(");
    for file in sources() {
        for (number, line) in file.lines() {
            assert!(!line.contains(needle), "{}:{number} allows instead of expecting", file.path);
        }
    }
}
