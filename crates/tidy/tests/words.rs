//! Rules about empty words and leftovers.

use gristmill_tidy::text_files;

/// Words that must not be in file names or be module names.
const EMPTY_WORDS: &[&str] = &["utils", "common", "helpers", "misc"];
/// Files with the paths of Parsl's modules, which programs import.
const NAMED_BY_PARSL: &[&str] =
    &["python/gristmill/parsl/log_utils.py", "python/gristmill/parsl/utils.py"];
/// Words that must not be in any text.
const LEFTOVERS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
}

#[test]
fn no_file_is_named_after_nothing() {
    let all = text_files(&["rs", "py", "md", "toml"]);
    for file in all.iter().filter(|file| !NAMED_BY_PARSL.contains(&&*file.path)) {
        for word in EMPTY_WORDS {
            let found = words(&file.path).any(|part| part == *word);
            assert!(!found, "{} is named {word}: say what it holds", file.path);
        }
    }
}

#[test]
fn no_module_is_named_after_nothing() {
    for file in text_files(&["rs", "py"]).iter().filter(|file| !file.path.contains("tidy/")) {
        for (number, line) in file.lines() {
            for word in EMPTY_WORDS {
                let found = line.contains(&format!("mod {word}"))
                    || line.contains(&format!("import {word}"));
                assert!(!found, "{}:{number} names a module {word}", file.path);
            }
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    let all = text_files(&["rs", "py", "md", "toml", "pyi"]);
    for file in all.iter().filter(|file| !file.path.contains("tidy/")) {
        for (number, line) in file.lines() {
            let found = words(line).find(|word| LEFTOVERS.contains(word));
            assert!(found.is_none(), "{}:{number} says {found:?}", file.path);
        }
    }
}
