//! A reader that takes words and bytes from the front of a message's body and never reads beyond its end.

use crate::{Digest, FrameError, NAME_SIZE_MAX, cut_text, padded_size};

#[derive(Debug, Clone)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    const fn short(&self, needed: usize) -> FrameError {
        FrameError::Truncated { needed, found: self.0.len() }
    }

    #[inline]
    pub fn word(&mut self) -> Result<u64, FrameError> {
        let (word, rest) = self.0.split_first_chunk::<8>().ok_or(self.short(8))?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    #[inline]
    pub fn words<const N: usize>(&mut self) -> Result<[u64; N], FrameError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    /// Reads `size` bytes, and skips their padding to a word unless the body ends first.
    #[inline]
    pub fn bytes(&mut self, size: usize) -> Result<&'a [u8], FrameError> {
        let bytes = self.0.get(..size).ok_or(self.short(size))?;
        self.0 = self.0.get(padded_size(size)..).unwrap_or(&[]);
        Ok(bytes)
    }

    /// Reads a size and that many bytes.
    pub fn sized_bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let size = self.word()?;
        self.bytes(usize::try_from(size).map_err(|_| self.short(usize::MAX))?)
    }

    /// Reads the digest of a blob.
    pub fn digest(&mut self) -> Result<Digest, FrameError> {
        let (digest, rest) = self.0.split_first_chunk::<32>().ok_or(self.short(32))?;
        self.0 = rest;
        Ok(Digest(*digest))
    }

    /// Reads a size and that much text. See [`text_of`].
    pub fn text(&mut self) -> Result<String, FrameError> {
        Ok(text_of(self.sized_bytes()?, TEXT_SIZE_MAX))
    }

    /// Reads a size and that much text: a name, or a version. See [`text_of`].
    pub fn name(&mut self) -> Result<String, FrameError> {
        Ok(text_of(self.sized_bytes()?, NAME_SIZE_MAX))
    }
}

/// The largest text of a message that its receiver keeps, bytes. The longest that an engine writes is the error of a worker
/// that does not start, which comes from a ring that holds no more.
pub const TEXT_SIZE_MAX: usize = 64 << 10;

/// Returns bytes as text, cut to `size_max` bytes; invalid UTF-8 becomes replacement characters. The receiver keeps texts for
/// long, and a peer must not fill its memory with them.
pub fn text_of(bytes: &[u8], size_max: usize) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(size_max)]).into_owned();
    // A replacement character takes three bytes, and stands for one.
    text.truncate(cut_text(&text, size_max).len());
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_within_its_limit_whatever_its_bytes_are() {
        assert_eq!(text_of(&[0xff; 100], 100).len(), 99, "33 characters of three bytes");
        assert_eq!(text_of("\u{e4}".repeat(10).as_bytes(), 5), "\u{e4}\u{e4}");
        assert_eq!(text_of(b"short", 100), "short");
    }
}
