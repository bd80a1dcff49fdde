//! The bytes of a journal: its header and the frames of its entries. The frame of an entry is all of it but its value.

use crate::checksum::Checksum;
use crate::error::JournalError;

/// Longest key, bytes.
pub const KEY_SIZE_MAX: usize = u8::MAX as usize - FIXED_SIZE;

/// Bytes of the value's size and the checksum in a frame.
const FIXED_SIZE: usize = 12;
/// Bytes of an entry before its key.
pub const PREFIX_SIZE: usize = 2 + FIXED_SIZE;

/// Pickle's opcodes: `C` pushes up to 255 bytes, `0` drops the last pushed object.
const PUSH: u8 = b'C';
const DROP: u8 = b'0';

const VERSION: u8 = 1;
pub const HEAD_SIZE: usize = 16;
const VERSION_AT: usize = HEAD_SIZE - 2;

/// First bytes of every journal: pickle protocol 4, and eleven bytes that are pushed and dropped.
pub const HEAD: [u8; HEAD_SIZE] = *b"\x80\x04C\x0bgristmill\0\x010";
const _: () = assert!(HEAD[VERSION_AT] == VERSION && HEAD[HEAD_SIZE - 1] == DROP);

/// The type of a file, as its first bytes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum JournalHeader {
    /// A journal of the version that this program writes.
    Known,
    /// A file shorter than a header that begins like one: the first write was torn, or did not happen.
    Torn,
    /// A journal of another version, which is given.
    Other(u8),
    /// A file that is not a journal.
    Foreign,
}

impl JournalHeader {
    /// Returns the type of a file from its first bytes, at most [`HEAD_SIZE`].
    pub fn of(bytes: &[u8]) -> JournalHeader {
        if HEAD.starts_with(bytes) {
            return if bytes.len() == HEAD_SIZE {
                JournalHeader::Known
            } else {
                JournalHeader::Torn
            };
        }
        match bytes.get(VERSION_AT) {
            Some(&version) if bytes[..VERSION_AT] == HEAD[..VERSION_AT] => {
                JournalHeader::Other(version)
            }
            _ => JournalHeader::Foreign,
        }
    }
}

/// The first bytes of an entry. They are decoded, but the checksum is not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub key_size: usize,
    pub value_size: u64,
    checksum: u32,
}

impl Prefix {
    /// Decodes the first bytes of an entry. Returns `None` if no entry begins here.
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

    /// Returns true if the checksum matches. `key_and_drop` is the key with the byte that follows it.
    pub fn fits(&self, key_and_drop: &[u8], value: &[u8]) -> bool {
        let Some((&DROP, key)) = key_and_drop.split_last() else { return false };
        key.len() == self.key_size && self.checksum == checksum(key, value)
    }
}

/// Computes the checksum of an entry. It covers the sizes too, so that no byte can move from the key to the value.
fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let sizes = [key.len() as u64, value.len() as u64].map(u64::to_le_bytes);
    Checksum::new().with(sizes.as_flattened()).with(key).with(value).value()
}

/// Appends an entry without its value to a buffer.
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
            assert_eq!(JournalHeader::of(&HEAD[..size]), JournalHeader::Torn);
        }
        assert_eq!(JournalHeader::of(&HEAD), JournalHeader::Known);
        let mut newer = HEAD;
        newer[VERSION_AT] = 2;
        assert_eq!(JournalHeader::of(&newer), JournalHeader::Other(2));
        assert_eq!(JournalHeader::of(b"\x80\x05"), JournalHeader::Foreign);
    }

    #[test]
    fn a_key_that_does_not_fit_its_frame_is_refused() {
        let (longest, mut buffer) = ([0; KEY_SIZE_MAX], Vec::new());
        assert!(encode_frame(&longest, b"", &mut buffer).is_ok());
        let error = encode_frame(&[0; KEY_SIZE_MAX + 1], b"", &mut buffer);
        assert!(matches!(error, Err(JournalError::KeyTooLong { size: 244, limit: 243 })));
    }
}
