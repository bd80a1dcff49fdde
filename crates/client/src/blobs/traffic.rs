//! Blob traffic of one node, in bytes.

/// Blob traffic of one node, or of all nodes, in bytes. Some of the counts are reported by nodes and can be any number, so
/// sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobTraffic {
    /// Bytes of the blobs that tasks named when they were sent there. Without names, these bytes would have been sent.
    pub named: u64,
    /// Bytes sent there over the link.
    pub given: u64,
    /// Bytes that the node got from other nodes.
    pub fetched: u64,
    /// Bytes that other nodes got from the node.
    pub passed_on: u64,
}

impl BlobTraffic {
    /// Returns the bytes that did not have to be sent over the link.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.named.saturating_sub(self.given)
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            named: self.named.saturating_add(other.named),
            given: self.given.saturating_add(other.given),
            fetched: self.fetched.saturating_add(other.fetched),
            passed_on: self.passed_on.saturating_add(other.passed_on),
        }
    }
}
