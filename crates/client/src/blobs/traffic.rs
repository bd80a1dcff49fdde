//! Bytes of blobs that had to do with one node.

/// Bytes of blobs that had to do with one node, or with all. Some are what nodes say: any number, which never wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobTraffic {
    /// In tasks that were sent there by name: so much would have been sent there otherwise.
    pub named: u64,
    /// Given there over the link.
    pub given: u64,
    /// That it got from other nodes.
    pub fetched: u64,
    /// That other nodes got from it.
    pub passed_on: u64,
}

impl BlobTraffic {
    /// What did not have to be sent over the link.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.named.saturating_sub(self.given)
    }

    /// Both together.
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
