//! The language of comments, messages, pages and names: openings and words that make a reader stop, and names with two
//! meanings.

use std::collections::BTreeMap;
use std::process::Command;

use gristmill_tidy::{SourceFile, functions, literals, root, sources, text_files};

/// First words of doc comments that paraphrase instead of naming the thing or the action.
const OPENINGS: &[&str] = &[
    "Anybody", "How", "Nobody", "Somebody", "What", "When", "Where", "Whether", "Which", "Who",
    "Whoever", "Whom", "Whose", "Why",
];

/// Pronouns that hide the actor, and phrases that a native reader has to read twice.
const BANNED: &[&str] = &[
    "anybody",
    "anyone",
    "somebody",
    "someone",
    "nobody",
    "whoever",
    "whomever",
    "what of that",
    "be it",
    "is to be",
    "are to be",
    "as far as",
    "at the most",
    "for want of",
];

/// Words for parts of the engine that have other names now; messages must use these names.
const OUTDATED: &[&str] = &[
    "depot", "errand", "giver", "guests", "housing", "porter", "steward", "taker", "tenant",
    "warden",
];

/// Names of former types, modules and functions, in the form of a type. The things have the field's names now.
const FORMER_NAMES: &[&str] = &[
    "AppLane",
    "Beats",
    "Birth",
    "ClientLane",
    "Deed",
    "Depot",
    "DepotLine",
    "Desk",
    "Door",
    "Doorway",
    "Equipment",
    "Errand",
    "Errands",
    "Fate",
    "Giver",
    "Giving",
    "Guest",
    "Guests",
    "Homing",
    "Housing",
    "Hunt",
    "Inspector",
    "Keeping",
    "Lane",
    "Lanes",
    "Meeting",
    "News",
    "Outfit",
    "Porter",
    "Prospects",
    "Provision",
    "Provisions",
    "Reception",
    "Staying",
    "Steward",
    "Tags",
    "Taker",
    "Taking",
    "Talk",
    "Temperature",
    "Tenant",
    "Told",
    "Trouble",
    "Warden",
    "Whereabouts",
    "Wish",
    "WorkerLane",
    "Workless",
];

/// Names of former functions.
const FORMER_FUNCTIONS: &[&str] = &["bear_fruit", "deal", "dismiss", "doom", "note_fruit", "obey"];

/// Words of the glossary of `ARCHITECTURE.md` in the form of types, with the crates that may declare such a type.
const GLOSSARY: &[(&str, &[&str])] = &[
    ("Attendant", &[]),
    ("Bell", &["shm", "transport"]),
    ("Client", &["client", "sim"]),
    ("Context", &["core"]),
    ("Doorbell", &[]),
    ("Epoch", &[]),
    ("Floor", &["core"]),
    ("Keeper", &[]),
    ("Leader", &["lead"]),
    ("Lease", &[]),
    ("Link", &["client", "core", "keeper"]),
    ("Peer", &["core"]),
    ("Placement", &[]),
    ("Promise", &[]),
    ("Slot", &["core"]),
    ("Spare", &[]),
    ("TakeBack", &["shm"]),
    ("Zygote", &["client", "keeper"]),
];

/// Returns the first of the words that a text contains as a whole word.
fn first_of<'a>(words: &[&'a str], text: &str) -> Option<&'a str> {
    let text = text.to_lowercase();
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    words.iter().copied().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            !is_letter(text[..at].chars().last())
                && !is_letter(text[at + word.len()..].chars().next())
        })
    })
}

/// Returns the prose of a page: its lines with their numbers, without blocks and spans of code.
fn prose(page: &SourceFile) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            lines.push((number, line.split('`').step_by(2).collect::<Vec<_>>().join(" ")));
        }
    }
    lines
}

/// Returns the type or module that a line declares: its keyword and its name. Types of traits do not count.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let mut words = line
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !matches!(*word, "" | "pub" | "crate" | "super" | "unsafe"));
    let kind = words.next()?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "union");
    let is_alias = kind == "type" && !line.starts_with(' ');
    (is_type || is_alias || kind == "mod").then(|| words.next().map(|name| (kind, name)))?
}

/// Returns the comment of a line, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(found) = line[from..].find("//") {
        let at = from + found;
        // Inside a string, as in an address, the slashes begin no comment.
        if line[..at].matches('"').count().is_multiple_of(2) {
            return Some(line[at + 2..].trim_start_matches(['/', '!']).trim());
        }
        from = at + 2;
    }
    None
}

/// Returns the Rust files, without this one.
fn rust_files() -> Vec<SourceFile> {
    let mut files = text_files(&["rs"]);
    files.retain(|file| !file.path.ends_with("tidy/tests/language.rs"));
    files
}

fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-').next().unwrap_or_default()
}

/// Returns true if a line declares a function.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub")
            || matches!(*word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
    });
    words.next() == Some("fn")
}

/// Returns the first line of each doc comment: its number, its text, and the line of the item that it documents.
fn doc_comments(file: &SourceFile) -> Vec<(usize, &str, &str)> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let is_doc = |line: &str| line.starts_with("///");
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !is_doc(line) || (index > 0 && is_doc(lines[index - 1])) {
            continue;
        }
        let item = lines[index..]
            .iter()
            .find(|line| !is_doc(line) && !line.starts_with('#') && !line.starts_with(')'));
        found.push((index + 1, line[3..].trim(), item.copied().unwrap_or_default()));
    }
    found
}

