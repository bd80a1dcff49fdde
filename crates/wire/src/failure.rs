//! The content of an answer about a task that failed: the kind of the failure, and its bytes.

use crate::FrameError;

/// The kind of a failure: says what its bytes are. The numbers stand in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FailureKind {
    /// The function raised: the bytes are the encoded exception.
    Exception = 1,
    /// An argument or the result did not fit into memory: the bytes are text.
    NoMemory = 2,
    /// An argument could not be brought to the worker: the bytes are text.
    Argument = 3,
    /// The task was stopped while the worker loaded something: the bytes are text such as "importing module numpy".
    Loading = 4,
    /// The exception could not be encoded: the bytes are text that begins with the name of its type and a colon.
    Undescribed = 5,
}

impl FailureKind {
    /// Reads a kind.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`].
    pub const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Exception,
            2 => Self::NoMemory,
            3 => Self::Argument,
            4 => Self::Loading,
            5 => Self::Undescribed,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// A failure: one byte for its kind, then its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFailure<'a> {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The bytes that the kind describes.
    pub bytes: &'a [u8],
}

impl<'a> TaskFailure<'a> {
    /// Makes a failure whose bytes are text.
    #[must_use]
    pub const fn of_text(kind: FailureKind, text: &'a str) -> Self {
        Self { kind, bytes: text.as_bytes() }
    }

    /// Returns the encoded failure.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.bytes.len());
        out.push(self.kind as u8);
        out.extend_from_slice(self.bytes);
        out
    }

    /// Reads a failure.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] for no bytes at all, [`FrameError::UnknownKind`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (&kind, bytes) =
            bytes.split_first().ok_or(FrameError::Truncated { needed: 1, found: 0 })?;
        Ok(Self { kind: FailureKind::from_byte(kind)?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_its_kind_and_its_bytes() {
        let failure = TaskFailure::of_text(FailureKind::NoMemory, "full");
        assert_eq!(failure.encode(), b"\x02full");
        assert_eq!(TaskFailure::decode(b"\x02full"), Ok(failure));
    }

    #[test]
    fn each_kind_comes_back_and_every_other_byte_is_refused() {
        for byte in 0..=u8::MAX {
            match TaskFailure::decode(&[byte, 7]) {
                Ok(failure) => assert_eq!(failure.encode(), [byte, 7]),
                Err(error) => {
                    assert!(byte == 0 || byte > 5);
                    assert_eq!(error, FrameError::UnknownKind(byte));
                }
            }
        }
        assert_eq!(TaskFailure::decode(&[]), Err(FrameError::Truncated { needed: 1, found: 0 }));
    }
}
