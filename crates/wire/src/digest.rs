//! Names of blobs: hashes of their bytes, so equal bytes have the same name everywhere.

use std::fmt;

use crate::FrameError;

/// The name of a blob: the first 26 bytes of the blob's hash, then the blob's size in 6 bytes. Because the name fixes the size,
/// a sender cannot make a receiver wait for more bytes than the blob has, or accept fewer. The layer above chooses the hash
/// function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Bytes of the hash in a digest. The remaining 6 bytes are enough for the size of any blob that can occur.
const HASH_SIZE: usize = 26;

impl Digest {
    /// Makes the digest of `size` bytes that have this `hash`.
    #[must_use]
    pub fn of(hash: [u8; 32], size: u64) -> Self {
        let mut digest = hash;
        let (_, number) = digest.split_at_mut(HASH_SIZE);
        number.copy_from_slice(&size.to_le_bytes()[..number.len()]);
        Self(digest)
    }

    /// Returns the number of bytes of the blob.
    #[must_use]
    pub fn size(&self) -> u64 {
        let mut number = [0; 8];
        number[..32 - HASH_SIZE].copy_from_slice(&self.0[HASH_SIZE..]);
        u64::from_le_bytes(number)
    }
}

impl fmt::Display for Digest {
    /// Writes the first eight bytes in hexadecimal, which are enough for people to tell blobs apart.
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
    /// The hash of the blob's bytes.
    pub digest: Digest,
    /// Number of bytes of the blob.
    pub size: u64,
}

impl BlobName {
    /// Makes a name from a digest and a size that a peer sent.
    ///
    /// # Errors
    /// [`FrameError::Misnamed`] if the digest is that of another number of bytes.
    pub fn checked(digest: Digest, size: u64) -> Result<Self, FrameError> {
        let named = digest.size();
        if named == size {
            Ok(Self { digest, size })
        } else {
            Err(FrameError::Misnamed { size, named })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_many_bytes_it_names() {
        let digest = Digest::of([9; 32], 0x0102_0304_0506);
        assert_eq!((digest.0[25], digest.0[26], digest.0[31]), (9, 6, 1));
        let size = digest.size();
        assert_eq!(BlobName::checked(digest, size), Ok(BlobName { digest, size }));
        for other in [size - 1, size + 1, size | 1 << 48] {
            let misnamed = FrameError::Misnamed { size: other, named: size };
            assert_eq!(BlobName::checked(digest, other), Err(misnamed));
        }
    }
}
