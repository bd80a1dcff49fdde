//! Functions and their lengths, by indentation: `rustfmt` has put each closing brace under its `fn`.

use crate::SourceFile;

/// One function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Line of its `fn`.
    pub line: usize,
    /// Number of lines from there to the closing brace.
    pub length: usize,
}

/// Returns the functions of a Rust file whose bodies have more than one line.
#[must_use]
pub fn functions(file: &SourceFile) -> Vec<Function> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = name_of(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let (end, end_of_body) = (format!("{indent}}}"), format!("{indent}}};"));
        let is_end = |line: &&str| **line == *end || **line == *end_of_body || line.ends_with(';');
        let is_own =
            |line: &&str| line.starts_with(indent) && !line[indent.len()..].starts_with(' ');
        if line.ends_with(['}', ';']) {
            continue;
        }
        let rest = lines[index + 1..].iter();
        let last = rest.enumerate().find(|(_, line)| is_own(line) && is_end(line));
        if let Some((length, _)) = last {
            found.push(Function { name: name.to_owned(), line: index + 1, length: length + 2 });
        }
    }
    found
}

/// Returns the name of the function that begins in a line.
fn name_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let modifiers = |word: &&str| {
        matches!(*word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"")
            || word.starts_with("pub(")
            || *word == "super)"
    };
    let first = words.by_ref().find(|word| !modifiers(word))?;
    if first != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_as_long_as_its_lines() {
        let text = "impl A {\n    pub(crate) const fn one(&self) -> u8 {\n        if x {\n        }\n        1\n    }\n}\n\
                    fn two() {}\nfn three(\n    a: u8,\n) {\n    a;\n}\n";
        let file = SourceFile { path: "a.rs".into(), text: text.into() };
        let found: Vec<_> =
            functions(&file).into_iter().map(|one| (one.name, one.line, one.length)).collect();
        assert_eq!(found, [("one".into(), 2, 5), ("three".into(), 9, 5)]);
    }
}
