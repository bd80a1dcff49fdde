//! The bytes of a journal: its head and the frames of its entries.

use crate::checksum::Checksum;
use crate::error::JournalError;

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = u8::MAX as usize - FIXED_SIZE;

/// The size of a value and the checksum.
const FIXED_SIZE: usize = 12;
/// What is in front of the key.
pub const PREFIX_SIZE: usize = 2 + FIXED_SIZE;

/// Pickle's opcodes for bytes of up to 255 and for dropping what was pushed last.
const PUSH: u8 = b'C';
const DROP: u8 = b'0';

const VERSION: u8 = 1;
pub const HEAD_SIZE: usize = 16;
const VERSION_AT: usize = HEAD_SIZE - 2;

/// What every journal begins with: protocol 4, and eleven bytes that are pushed and dropped.
pub const HEAD: [u8; HEAD_SIZE] = *b"\x80\x04C\x0bgristmill\0\x010";
const _: () = assert!(HEAD[VERSION_AT] == VERSION && HEAD[HEAD_SIZE - 1] == DROP);

/// What the first bytes of a file say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Head {
    /// A journal of this version.
    Known,
    /// Too short, but so far the head of a journal: its first write was torn, or never happened.
    Torn,
    /// A journal of another version.
    Other(u8),
    /// Something else.
    Foreign,
}

impl Head {
    /// Looks at the first bytes of a file, at most [`HEAD_SIZE`].
    pub fn of(bytes: &[u8]) -> Head {
        if HEAD.starts_with(bytes) {
            return if bytes.len() == HEAD_SIZE { Head::Known } else { Head::Torn };
        }
        match bytes.get(VERSION_AT) {
            Some(&version) if bytes[..VERSION_AT] == HEAD[..VERSION_AT] => Head::Other(version),
            _ => Head::Foreign,
        }
    }
}

/// The sizes of an entry, as its first bytes tell them; nothing has been checked but that they can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub key_size: usize,
    pub value_size: u64,
    checksum: u32,
}

impl Prefix {
    /// `None` where no entry begins.
    pub fn decode(bytes: &[u8; PREFIX_SIZE]) -> Option<Prefix> {
        let [push, size, value_size @ .., a, b, c, d] = *bytes;
        if push != PUSH {
            return None;
        }
        Some(Prefix {
            key_size: usize::from(size).checked_sub(FIXED_SIZE)?,
            value_size: u64::from_le_bytes(value_size),
            checksum: u32::from_le_bytes([a, b, c, d]),
        })
    }

    /// Whether these are the bytes that were written; `key` has the byte behind the key at its end.
    pub fn fits(&self, key_and_drop: &[u8], value: &[u8]) -> bool {
        let Some((&DROP, key)) = key_and_drop.split_last() else { return false };
        key.len() == self.key_size && self.checksum == checksum(key, value)
    }
}

/// Covers the sizes too, so that no byte can move from key to value.
fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let sizes = [key.len() as u64, value.len() as u64].map(u64::to_le_bytes);
    Checksum::new().with(sizes.as_flattened()).with(key).with(value).value()
}

/// Appends an entry to a buffer, all but its value.
///
/// # Errors
/// The key is longer than [`KEY_SIZE_MAX`].
pub fn encode_frame(key: &[u8], value: &[u8], buffer: &mut Vec<u8>) -> Result<(), JournalError> {
    let too_long = || JournalError::KeyTooLong { size: key.len(), limit: KEY_SIZE_MAX };
    let size = u8::try_from(FIXED_SIZE + key.len()).map_err(|_| too_long())?;
    buffer.extend([PUSH, size]);
    buffer.extend((value.len() as u64).to_le_bytes());
    buffer.extend(checksum(key, value).to_le_bytes());
    buffer.extend(key);
    buffer.push(DROP);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_stays_to_the_byte() {
        let mut bytes = HEAD.to_vec();
        encode_frame(b"key", b"N.", &mut bytes).expect("a short key");
        let golden = b"\x80\x04C\x0bgristmill\0\x010C\x0f\x02\0\0\0\0\0\0\0\x5c\xed3\x8fkey0";
        assert_eq!(bytes, golden);
    }

    #[test]
    fn a_file_is_known_by_its_first_bytes() {
        for size in 0..HEAD_SIZE {
            assert_eq!(Head::of(&HEAD[..size]), Head::Torn);
        }
        assert_eq!(Head::of(&HEAD), Head::Known);
        let mut newer = HEAD;
        newer[VERSION_AT] = 2;
        assert_eq!(Head::of(&newer), Head::Other(2));
        assert_eq!(Head::of(b"\x80\x05"), Head::Foreign);
    }

    #[test]
    fn a_key_that_does_not_fit_its_frame_is_refused() {
        let (longest, mut buffer) = ([0; KEY_SIZE_MAX], Vec::new());
        assert!(encode_frame(&longest, b"", &mut buffer).is_ok());
        let error = encode_frame(&[0; KEY_SIZE_MAX + 1], b"", &mut buffer);
        assert!(matches!(error, Err(JournalError::KeyTooLong { size: 244, limit: 243 })));
    }
}
