//! Fields of a message body: little-endian integers, and byte strings after a 32-bit length.

use crate::message::MessageError;

/// A body to which fields are appended.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a byte string. A length beyond 32 bits is cut, but [`crate::message::BODY_LIMIT`] is checked before a
    /// message is sent.
    pub(super) fn bytes(&mut self, value: &[u8]) {
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.u32(length);
        self.0.extend_from_slice(value);
    }
}

/// A body from which fields are read one by one. Each read checks that the bytes are there.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let found = self.0.len();
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(MessageError::Truncated { needed: count, found })?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u16(&mut self) -> Result<u16, MessageError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, MessageError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, MessageError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], MessageError> {
        let length = self.u32()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Reads the count of the items that follow. Each item takes at least 4 bytes, so a false count cannot cause a
    /// large allocation.
    pub(super) fn count(&mut self) -> Result<usize, MessageError> {
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let found = self.0.len();
        if count > found / 4 {
            return Err(MessageError::Truncated { needed: count.saturating_mul(4), found });
        }
        Ok(count)
    }

    pub(super) fn end(&self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::Trailing(self.0.len())) }
    }
}
