//! Choices of a siege, read from the bytes that a test draws.

/// Choices of a siege: numbers read from the front of some bytes. Missing bytes read as zero.
#[derive(Debug)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Creates choices from these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether no choices are left.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(super) fn below(&mut self, count: u8) -> u8 {
        self.byte() % count
    }

    pub(super) fn is_chosen(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Returns an extreme number, or a small one.
    pub(super) fn number(&mut self) -> u64 {
        match self.byte() {
            0xff => u64::MAX,
            0xfe => u64::MAX / 2,
            0xfd => u64::from(u32::MAX),
            0xfc => 1 << 40,
            0xfb => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            small => small.into(),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    pub(super) fn half(&mut self) -> u32 {
        self.number() as u32
    }

    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(usize::from(self.byte() % 32).min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}
