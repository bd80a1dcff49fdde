//! The layout of an arena: the offsets and sizes of its parts.
//!
//! ```text
//! offset          part
//! 0               Header, then a SlotEntry for each slot; rounded up to the grain
//! header_size     the client's region in memory, slot 0's region in memory, slot 1's ...
//! memory_size     the client's region on disk, slot 0's region on disk, slot 1's ...
//! ```
//! Memory and disk are a sparse file each. The mapping of the second follows that of the first, so that one offset
//! identifies a block in either.

use gristmill_wire::{BlockRange, SlotId};

/// Alignment of the parts: the largest page size of the supported processors.
const GRAIN: u64 = 64 << 10;
/// Addresses of a process, bytes: on x86-64; aarch64 has twice as many.
const ADDRESSES: u64 = 1 << 47;
/// Upper limit of all regions on disk together, bytes: half of the largest file of ext4.
const DISK_ADDRESSES_MAX: u64 = 1 << 43;
/// Preferred size of a region, bytes. If addresses are short, the engine gives up spare workers (down to
/// [`SPARES_MIN`]) before it makes regions smaller than this.
const REGION_WISH: u64 = 256 << 20;
/// Minimum number of spare workers, even if the process has few addresses.
const SPARES_MIN: u16 = 4;
/// Smallest useful region, bytes.
pub(super) const REGION_MIN: u64 = 1 << 20;
/// Size of a region under fuzzing, bytes. A range that the fuzzer chooses may be as large as a region, and the code
/// copies it: the fuzzer's memory limit must not take that copy for a leak.
const FUZZED_REGION: u64 = 16 << 20;

/// Size of the header, bytes.
pub(super) const HEADER_SIZE: u64 = 64;
/// Size of a slot's entry after the header, bytes.
pub(super) const ENTRY_SIZE: u64 = 64;

/// The storage of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    Memory,
    Disk,
}

impl Tier {
    pub const ALL: [Self; 2] = [Self::Memory, Self::Disk];

    pub const fn index(self) -> usize {
        match self {
            Self::Memory => 0,
            Self::Disk => 1,
        }
    }
}

/// The dimensions of an arena, from which all offsets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub slot_count: u16,
    /// Size of a region, bytes, by tier.
    pub region_sizes: [u64; 2],
}

/// The space that an arena may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArenaSpace {
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Room on disk, bytes.
    pub disk: u64,
    /// Address space, bytes.
    pub addresses: u64,
    /// Largest file on disk, bytes, if `ulimit -f` limits it.
    pub file_size: Option<u64>,
}

/// Returns the size of the address range that an arena may take, bytes. It is an eighth of the addresses that this
/// process has left, so that a process can have many engines. If `ulimit -v` is set, it is at most half of the
/// addresses that may still be mapped: the workers have the same limit and map other things too.
pub(super) fn address_budget() -> u64 {
    let mapped = gristmill_machine::mapped_size();
    let left = ADDRESSES.saturating_sub(mapped) / 8;
    let limit = gristmill_machine::process_limits().address_space;
    limit.map_or(left, |limit| left.min(limit.saturating_sub(mapped) / 2))
}

/// Returns the number of spare workers, at most `spares`, whose regions of the preferred size fit beside those of
/// `workers` workers and the client; but at least [`SPARES_MIN`] of them, even if they do not fit.
pub(super) fn spares_within(budget: u64, workers: u16, spares: u16) -> u16 {
    let regions = budget / REGION_WISH;
    let room = regions.saturating_sub(u64::from(workers) + 1);
    u16::try_from(room).unwrap_or(u16::MAX).clamp(SPARES_MIN.min(spares), spares)
}

impl Layout {
    /// Divides the room among the client and the slots.
    pub fn plan(slot_count: u16, room: &ArenaSpace) -> Self {
        let regions = u64::from(slot_count) + 1;
        let memory = if cfg!(fuzzing) { FUZZED_REGION } else { room.memory.max(REGION_MIN) };
        let file_size = room.file_size.unwrap_or(u64::MAX).min(DISK_ADDRESSES_MAX);
        let disk = room.disk.min(file_size / regions);
        // Each tier may take half of the share, and the part of the other half that the other tier leaves.
        let share = room.addresses / regions;
        let memory = memory.min((share / 2).max(share.saturating_sub(disk))).max(REGION_MIN);
        let disk = disk.min(share.saturating_sub(memory));
        let sizes = [memory, disk].map(|size| size / GRAIN * GRAIN);
        Self { slot_count, region_sizes: sizes }
    }

