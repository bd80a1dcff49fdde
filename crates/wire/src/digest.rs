//! What a blob is called: a hash of its bytes, so that everybody gives the same bytes the same name.

use std::fmt;

use crate::FrameError;

/// The hash of a blob's bytes, whose last bytes are their number. So whoever names a blob cannot have others wait for more
/// bytes than there are, or take fewer. Which hash it is is for the layer above.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Bytes of the hash; the others are enough for the number of any bytes that there are.
const HASH_SIZE: usize = 26;

impl Digest {
    /// Of so many bytes that have this hash.
    #[must_use]
    pub fn of(hash: [u8; 32], size: u64) -> Self {
        let mut digest = hash;
        let (_, number) = digest.split_at_mut(HASH_SIZE);
        number.copy_from_slice(&size.to_le_bytes()[..number.len()]);
        Self(digest)
    }

    /// How many bytes have it.
    #[must_use]
    pub fn size(&self) -> u64 {
        let mut number = [0; 8];
        number[..32 - HASH_SIZE].copy_from_slice(&self.0[HASH_SIZE..]);
        u64::from_le_bytes(number)
    }
}

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

impl BlobName {
    /// What somebody calls a blob.
    ///
    /// # Errors
    /// [`FrameError::Misnamed`].
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
