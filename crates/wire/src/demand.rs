//! Resource requests and grants: the CPU slots, GPUs and memory that a task or a context's worker needs and gets.

use crate::SlotId;

/// The largest number of CPU slots that a task record names: more would not fit into a record, and need no names.
pub const NAMED_PLACES_MAX: u16 = 4096;
/// Slots in one word of the slot list.
const SLOTS_PER_WORD: usize = 4;
/// The largest number of GPUs of a node.
pub const GPUS_MAX: usize = 16;
/// A whole GPU: shares of one are counted in thousandths.
pub const WHOLE_GPU: u32 = 1000;

/// Resources that a task needs of its node while it runs, or that a context's worker needs for its whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ResourceRequest {
    /// CPU slots that the task occupies; 0 and 1 both mean only the slot of its own worker.
    pub cores: u16,
    /// Thousandths of a GPU: a value below [`WHOLE_GPU`] is a share of one GPU, a larger value is a number of whole GPUs.
    pub gpus: u32,
    /// Bytes of memory.
    pub memory: u64,
}

impl ResourceRequest {
    /// A worker and nothing else.
    pub const NONE: Self = Self { cores: 0, gpus: 0, memory: 0 };

    /// Returns true if the request is for a worker and nothing else.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.cores <= 1 && self.gpus == 0 && self.memory == 0
    }

    /// Returns the number of CPU slots that the task occupies.
    #[must_use]
    pub const fn places(&self) -> u16 {
        if self.cores == 0 { 1 } else { self.cores }
    }

    /// Returns the number of GPUs that the request uses, whole or in part.
    #[must_use]
    pub const fn devices(&self) -> u32 {
        self.gpus.div_ceil(WHOLE_GPU)
    }

    /// Returns the thousandths that the request takes of each of its GPUs.
    #[must_use]
    pub const fn share(&self) -> u32 {
        if self.gpus < WHOLE_GPU { self.gpus } else { WHOLE_GPU }
    }

    /// Returns the request in wire format.
    #[must_use]
    pub const fn words(&self) -> [u64; 2] {
        [self.cores as u64 | ((self.gpus as u64) << 32), self.memory]
    }

    /// Reads a request; every bit pattern is valid.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { cores: words[0] as u16, gpus: (words[0] >> 32) as u32, memory: words[1] }
    }
}

/// Resources that a task holds besides its worker while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceGrant {
    /// GPUs, one bit each; 0 means none.
    pub devices: u16,
    /// Number of CPU slots; 0 means only the slot of the task's own worker.
    pub places: u16,
}

impl ResourceGrant {
    /// No resources besides the worker.
    pub const NONE: Self = Self { devices: 0, places: 0 };

    /// Returns the number of slots in the list behind the extension. Only a wide task has such a list; it includes the slot of
    /// the task's own worker.
    #[must_use]
    pub const fn named_places(&self) -> u16 {
        if self.places > 1 && self.places <= NAMED_PLACES_MAX { self.places } else { 0 }
    }

    /// Returns the number of words of that slot list.
    #[must_use]
    pub const fn place_words(&self) -> usize {
        (self.named_places() as usize).div_ceil(SLOTS_PER_WORD)
    }

    /// Returns the grant in wire format.
    #[must_use]
    pub const fn word(&self) -> u32 {
        self.devices as u32 | ((self.places as u32) << 16)
    }

    /// Reads a grant; every bit pattern is valid.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub const fn from_word(word: u32) -> Self {
        Self { devices: word as u16, places: (word >> 16) as u16 }
    }
}

/// Packs a list of slots into its wire format.
pub fn pack_places(slots: &[SlotId]) -> impl Iterator<Item = u64> {
    slots.chunks(SLOTS_PER_WORD).map(|chunk| {
        let add = |word, slot: &SlotId| (word << 16) | u64::from(slot.0);
        chunk.iter().rev().fold(0, add)
    })
}

/// Returns the slots in one word of the list. In the last word, zeroes follow the last slot.
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
        let grant = ResourceGrant { devices: 0, places: 5 };
        let words: Vec<u64> = pack_places(&slots).collect();
        assert_eq!(words, [0x0003_ffff_0000_0007, 9]);
        assert_eq!(words.len(), grant.place_words());
        let back: Vec<SlotId> = words.into_iter().flat_map(unpack_places).collect();
        assert_eq!(back[..5], slots);
    }

    #[test]
    fn only_the_places_of_a_wide_task_are_named() {
        let named = |places| ResourceGrant { devices: 1, places }.named_places();
        assert_eq!([0, 1, 2, NAMED_PLACES_MAX].map(named), [0, 0, 2, NAMED_PLACES_MAX]);
        assert_eq!(named(NAMED_PLACES_MAX + 1), 0);
    }

    #[test]
    fn a_demand_comes_back() {
        let demand = ResourceRequest { cores: 3, gpus: 2500, memory: 1 << 40 };
        assert_eq!(ResourceRequest::from_words(demand.words()), demand);
    }

    #[test]
    fn shares_are_of_one_gpu_and_more_are_whole() {
        let of = |gpus| ResourceRequest { gpus, ..ResourceRequest::NONE };
        assert_eq!((of(250).devices(), of(250).share()), (1, 250));
        assert_eq!((of(2000).devices(), of(2000).share()), (2, 1000));
        assert!(ResourceRequest { cores: 1, ..ResourceRequest::NONE }.is_none());
    }
}
