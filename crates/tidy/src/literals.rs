//! String literals of Rust files.

use crate::SourceFile;

/// Returns the string literals of a file, each with the number of its first line. The line breaks after backslashes are left
/// out; other escapes stay as they are written.
#[must_use]
pub fn literals(file: &SourceFile) -> Vec<(usize, String)> {
    let text = file.text.as_str();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = &text[at..];
        at += match byte {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'\'' => character_size(rest),
            b'r' if !follows_word(text, at) && raw_start(rest).is_some() => {
                let (hashes, start) = raw_start(rest).unwrap_or_default();
                let end = format!("\"{}", "#".repeat(hashes));
                let size = rest[start..].find(&end).unwrap_or(rest.len() - start);
                found.push((line_of(text, at), rest[start..start + size].to_owned()));
                (start + size + end.len()).min(rest.len())
            }
            b'"' => {
                let size = quoted_size(&rest[1..]);
                found.push((line_of(text, at), joined(&rest[1..=size])));
                (size + 2).min(rest.len())
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns true if the position is inside a word, so that an `r` there begins no raw string.
fn follows_word(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    // `br"..."` is a raw string, too.
    before.is_some_and(|letter| (letter.is_alphanumeric() && letter != 'b') || letter == '_')
}

/// Returns the number of hashes of a raw string, and the offset of its first character.
fn raw_start(rest: &str) -> Option<(usize, usize)> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    rest[1 + hashes..].starts_with('"').then_some((hashes, hashes + 2))
}

/// Returns the size of a character literal, or 1 at a lifetime.
fn character_size(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |end| end + 4),
        Some(_) => letters.next().filter(|(_, letter)| *letter == '\'').map_or(1, |(at, _)| at + 1),
        None => 1,
    }
}

/// Returns the size of the text up to the closing quote.
fn quoted_size(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return at,
            _ => is_escaped = byte == b'\\' && !is_escaped,
        }
    }
    rest.len()
}

/// Returns a literal without the line breaks that follow backslashes, and without the indents after them.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_each_form_are_found_and_nothing_else() {
        let text = "// a \"comment\"\nlet one = \"first \\\n    second\"; // it's \"no\"\n\
                    fn of<'a>(quote: char) -> bool { quote == '\"' || quote == '\\'' }\n\
                    let other = r#\"a \"raw\" one\"#; let bytes = b\"x\\\"y\";\n";
        let file = SourceFile { path: "a.rs".into(), text: text.into() };
        let expected = [(2, "first second"), (5, "a \"raw\" one"), (5, "x\\\"y")];
        assert_eq!(literals(&file), expected.map(|(line, text)| (line, text.to_owned())));
    }
}