#[test]
fn doc_comments_name_the_thing_or_the_action() {
    for file in rust_files() {
        for (number, text, _) in doc_comments(&file) {
            let word = first_word(text);
            assert!(!OPENINGS.contains(&word), "{}:{number} opens with {word}: {text}", file.path);
        }
        let text = file.text.trim_start_matches("//!").trim_start();
        let word = first_word(text);
        assert!(!OPENINGS.contains(&word), "{} opens with {word}", file.path);
    }
}

#[test]
fn doc_comments_of_functions_begin_with_a_verb() {
    for file in rust_files() {
        for (number, text, item) in doc_comments(&file) {
            let word = first_word(text);
            let is_verb =
                word.ends_with('s') && word.starts_with(|letter: char| letter.is_uppercase());
            assert!(
                !is_function(item) || is_verb,
                "{}:{number} begins with no verb in the third person: {text}",
                file.path
            );
        }
    }
}

#[test]
fn comments_name_their_actors() {
    for file in rust_files() {
        for (number, line) in file.lines() {
            let found = first_of(BANNED, comment(line).unwrap_or_default());
            assert!(found.is_none(), "{}:{number} says {found:?}: {line}", file.path);
        }
    }
}

#[test]
fn messages_name_their_actors() {
    for file in rust_files().iter().filter(|file| file.crate_name() != Some("tidy")) {
        for (number, text) in literals(file).iter().filter(|(_, text)| text.contains(' ')) {
            let found = first_of(BANNED, text).or_else(|| first_of(OUTDATED, text));
            assert!(found.is_none(), "{}:{number} says {found:?}: {text}", file.path);
        }
    }
}

#[test]
fn pages_name_their_actors() {
    // Results are measured once. Entries of the changelog are history.
    let skipped = ["CHANGELOG.md", "docs/results"];
    let is_page = |page: &SourceFile| !skipped.iter().any(|name| page.path.starts_with(name));
    for page in text_files(&["md"]).into_iter().filter(is_page) {
        for (number, text) in prose(&page) {
            let found = first_of(BANNED, &text);
            assert!(found.is_none(), "{}:{number} says {found:?}: {text}", page.path);
        }
    }
}

#[test]
fn names_of_functions_name_their_actors() {
    for file in rust_files() {
        for function in functions(&file) {
            let words = function.name.replace('_', " ");
            let found = first_of(BANNED, &words);
            assert!(found.is_none(), "{}:{} says {found:?}", file.path, function.line);
            let is_former = FORMER_FUNCTIONS.contains(&function.name.as_str());
            assert!(!is_former, "{} has {} again: see its field's name", file.path, function.name);
        }
    }
}

#[test]
fn former_names_do_not_come_back() {
    for file in sources().iter().filter(|file| file.crate_name() != Some("tidy")) {
        for (number, line) in file.lines() {
            let Some((_, name)) = declaration(line) else { continue };
            let plain = name.replace('_', "").to_lowercase();
            let found = FORMER_NAMES.iter().find(|former| former.to_lowercase() == plain);
            assert!(
                found.is_none(),
                "{}:{number} declares {name}: use the field's name",
                file.path
            );
        }
    }
}

#[test]
fn words_of_the_glossary_name_one_thing() {
    for file in sources().iter().filter(|file| file.path.contains("/src/")) {
        for (number, line) in file.lines() {
            let Some((kind, name)) = declaration(line) else { continue };
            let Some((_, owners)) = GLOSSARY.iter().find(|(word, _)| *word == name) else {
                continue;
            };
            let owner = file.crate_name().unwrap_or_default();
            assert!(
                kind == "mod" || owners.contains(&owner),
                "{}:{number} declares {name}, a word of the glossary of ARCHITECTURE.md",
                file.path
            );
        }
    }
}

#[test]
fn no_two_public_types_have_one_name() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for file in sources().iter().filter(|file| file.path.contains("/src/")) {
        for (number, line) in file.lines() {
            let mut words =
                line.trim_start().split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let is_public = words.next() == Some("pub") && line.trim_start().starts_with("pub ");
            let kind = words.find(|word| !matches!(*word, "" | "unsafe"));
            if is_public
                && kind.is_some_and(|kind| {
                    matches!(kind, "struct" | "enum" | "trait" | "type" | "union")
                })
            {
                let name = words.next().unwrap_or_default().to_string();
                places.entry(name).or_default().push(format!("{}:{number}", file.path));
            }
        }
    }
    for (name, places) in places {
        assert!(places.len() == 1, "{name} is the name of several types: {places:?}");
    }
}

#[test]
fn subjects_of_commits_say_what_changed() {
    let git = |arguments: &[&str]| {
        let done = Command::new("git").arg("-C").arg(root()).args(arguments).output();
        let done = done.expect("git can be run");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    // Since the commit that added this rule; a copy without its history has nothing to check.
    let added =
        git(&["log", "--diff-filter=A", "--format=%H", "--", "crates/tidy/tests/language.rs"]);
    let Some(added) = added
        .lines()
        .last()
        .filter(|_| git(&["rev-parse", "--is-shallow-repository"]).trim() == "false")
    else {
        return;
    };
    for subject in git(&["log", "--no-merges", "--format=%s", &format!("{added}..HEAD")]).lines() {
        let lower = subject.to_lowercase();
        let found = BANNED.iter().find(|word| lower.split(' ').any(|part| part == **word));
        assert!(found.is_none(), "the subject \"{subject}\" says {found:?}");
    }
}
