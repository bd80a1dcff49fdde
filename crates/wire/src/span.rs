//! Durations in 32 bits.

/// A number of clock ticks in 32 bits. It is exact below 2^31 ticks (0.7 s at 3 GHz). Above, it has steps of 2^14 ticks (5 us)
/// and reaches 3 hours; longer spans saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span(u32);

const COARSE: u32 = 1 << 31;
const COARSE_SHIFT: u32 = 14;

impl Span {
    /// Rounds `ticks` down to a representable value.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "both branches fit in 31 bits")]
    pub const fn from_ticks(ticks: u64) -> Self {
        if ticks < COARSE as u64 {
            return Self(ticks as u32);
        }
        let coarse = ticks >> COARSE_SHIFT;
        if coarse < COARSE as u64 { Self(COARSE | coarse as u32) } else { Self(u32::MAX) }
    }

    /// Makes a span from its wire format; every bit pattern is valid.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the span in wire format.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the length in ticks, rounded as described at [`Span`].
    #[must_use]
    pub const fn ticks(self) -> u64 {
        if self.0 < COARSE { self.0 as u64 } else { ((self.0 & !COARSE) as u64) << COARSE_SHIFT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn saturates_instead_of_wrapping() {
        assert_eq!(Span::from_ticks(u64::MAX).bits(), u32::MAX);
        assert_eq!(Span::from_ticks((1 << 31) - 1).ticks(), (1 << 31) - 1);
    }

    proptest! {
        #[test]
        fn is_never_longer_and_less_than_a_step_shorter(ticks in 0u64..1 << 44) {
            let rounded = Span::from_ticks(ticks).ticks();
            prop_assert!(rounded <= ticks && ticks - rounded < 1 << COARSE_SHIFT);
        }
    }
}
