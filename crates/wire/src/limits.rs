//! Limits that appear in decoding errors, and the limit of names.

/// The largest number of results of other tasks that the arguments of one task name:
/// [`TaskFrame::parent_count`](crate::TaskFrame::parent_count) has 24 bits.
pub const PARENTS_MAX: u32 = (1 << 24) - 1;

/// The largest name that an engine keeps, bytes. A host name has at most 255.
pub const NAME_SIZE_MAX: usize = 1 << 10;

/// Returns the beginning of a name, as much as an engine keeps of it, cut between characters.
#[must_use]
pub fn short_name(name: &str) -> &str {
    let size = (0..=name.len().min(NAME_SIZE_MAX)).rev().find(|&end| name.is_char_boundary(end));
    &name[..size.unwrap_or(0)]
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
    }
}
