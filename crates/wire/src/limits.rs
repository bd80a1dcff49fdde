//! Limits that appear in decoding errors, and the limits of names and texts.

/// The largest number of results of other tasks that the arguments of one task name:
/// [`TaskFrame::parent_count`](crate::TaskFrame::parent_count) has 24 bits.
pub const PARENTS_MAX: u32 = (1 << 24) - 1;

/// The largest name that an engine keeps, bytes. A host name has at most 255.
pub const NAME_SIZE_MAX: usize = 1 << 10;

/// Returns the beginning of a name, as much as an engine keeps of it, cut between characters.
#[must_use]
pub fn short_name(name: &str) -> &str {
    cut_text(name, NAME_SIZE_MAX)
}

/// Returns the beginning of a text, at most `size_max` bytes, cut between characters.
#[must_use]
pub fn cut_text(text: &str, size_max: usize) -> &str {
    let size = (0..=text.len().min(size_max)).rev().find(|&end| text.is_char_boundary(end));
    &text[..size.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(short_name("f"), "f");
        assert_eq!(short_name(&"ö".repeat(NAME_SIZE_MAX)), "ö".repeat(NAME_SIZE_MAX / 2));
        let odd = format!("o{}", "ö".repeat(NAME_SIZE_MAX));
        assert_eq!(short_name(&odd).len(), NAME_SIZE_MAX - 1);
        assert_eq!([0, 1, 2, 3, 9].map(|size| cut_text("öß", size)), ["", "", "ö", "ö", "öß"]);
    }
}
