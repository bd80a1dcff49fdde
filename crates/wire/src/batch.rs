//! Batches: several calls of one function in one task record, and the results that come back one by one.

use crate::{FrameError, PayloadKind, Span, Verdict};

/// Words of a [`ResultFrame`].
pub const RESULT_WORDS: usize = 1;
/// Calls in one batch, at most: a worker counts them in 16 bits.
pub const BATCH_MAX: u32 = 1 << 15;

/// The payload of a batch: each call is its size and its encoded arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchCalls<'a>(&'a [u8]);

impl<'a> BatchCalls<'a> {
    /// Reads calls, one behind the other.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes in front of each call: its size.
    pub const HEAD: usize = 4;

    /// What goes in front of a call of `size` bytes.
    ///
    /// # Errors
    /// [`FrameError::BadSize`] from 4 GiB on.
    #[inline]
    pub fn head(size: usize) -> Result<[u8; BatchCalls::HEAD], FrameError> {
        let size = u32::try_from(size);
        let size = size.map_err(|_| FrameError::BadSize { size: u32::MAX, limit: u32::MAX })?;
        Ok(size.to_le_bytes())
    }

    /// Appends a call.
    ///
    /// # Errors
    /// As [`Self::head`].
    #[inline]
    pub fn append(call: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
        out.extend_from_slice(&Self::head(call.len())?);
        out.extend_from_slice(call);
        Ok(())
    }

    /// Bytes of the calls that were not taken yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.0.len()
    }

    /// The next call; `None` at the end.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<&'a [u8]>, FrameError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let truncated = |needed| FrameError::Truncated { needed, found: self.0.len() };
        let (head, rest) = self.0.split_first_chunk().ok_or(truncated(Self::HEAD))?;
        let size = u32::from_le_bytes(*head) as usize;
        let (call, rest) = rest.split_at_checked(size).ok_or(truncated(Self::HEAD + size))?;
        self.0 = rest;
        Ok(Some(call))
    }
}

/// The fixed part of a result record: what came of the next call of the batch that runs. `payload_size` bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultFrame {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// Where the payload's bytes are.
    pub payload: PayloadKind,
    /// Bytes that follow: fewer than 2^24.
    pub payload_size: u32,
    /// From the start of the call to its end.
    pub ran: Span,
}

impl ResultFrame {
    const SIZE_BITS: u32 = 24;

    /// The frame as it travels: size in 24 bits, verdict and payload kind in 4 each, span in 32.
    #[must_use]
    pub const fn words(&self) -> [u64; RESULT_WORDS] {
        debug_assert!(self.payload_size < 1 << Self::SIZE_BITS, "a ring's record is smaller");
        [self.payload_size as u64
            | ((self.verdict as u64) << Self::SIZE_BITS)
            | ((self.payload as u64) << (Self::SIZE_BITS + 4))
            | ((self.ran.bits() as u64) << 32)]
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`FrameError::UnknownVerdict`] (also for one that no call has), [`FrameError::UnknownPayload`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words([word]: [u64; RESULT_WORDS]) -> Result<Self, FrameError> {
        let verdict = ((word >> Self::SIZE_BITS) & 15) as u8;
        let verdict = match Verdict::from_byte(verdict) {
            Ok(known) if known.has_started() => known,
            Ok(_) => return Err(FrameError::UnknownVerdict(verdict)),
            Err(error) => return Err(error),
        };
        let payload = match PayloadKind::from_byte(((word >> (Self::SIZE_BITS + 4)) & 15) as u8) {
            Ok(payload) => payload,
            Err(error) => return Err(error),
        };
        let payload_size = word as u32 & ((1 << Self::SIZE_BITS) - 1);
        Ok(Self { verdict, payload, payload_size, ran: Span::from_bits((word >> 32) as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_result() {
        let frame = ResultFrame {
            verdict: Verdict::Raised,
            payload: PayloadKind::Arena,
            payload_size: 0x0003_0201,
            ran: Span::from_ticks(7),
        };
        let bytes = frame.words()[0].to_le_bytes();
        assert_eq!(bytes, [1, 2, 3, 0x12, 7, 0, 0, 0]);
        assert_eq!(ResultFrame::from_words(frame.words()), Ok(frame));
    }

    #[test]
    fn golden_calls() {
        let mut bytes = Vec::new();
        BatchCalls::append(&[7, 8, 9], &mut bytes).expect("a small call");
        BatchCalls::append(&[], &mut bytes).expect("a small call");
        assert_eq!(bytes, [3, 0, 0, 0, 7, 8, 9, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn calls_come_back(calls: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            for call in &calls {
                BatchCalls::append(call, &mut bytes).expect("a small call");
            }
            let mut read = BatchCalls::new(&bytes);
            for call in &calls {
                prop_assert_eq!(read.take(), Ok(Some(call.as_slice())));
            }
            prop_assert_eq!(read.take(), Ok(None));
        }

        #[test]
        fn any_bytes_end_or_are_refused(bytes: Vec<u8>) {
            let mut read = BatchCalls::new(&bytes);
            while let Ok(Some(call)) = read.take() {
                prop_assert!(call.len() < bytes.len());
            }
        }

        #[test]
        fn any_word_decodes_to_itself_or_is_refused(word: u64) {
            if let Ok(frame) = ResultFrame::from_words([word]) {
                prop_assert_eq!(frame.words(), [word]);
            }
        }
    }
}
