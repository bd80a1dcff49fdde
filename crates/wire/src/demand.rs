//! What a task needs besides a worker.

/// GPUs that a node may have.
pub const GPUS_MAX: usize = 16;
/// A whole GPU: shares of one are counted in thousandths.
pub const WHOLE_GPU: u32 = 1000;

/// What a task needs of its node while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Workers' places that it fills; 0 and 1 are its own.
    pub cores: u16,
    /// Thousandths of a GPU: less than [`WHOLE_GPU`] is a share of one, more are whole ones.
    pub gpus: u32,
    /// Bytes of memory.
    pub memory: u64,
}

impl Demand {
    /// A worker, and nothing else.
    pub const NONE: Self = Self { cores: 0, gpus: 0, memory: 0 };

    /// Whether it is for a worker and nothing else.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.cores <= 1 && self.gpus == 0 && self.memory == 0
    }

    /// Workers' places that it fills.
    #[must_use]
    pub const fn places(&self) -> u16 {
        if self.cores == 0 { 1 } else { self.cores }
    }

    /// GPUs of which it gets something.
    #[must_use]
    pub const fn devices(&self) -> u32 {
        self.gpus.div_ceil(WHOLE_GPU)
    }

    /// Thousandths that it takes of each of its GPUs.
    #[must_use]
    pub const fn share(&self) -> u32 {
        if self.gpus < WHOLE_GPU { self.gpus } else { WHOLE_GPU }
    }

    /// The demand as it travels.
    #[must_use]
    pub const fn words(&self) -> [u64; 2] {
        [self.cores as u64 | ((self.gpus as u64) << 32), self.memory]
    }

    /// Reads a demand; every bit pattern is one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { cores: words[0] as u16, gpus: (words[0] >> 32) as u32, memory: words[1] }
    }
}

/// What a task has besides its worker while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Equipment {
    /// GPUs, a bit each; 0 is none.
    pub devices: u16,
    /// Workers' places; 0 is its own worker's.
    pub places: u16,
}

impl Equipment {
    /// Nothing.
    pub const NONE: Self = Self { devices: 0, places: 0 };

    /// The equipment as it travels.
    #[must_use]
    pub const fn word(&self) -> u32 {
        self.devices as u32 | ((self.places as u32) << 16)
    }

    /// Reads it; every bit pattern is one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub const fn from_word(word: u32) -> Self {
        Self { devices: word as u16, places: (word >> 16) as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_comes_back() {
        let demand = Demand { cores: 3, gpus: 2500, memory: 1 << 40 };
        assert_eq!(Demand::from_words(demand.words()), demand);
    }

    #[test]
    fn shares_are_of_one_gpu_and_more_are_whole() {
        let of = |gpus| Demand { gpus, ..Demand::NONE };
        assert_eq!((of(250).devices(), of(250).share()), (1, 250));
        assert_eq!((of(2000).devices(), of(2000).share()), (2, 1000));
        assert!(Demand { cores: 1, ..Demand::NONE }.is_none());
    }
}
