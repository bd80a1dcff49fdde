//! A small random source for jitter, seeds and simulation; not for secrets.

use std::io;

/// A stream of random numbers from one 64-bit seed.
///
/// Source: Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// Creates a stream from a seed. The same seed always gives the same stream.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a stream from a random seed of the system, so it cannot be repeated.
    ///
    /// # Errors
    /// The error of `getrandom`; only kernels before 3.17 and seccomp refuse the call.
    pub fn from_system() -> io::Result<Self> {
        let mut seed = [0_u8; 8];
        loop {
            // SAFETY: the buffer is valid for the 8 bytes that the kernel may write.
            let count = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
            if count == 8 {
                return Ok(Self(u64::from_ne_bytes(seed)));
            }
            let error = io::Error::last_os_error();
            if count < 0 && error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0. The distribution deviates from uniform by less than `limit`
    /// in 2^64.
    ///
    /// # Panics
    /// If `limit` is 0.
    #[inline]
    pub const fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        ((self.next() as u128 * limit as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_stream_of_seed_0() {
        let mut random = Random::from_seed(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn two_streams_from_the_system_differ() {
        let mut one = Random::from_system().expect("the system has randomness");
        let mut other = Random::from_system().expect("the system has randomness");
        assert_ne!((one.next(), one.next()), (other.next(), other.next()));
    }

    proptest! {
        #[test]
        fn stays_below_its_limit(seed: u64, limit in 1u64..) {
            prop_assert!(Random::from_seed(seed).below(limit) < limit);
        }
    }
}
