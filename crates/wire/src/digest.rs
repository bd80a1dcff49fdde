//! What a blob is called: a hash of its bytes, so that everybody gives the same bytes the same name.

use std::fmt;

/// The hash of a blob's bytes. Which hash is for the layer above; here it is 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    /// The first eight bytes: enough for people to tell blobs apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A blob that is named instead of sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobName {
    /// What its bytes hash to.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
}
