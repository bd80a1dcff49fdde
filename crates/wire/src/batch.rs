//! Batches: several calls of one function in one task record, and their results.

use crate::{FrameError, PayloadKind, Verdict, padded_size};

/// The largest number of calls in one batch: a worker counts them in 16 bits.
pub const BATCH_MAX: u32 = 1 << 15;

/// The payload of a batch. Each call is its size and its encoded arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchCalls<'a>(&'a [u8]);

impl<'a> BatchCalls<'a> {
    /// Creates a reader over calls that follow one another.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes in front of each call, which hold its size.
    pub const HEAD: usize = 4;

    /// Returns the bytes that precede a call of `size` bytes.
    ///
    /// # Errors
    /// [`FrameError::BadSize`] if `size` is 4 GiB or more.
    #[inline]
    pub fn head(size: usize) -> Result<[u8; BatchCalls::HEAD], FrameError> {
        let size = u32::try_from(size);
        let size = size.map_err(|_| FrameError::BadSize { size: u32::MAX, limit: u32::MAX })?;
        Ok(size.to_le_bytes())
    }

    /// Appends a call.
    ///
    /// # Errors
    /// Those of [`Self::head`].
    #[inline]
    pub fn append(call: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
        out.extend_from_slice(&Self::head(call.len())?);
        out.extend_from_slice(call);
        Ok(())
    }

    /// Returns the number of bytes of the calls not taken yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Takes the next call; returns `None` at the end.
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

/// The fixed part of the result of one call. `payload_size` bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultFrame {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// The location of the payload's bytes.
    pub payload: PayloadKind,
    /// Payload bytes that follow the frame.
    pub payload_size: u16,
}

impl ResultFrame {
    /// Bytes of the frame: small enough that the frame and a small integer fit into one word.
    pub const SIZE: usize = 3;

    /// Returns the frame in wire format: the size in 16 bits, the verdict and the payload kind in 4 bits each.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> [u8; Self::SIZE] {
        let [low, high] = self.payload_size.to_le_bytes();
        [low, high, self.verdict as u8 | ((self.payload as u8) << 4)]
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`FrameError::UnknownVerdict`], also for a verdict that a call of a batch cannot have; [`FrameError::UnknownPayload`].
    #[inline]
    pub const fn from_bytes([low, high, kinds]: [u8; Self::SIZE]) -> Result<Self, FrameError> {
        let verdict = match Verdict::from_byte(kinds & 15) {
            Ok(known) if known.has_started() => known,
            Ok(_) => return Err(FrameError::UnknownVerdict(kinds & 15)),
            Err(error) => return Err(error),
        };
        let payload = match PayloadKind::from_byte(kinds >> 4) {
            Ok(payload) => payload,
            Err(error) => return Err(error),
        };
        Ok(Self { verdict, payload, payload_size: u16::from_le_bytes([low, high]) })
    }
}

/// The results of several calls, in order. Each is a [`ResultFrame`] and its payload, padded to 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchResults<'a>(&'a [u8]);

impl<'a> BatchResults<'a> {
    /// Creates a reader over results that follow one another.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes of the results not taken yet.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Takes the next result; returns `None` at the end.
    ///
    /// # Errors
    /// [`FrameError::Truncated`], and those of [`ResultFrame::from_bytes`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<(ResultFrame, &'a [u8])>, FrameError> {
        let Some(head) = self.0.first_chunk() else {
            let truncated =
                FrameError::Truncated { needed: ResultFrame::SIZE, found: self.0.len() };
            return if self.0.is_empty() { Ok(None) } else { Err(truncated) };
        };
        let frame = ResultFrame::from_bytes(*head)?;
        let needed = ResultFrame::SIZE + frame.payload_size as usize;
        let truncated = FrameError::Truncated { needed, found: self.0.len() };
        let (result, rest) = self.0.split_at_checked(padded_size(needed)).ok_or(truncated)?;
        self.0 = rest;
        Ok(Some((frame, &result[ResultFrame::SIZE..needed])))
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
            payload_size: 0x0201,
        };
        assert_eq!(frame.bytes(), [1, 2, 0x12]);
        assert_eq!(ResultFrame::from_bytes(frame.bytes()), Ok(frame));
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
        fn any_head_decodes_to_itself_or_is_refused(bytes: [u8; 3]) {
            if let Ok(frame) = ResultFrame::from_bytes(bytes) {
                prop_assert_eq!(frame.bytes(), bytes);
            }
        }

        #[test]
        fn results_come_back(payloads: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            for payload in &payloads {
                let payload_size = u16::try_from(payload.len()).expect("small");
                let (verdict, kind) = (Verdict::Returned, PayloadKind::Inline);
                bytes.extend(ResultFrame { verdict, payload: kind, payload_size }.bytes());
                bytes.extend(payload);
                bytes.resize(padded_size(bytes.len()), 0);
            }
            let mut read = BatchResults::new(&bytes);
            for payload in &payloads {
                let (frame, found) = read.take().expect("sound").expect("one more");
                prop_assert_eq!((frame.verdict, found), (Verdict::Returned, payload.as_slice()));
            }
            prop_assert_eq!(read.take(), Ok(None));
        }

        #[test]
        fn any_results_end_or_are_refused(bytes: Vec<u8>) {
            let mut read = BatchResults::new(&bytes);
            while let Ok(Some((frame, payload))) = read.take() {
                prop_assert_eq!(payload.len(), frame.payload_size as usize);
            }
        }
    }
}
