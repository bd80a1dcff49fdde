//! Limits of sizes, so that a reader can hold each unit in mind.

use gristmill_tidy::{functions, sources, text_files};

/// Maximum number of lines of a file.
const FILE_LINES_MAX: usize = 1000;
/// Number of lines above which a file should give a reason.
const FILE_LINES_WARN: usize = 500;
/// Maximum number of lines of a function, except for those below.
const FUNCTION_LINES_MAX: usize = 70;

/// Functions that were longer when the rule came, with the length that they must not exceed. The list may only shrink.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

#[test]
fn files_are_short() {
    for file in text_files(&["rs", "py"]) {
        let count = file.text.lines().count();
        assert!(count <= FILE_LINES_MAX, "{} has {count} lines", file.path);
        if count > FILE_LINES_WARN {
            println!("warning: {} has {count} lines", file.path);
        }
    }
}

#[test]
fn functions_are_short() {
    let mut listed = vec![false; LONG_FUNCTIONS.len()];
    for file in sources() {
        for function in functions(&file) {
            if function.length <= FUNCTION_LINES_MAX {
                continue;
            }
            let place = LONG_FUNCTIONS
                .iter()
                .position(|(path, name, _)| file.path == *path && function.name == *name);
            let limit = place.map_or(FUNCTION_LINES_MAX, |place| LONG_FUNCTIONS[place].2);
            let text = format!("{}:{} {}", file.path, function.line, function.name);
            assert!(function.length <= limit, "{text} has {} lines", function.length);
            listed[place.expect("a longer limit comes from the list")] = true;
        }
    }
    for ((path, name, _), is_long) in LONG_FUNCTIONS.iter().zip(listed) {
        assert!(is_long, "{name} in {path} is short now: take it off the list");
    }
}
