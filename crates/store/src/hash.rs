//! The hash of blobs: BLAKE3, which hashes a gigabyte a second or more on one core.

use gristmill_shm::BlockPart;
use gristmill_wire::Digest;

/// Bytes that are hashed at a time: they stay in a core's cache from the copy to the hash.
const STEP: usize = 128 << 10;

/// Returns the hash of a block's bytes. The block remembers it, unless other processes can write to the block.
#[must_use]
pub fn digest_of(part: &BlockPart) -> Digest {
    part.digest().unwrap_or_else(|| {
        let mut verifier = Verifier::default();
        verifier.follow(part, part.range().size);
        let digest = verifier.digest();
        part.note_digest(digest);
        digest
    })
}

/// Returns the hash of bytes.
#[must_use]
pub fn digest_of_bytes(bytes: &[u8]) -> Digest {
    let mut verifier = Verifier::default();
    verifier.take(bytes);
    verifier.digest()
}

/// A hasher of a blob whose bytes arrive over time. The caller compares the digest with the blob's name.
#[derive(Debug, Default)]
pub struct Verifier {
    hasher: blake3::Hasher,
    /// Bytes hashed so far.
    hashed: u64,
    /// A private copy of the bytes to hash: other processes may write to the block itself meanwhile.
    copy: Vec<u8>,
}

impl Verifier {
    /// Hashes the bytes of a block up to `received` that were not hashed before.
    pub fn follow(&mut self, part: &BlockPart, received: u64) {
        self.copy.resize(STEP, 0);
        while self.hashed < received {
            let left = usize::try_from(received - self.hashed).unwrap_or(STEP).min(STEP);
            let count = part.read_at(self.hashed, &mut self.copy[..left]);
            if count == 0 {
                return;
            }
            self.hasher.update(&self.copy[..count]);
            self.hashed += count as u64;
        }
    }

    /// Hashes bytes that follow those hashed before.
    pub fn take(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.hashed += bytes.len() as u64;
    }

    /// Returns the number of bytes hashed so far.
    #[must_use]
    pub const fn hashed(&self) -> u64 {
        self.hashed
    }

    /// Returns the hash of the bytes so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(*self.hasher.finalize().as_bytes(), self.hashed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;

    #[test]
    fn a_hash_is_the_same_at_once_and_bit_by_bit() {
        let arena = ClientArena::create(0).expect("an arena");
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let part = arena.store(&bytes).expect("a block");
        let mut verifier = Verifier::default();
        for received in [0, 1, 200_000, 200_000, 300_000] {
            verifier.follow(&part, received);
            assert_eq!(verifier.hashed(), received);
        }
        assert_eq!(verifier.digest(), digest_of(&part));
        assert_eq!(verifier.digest(), Digest::of(*blake3::hash(&bytes).as_bytes(), 300_000));
        // `digest_of` has stored the digest in the block.
        assert_eq!(part.digest(), Some(verifier.digest()), "found once");
    }

    #[test]
    fn a_writable_block_is_hashed_again() {
        let arena = ClientArena::create(0).expect("an arena");
        let part = arena.store(b"before").expect("a block");
        let before = digest_of(&part);
        part.expose();
        assert!(part.write_at(0, b"behind"));
        assert_ne!(digest_of(&part), before);
    }
}