    /// Returns the layout with smaller regions, or `None` if those in memory would be too small to be useful. The regions
    /// on disk may become empty.
    pub fn smaller(self, factor: u64) -> Option<Self> {
        let sizes = self.region_sizes.map(|size| size / factor / GRAIN * GRAIN);
        (sizes[0] >= REGION_MIN).then_some(Self { region_sizes: sizes, ..self })
    }

    pub fn without_disk(self) -> Self {
        Self { region_sizes: [self.region_sizes[0], 0], ..self }
    }

    pub fn has_disk(&self) -> bool {
        self.region_sizes[1] > 0
    }

    pub fn header_size(&self) -> u64 {
        (HEADER_SIZE + u64::from(self.slot_count) * ENTRY_SIZE).next_multiple_of(GRAIN)
    }

    /// Returns the size of the file in memory, bytes. Offsets from this size on are on disk.
    pub fn memory_size(&self) -> u64 {
        self.header_size() + self.regions() * self.region_sizes[0]
    }

    /// Returns the size of the file on disk, bytes.
    pub fn disk_size(&self) -> u64 {
        self.regions() * self.region_sizes[1]
    }

    pub fn size(&self) -> u64 {
        self.memory_size() + self.disk_size()
    }

    /// Returns true if the sizes are multiples of the grain and their sum fits into 63 bits. They may come from memory
    /// that other processes write.
    pub fn is_sound(&self) -> bool {
        let sizes = self.region_sizes;
        let sum = sizes[0].checked_add(sizes[1]);
        let all = sum.and_then(|sum| sum.checked_mul(self.regions()));
        let all = all.and_then(|all| all.checked_add(self.header_size()));
        sizes.iter().all(|size| size.is_multiple_of(GRAIN))
            && all.is_some_and(|all| i64::try_from(all).is_ok())
    }

    pub fn tier_of(&self, offset: u64) -> Tier {
        if offset < self.memory_size() { Tier::Memory } else { Tier::Disk }
    }

    /// Returns the region of a slot's workers, or of the client: its start and end.
    pub fn region(&self, owner: Option<SlotId>, tier: Tier) -> (u64, u64) {
        let size = self.region_sizes[tier.index()];
        let first = match tier {
            Tier::Memory => self.header_size(),
            Tier::Disk => self.memory_size(),
        };
        let start = first + owner.map_or(0, |slot| u64::from(slot.0) + 1) * size;
        (start, start + size)
    }

    /// Returns true if a range that a peer named lies inside the regions of one tier.
    pub fn contains(&self, range: BlockRange) -> bool {
        let Some(end) = range.end() else { return false };
        let (border, size) = (self.memory_size(), self.size());
        let is_in_memory = range.offset >= self.header_size() && end <= border;
        let is_on_disk = range.offset >= border && end <= size;
        range.size > 0 && (is_in_memory || is_on_disk)
    }

    fn regions(&self) -> u64 {
        u64::from(self.slot_count) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_limit_of_addresses_leaves_fewer_spares_and_regions_worth_having() {
        let budget = 1700 << 20;
        let spares = spares_within(budget, 2, 64);
        assert_eq!(spares, SPARES_MIN);
        let room =
            ArenaSpace { memory: 64 << 30, disk: 100 << 30, addresses: budget, file_size: None };
        let layout = Layout::plan(2 + spares, &room);
        assert!(layout.size() <= 1701 << 20 && layout.region_sizes[0] >= 100 << 20);
        assert_eq!(spares_within(1 << 40, 2, 64), 64);
        assert_eq!(spares_within(0, 2, 3), 3, "no more than asked for");
    }

    proptest! {
        #[test]
        fn regions_do_not_overlap_and_fit(
            slot_count in 0u16..300, memory in 0u64..1 << 50, disk in 0u64..1 << 50,
            addresses in 0u64..1 << 47, file_size: Option<u64>,
        ) {
            let layout = Layout::plan(slot_count, &ArenaSpace { memory, disk, addresses, file_size });
            prop_assert!(layout.is_sound());
            let least = (u64::from(slot_count) + 1) * REGION_MIN;
            prop_assert!(layout.size() <= addresses.max(least) + layout.header_size());
            prop_assert!(layout.disk_size() <= file_size.unwrap_or(u64::MAX));
            let owners = || [None].into_iter().chain((0..slot_count).map(|slot| Some(SlotId(slot))));
            let mut end = layout.header_size();
            for tier in Tier::ALL {
                for owner in owners() {
                    let (start, behind) = layout.region(owner, tier);
                    prop_assert_eq!(start, end);
                    prop_assert!(start == behind || layout.tier_of(start) == tier);
                    end = behind;
                }
            }
            prop_assert_eq!(end, layout.size());
        }
    }
}
