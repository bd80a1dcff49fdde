//! The received part of a worker's request that comes in several records.
//!
//! Of a request that is larger than any may be, only the beginning is kept.

use gristmill_wire::{ContextId, Defined, FrameError, NestedRequest};

/// Bytes that are kept of a request that is too large: they say what it defines.
const BEGINNING: usize = 16;
/// Bytes that a request may have besides a definition.
const ENVELOPE: usize = 1 << 20;

/// A request whose end has not come.
#[derive(Debug, Default)]
pub(super) struct PartialRequest {
    bytes: Vec<u8>,
    /// Bytes that came, with those that were not kept.
    received: usize,
}

/// A request that has come completely.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WholeRequest {
    /// A request that was kept.
    Kept(Vec<u8>),
    /// A definition of a function that was too large to be kept: the function, and the size of the request in bytes.
    OversizedFunction(u32, usize),
    /// A definition of a context that was too large to be kept: the context, and the size of the request in bytes.
    OversizedContext(ContextId, usize),
}

impl PartialRequest {
    /// Returns true if no part has come.
    pub const fn is_empty(&self) -> bool {
        self.received == 0
    }

    /// Takes the next part of a request, if definitions may take `limit` bytes.
    pub fn take(&mut self, part: &[u8], limit: usize) {
        let kept = self.bytes.len() == self.received;
        self.received = self.received.saturating_add(part.len());
        if kept && self.received <= limit.saturating_add(ENVELOPE) {
            self.bytes.extend_from_slice(part);
        } else if kept {
            self.bytes.extend_from_slice(&part[..part.len().min(BEGINNING)]);
            self.bytes = self.bytes[..self.bytes.len().min(BEGINNING)].to_vec();
        }
    }

    /// Ends the request.
    ///
    /// # Errors
    /// The request is too large, and not a definition.
    pub fn finish(&mut self) -> Result<WholeRequest, FrameError> {
        let Self { bytes, received } = std::mem::take(self);
        if bytes.len() == received {
            return Ok(WholeRequest::Kept(bytes));
        }
        Ok(match NestedRequest::definition_of(&bytes)? {
            Defined::Function(function) => WholeRequest::OversizedFunction(function, received),
            Defined::Context(context) => WholeRequest::OversizedContext(context, received),
        })
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::TaskId;

    use super::*;

    /// Takes a request in parts, if definitions may take `limit` bytes; returns what it becomes, and the most bytes kept.
    fn take(request: &[u8], limit: usize) -> (Result<WholeRequest, FrameError>, usize) {
        let (mut partial, mut most) = (PartialRequest::default(), 0);
        for part in request.chunks(1000) {
            partial.take(part, limit);
            most = most.max(partial.bytes.len());
        }
        (partial.finish(), most)
    }

    #[test]
    fn of_a_definition_that_is_too_large_only_the_beginning_is_kept() {
        let definition = vec![7; ENVELOPE + 5000];
        let mut bytes = Vec::new();
        NestedRequest::Define { function: 3, name: "f", definition: &definition }
            .encode(&mut bytes);
        assert_eq!(take(&bytes, 6000).0, Ok(WholeRequest::Kept(bytes.clone())));
        let (whole, most) = take(&bytes, 2000);
        assert_eq!(whole, Ok(WholeRequest::OversizedFunction(3, bytes.len())));
        assert!(most <= ENVELOPE + 2000);
    }

    #[test]
    fn a_request_without_end_that_is_no_definition_is_an_error() {
        let payload = vec![7; ENVELOPE + 5000];
        let mut bytes = Vec::new();
        let (options, parent) = (None, TaskId::new(0, 0));
        let (ticket, function, arguments, is_arena) = (7, 1, Vec::new(), false);
        let payload = &payload;
        NestedRequest::Submit { ticket, parent, function, options, arguments, payload, is_arena }
            .encode(&mut bytes);
        assert!(take(&bytes, 0).0.is_err());
        assert_eq!(take(&bytes, 6000).0, Ok(WholeRequest::Kept(bytes)));
    }
}
