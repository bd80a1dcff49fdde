//! What a task, or the worker of a context, needs besides a worker's place.

use crate::SlotId;

/// Places that are named to a task at most: more would not fit into a record, and need no names.
pub const NAMED_PLACES_MAX: u16 = 4096;
/// Slots in a word of the list of places.
const SLOTS_PER_WORD: usize = 4;
/// GPUs that a node may have.
pub const GPUS_MAX: usize = 16;
/// A whole GPU: shares of one are counted in thousandths.
pub const WHOLE_GPU: u32 = 1000;

/// What a task needs of its node while it runs, or a context's worker for as long as it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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

    /// How many places are named behind the extension: those of a wide task, with its own worker's.
    #[must_use]
    pub const fn named_places(&self) -> u16 {
        if self.places > 1 && self.places <= NAMED_PLACES_MAX { self.places } else { 0 }
    }

    /// Words of that list.
    #[must_use]
    pub const fn place_words(&self) -> usize {
        (self.named_places() as usize).div_ceil(SLOTS_PER_WORD)
    }

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

/// A list of places as it travels.
pub fn pack_places(slots: &[SlotId]) -> impl Iterator<Item = u64> {
    slots.chunks(SLOTS_PER_WORD).map(|chunk| {
        let add = |word, slot: &SlotId| (word << 16) | u64::from(slot.0);
        chunk.iter().rev().fold(0, add)
    })
}

/// The slots in one word of it; the last word has zeroes behind the last one.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
pub fn unpack_places(word: u64) -> [SlotId; SLOTS_PER_WORD] {
    [0, 16, 32, 48].map(|shift| SlotId((word >> shift) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_places_comes_back() {
        let slots: Vec<SlotId> = [7, 0, 65_535, 3, 9].map(SlotId).to_vec();
        let equipment = Equipment { devices: 0, places: 5 };
        let words: Vec<u64> = pack_places(&slots).collect();
        assert_eq!(words, [0x0003_ffff_0000_0007, 9]);
        assert_eq!(words.len(), equipment.place_words());
        let back: Vec<SlotId> = words.into_iter().flat_map(unpack_places).collect();
        assert_eq!(back[..5], slots);
    }

    #[test]
    fn only_the_places_of_a_wide_task_are_named() {
        let named = |places| Equipment { devices: 1, places }.named_places();
        assert_eq!([0, 1, 2, NAMED_PLACES_MAX].map(named), [0, 0, 2, NAMED_PLACES_MAX]);
        assert_eq!(named(NAMED_PLACES_MAX + 1), 0);
    }

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
