//! The format of a payload between nodes: encoded bytes, and the large parts that they name by index.

use super::{Reader, put_words};
use crate::{Attempt, BlobName, FrameError, TaskId, padded_size};

/// A large part of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// The name of a blob. The receiver has the blob, or asks for it.
    Blob(BlobName),
}

impl<'a> Part<'a> {
    /// Returns the bytes, unless the part is a name.
    #[must_use]
    pub const fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let word = reader.clone().word()?;
        if word & NAMED == 0 {
            return reader.sized_bytes().map(Self::Bytes);
        }
        let size = reader.word()? & !NAMED;
        Ok(Self::Blob(BlobName::checked(reader.digest()?, size)?))
    }
}

/// The bit in the word with a part's size that says that a digest follows instead of bytes.
const NAMED: u64 = 1 << 63;

/// Encoded bytes and their parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parted<'a> {
    /// The encoded bytes.
    pub bytes: &'a [u8],
    /// The parts that the bytes name, in order; most payloads have none.
    pub parts: Vec<Part<'a>>,
}

impl<'a> Parted<'a> {
    /// Appends bytes without parts.
    #[inline]
    pub fn put_plain(out: &mut Vec<u8>, bytes: &[u8]) {
        Self::put_head(out, bytes, 0);
    }

    /// Appends bytes and the number of parts, which the caller then appends with [`Self::put_part`] or [`Self::put_name`].
    ///
    /// # Panics
    /// If there are 4 GiB of bytes or more, or 2^32 parts or more.
    #[inline]
    pub fn put_head(out: &mut Vec<u8>, bytes: &[u8], part_count: usize) {
        let size = u32::try_from(bytes.len()).expect("a large value is sent in parts");
        let count = u32::try_from(part_count).expect("fewer parts than bytes");
        put_words(out, [u64::from(size) | (u64::from(count) << 32)]);
        out.extend_from_slice(bytes);
        out.resize(padded_size(out.len()), 0);
    }

    /// Appends one part of `size` bytes, which `fill` writes.
    pub fn put_part(out: &mut Vec<u8>, size: usize, fill: impl FnOnce(&mut [u8])) {
        put_words(out, [size as u64]);
        let start = out.len();
        out.resize(start + padded_size(size), 0);
        fill(&mut out[start..start + size]);
    }

    /// Appends the name of one part.
    pub fn put_name(out: &mut Vec<u8>, name: &BlobName) {
        put_words(out, [name.size | NAMED]);
        out.extend_from_slice(&name.digest.0);
    }

    /// Returns the number of bytes that `size` bytes and their parts take in a message at most. `parts` has the size of each part, and
    /// `None` for one that is only a name.
    pub fn written_size(size: usize, parts: impl Iterator<Item = Option<usize>>) -> usize {
        // A word in front, and the padding.
        let whole = |size: usize| size.saturating_add(15);
        let part = |size: Option<usize>| size.map_or(8 + 32, whole);
        parts.map(part).fold(whole(size), usize::saturating_add)
    }

    /// Returns true if a part is only a name.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Blob(_)))
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let word = reader.word()?;
        #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
        let (size, count) = (word as u32, (word >> 32) as u32);
        let bytes = reader.bytes(size as usize)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(Part::read(reader)?);
        }
        Ok(Self { bytes, parts })
    }
}

/// A result that a task's arguments name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentResult<'a> {
    /// The value.
    Value(Parted<'a>),
    /// The result of another task, which the same sender has sent to the same receiver.
    Of(TaskId, Attempt),
}

/// The marker in the place of the number of parts that says that a task follows instead of a value.
const REFERENCE: u32 = u32::MAX;

impl<'a> ParentResult<'a> {
    /// Appends a task instead of its result.
    pub fn put_task(out: &mut Vec<u8>, task: TaskId, attempt: Attempt) {
        put_words(out, [u64::from(attempt.0) | (u64::from(REFERENCE) << 32), task.word()]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let mut ahead = reader.clone();
        let word = ahead.word()?;
        #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
        let (attempt, count) = (Attempt(word as u8), (word >> 32) as u32);
        if count != REFERENCE {
            return Parted::read(reader).map(Self::Value);
        }
        let task = TaskId::from_word(ahead.word()?);
        *reader = ahead;
        Ok(Self::Of(task, attempt))
    }
}

/// An iterator over consecutive parent results.
#[derive(Debug, Clone)]
pub struct ParentResults<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) left: u32,
}

impl<'a> Iterator for ParentResults<'a> {
    type Item = Result<ParentResult<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(ParentResult::read(&mut self.reader))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use proptest::prelude::*;

    #[test]
    fn golden_name() {
        let digest = Digest::of([7; 32], 1 << 20);
        let name = BlobName { digest, size: 1 << 20 };
        let mut out = Vec::new();
        Parted::put_head(&mut out, b"", 1);
        Parted::put_name(&mut out, &name);
        let head = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 128];
        assert_eq!((&out[..16], &out[16..]), (head.as_slice(), digest.0.as_slice()));
        let parts = vec![Part::Blob(name)];
        assert_eq!(Parted::read(&mut Reader::new(&out)), Ok(Parted { bytes: b"", parts }));
        assert!(Parted::read(&mut Reader::new(&out[..47])).is_err());
        out[8] = 1;
        let misnamed = Err(FrameError::Misnamed { size: 1 + (1 << 20), named: 1 << 20 });
        assert_eq!(Parted::read(&mut Reader::new(&out)), misnamed);
    }

    #[test]
    fn a_payload_takes_no_more_than_its_written_size() {
        for size in 0..20 {
            let mut out = Vec::new();
            Parted::put_head(&mut out, &vec![7; size], 2);
            Parted::put_part(&mut out, size, |space| space.fill(7));
            Parted::put_name(&mut out, &BlobName { digest: Digest([7; 32]), size: 1 << 40 });
            let most = Parted::written_size(size, [Some(size), None].into_iter());
            assert!((out.len()..out.len() + 16).contains(&most), "{most} for {}", out.len());
        }
        let huge = Parted::written_size(usize::MAX, std::iter::once(Some(usize::MAX)));
        assert_eq!(huge, usize::MAX);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(bytes: Vec<u8>, parts: Vec<Vec<u8>>) {
            let mut out = Vec::new();
            Parted::put_head(&mut out, &bytes, parts.len());
            for part in &parts {
                Parted::put_part(&mut out, part.len(), |space| space.copy_from_slice(part));
            }
            let mut reader = Reader::new(&out);
            let parts = parts.iter().map(|part| Part::Bytes(part)).collect();
            prop_assert_eq!(Parted::read(&mut reader), Ok(Parted { bytes: &bytes, parts }));
            prop_assert!(reader.rest().is_empty());
        }
    }
}
