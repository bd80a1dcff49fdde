//! Choice of the CPU slots of a wide task: NUMA-local slots where there is a choice.
//!
//! A machine may have several NUMA nodes, each with its own memory and cores. A slot has a
//! mask of the NUMA nodes of its cores, one bit for each node. If all slots of a task are in one NUMA node, the task's
//! data is local to all of them.

use gristmill_wire::Epoch;

use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// Largest cost of waiting for a slot in the same NUMA node, as a multiple of the cost of waiting for another slot.
const NEAR_COST: u64 = 2;

/// Picks `count` of the free slots, each given with the mask of its NUMA nodes, so that they are in as few NUMA nodes as
/// possible: in one that has just enough slots, otherwise in the largest. Of equal NUMA nodes picks the first. Returns
/// fewer slots if there are not enough.
#[must_use]
pub fn pick_near(free: &[(usize, u64)], count: usize) -> Vec<usize> {
    if free.iter().all(|&(_, numa_nodes)| numa_nodes == free[0].1) {
        return free.iter().take(count).map(|&(place, _)| place).collect();
    }
    let (mut picked, mut entered) = (Vec::new(), 0);
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for &(place, numa_nodes) in free {
        match groups.iter_mut().find(|group| group.0 == numa_nodes) {
            Some(group) => group.1.push(place),
            None => groups.push((numa_nodes, vec![place])),
        }
    }
    while picked.len() < count && !groups.is_empty() {
        let missing = count - picked.len();
        let cost = |(numa_nodes, places): &(u64, Vec<usize>)| {
            let entered = (numa_nodes & !entered).count_ones();
            let is_short = places.len() < missing && entered > 0;
            let size = if is_short { usize::MAX - places.len() } else { places.len() };
            let bits = if is_short { 0 } else { entered };
            (entered > 0, is_short, bits, size, numa_nodes.count_ones())
        };
        let best = (0..groups.len()).min_by_key(|&at| cost(&groups[at])).unwrap_or(0);
        let (numa_nodes, places) = groups.remove(best);
        entered |= numa_nodes;
        picked.extend(places.into_iter().take(missing));
    }
    picked
}

impl Core {
    /// Returns the mask of the NUMA nodes of a slot. A spare worker uses the cores of a worker that waits.
    pub(crate) fn numa_nodes(&self, slot: usize) -> u64 {
        let numa_nodes = &self.config.numa_nodes;
        if numa_nodes.is_empty() { 0 } else { numa_nodes[slot % numa_nodes.len()] }
    }

    /// Picks `count` slots of `free`, whose workers are idle, for a task. Of equally near slots, those come first whose
    /// worker has used the task's GPUs, then those whose worker has used no GPU: other workers would have to be replaced.
    /// Of these, the slots that the task holds already come first.
    pub(super) fn pick_idle(&self, index: u32, free: &[usize], count: usize) -> Vec<usize> {
        let devices = self.claim(index).map_or(0, |claim| claim.devices);
        let rank = |&slot: &usize| {
            let Slot { devices: used, holder, .. } = self.slots[slot];
            let must_be_replaced = devices != 0 && used != 0 && used != devices;
            let is_unused = devices != 0 && used == 0;
            (must_be_replaced, is_unused, holder != index)
        };
        let mut ordered = free.to_vec();
        ordered.sort_by_key(rank);
        let placed: Vec<_> =
            ordered.into_iter().map(|slot| (slot, self.numa_nodes(slot))).collect();
        pick_near(&placed, count)
    }

    /// Returns the slot for which a task should wait, of those that it could have: in a NUMA node where the task has
    /// slots already, or where there are the most, unless the wait would be much longer there.
    pub(super) fn pick_busy(&self, index: u32, free: &[usize]) -> Option<usize> {
        let backlog = |slot: &usize| self.slots[*slot].backlog_ns;
        let least = free.iter().copied().min_by_key(backlog)?;
        let held = (0..self.slots.len()).filter(|&slot| self.slots[slot].holder == index);
        let entered = held.fold(0, |numa_nodes, slot| numa_nodes | self.numa_nodes(slot));
        let within = |numa_nodes: u64| {
            let near =
                free.iter().copied().filter(move |&slot| self.numa_nodes(slot) & !numa_nodes == 0);
            near.min_by_key(backlog)
        };
        let near = within(entered).or_else(|| within(self.roomiest(free)))?;
        let limit = NEAR_COST.saturating_mul(backlog(&least)).saturating_add(self.config.window_ns);
        Some(if backlog(&near) <= limit { near } else { least })
    }

    /// Returns true if the first workers still start in slots that are in fewer NUMA nodes than those where a task could
    /// run now. All workers of an engine start at the same time; without this, the first tasks would get the slots of the
    /// workers that happen to be ready first.
    pub(super) fn could_be_nearer(&self, index: u32, count: usize) -> bool {
        if self.config.numa_nodes.is_empty() || count < 2 {
            return false;
        }
        let slots = || 0..self.slots.len().min(usize::from(self.config.workers));
        let is_coming = |slot: usize| {
            let Slot { state, epoch, .. } = self.slots[slot];
            state == SlotState::Starting && epoch == Epoch(0)
        };
        if !slots().any(is_coming) {
            return false;
        }
        let is_free = |slot: usize| self.slots[slot].is_idle() && self.slots[slot].holder == NONE;
        let is_its = |slot: usize| self.slots[slot].holder == index;
        let all = slots().filter(|&slot| is_coming(slot) || is_free(slot) || is_its(slot));
        let placed: Vec<_> = all.map(|slot| (slot, self.numa_nodes(slot))).collect();
        let spread = |slots: &mut dyn Iterator<Item = usize>| {
            slots.fold(0, |numa_nodes, slot| numa_nodes | self.numa_nodes(slot)).count_ones()
        };
        let nearest = pick_near(&placed, count);
        spread(&mut nearest.into_iter()) < spread(&mut self.held_slots(index))
    }

    /// Returns the NUMA nodes with the most of these slots; of equal ones, those with the least work.
    fn roomiest(&self, free: &[usize]) -> u64 {
        let room = |&numa_nodes: &u64| {
            let inside = free.iter().filter(|&&slot| self.numa_nodes(slot) == numa_nodes);
            let backlog: u64 = inside.clone().map(|&slot| self.slots[slot].backlog_ns).sum();
            (inside.count(), std::cmp::Reverse(backlog))
        };
        free.iter().map(|&slot| self.numa_nodes(slot)).max_by_key(room).unwrap_or(0)
    }

    /// Returns the slots that a task holds.
    pub(super) fn held_slots(&self, index: u32) -> impl Iterator<Item = usize> {
        debug_assert!(index != NONE, "a task");
        (0..self.slots.len()).filter(move |&slot| self.slots[slot].holder == index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEFT: u64 = 0b01;
    const RIGHT: u64 = 0b10;

    fn free(numa_nodes: &[u64]) -> Vec<(usize, u64)> {
        numa_nodes.iter().copied().enumerate().collect()
    }

    #[test]
    fn the_domain_with_just_enough_is_taken() {
        let places = free(&[LEFT, RIGHT, LEFT, RIGHT, LEFT]);
        assert_eq!(pick_near(&places, 2), [1, 3]);
        assert_eq!(pick_near(&places, 3), [0, 2, 4]);
        assert_eq!(pick_near(&places, 4), [0, 2, 4, 1]);
        assert_eq!(pick_near(&places, 9).len(), 5, "no more than there are");
    }

    #[test]
    fn a_place_across_numa_nodes_is_taken_last() {
        let places = free(&[LEFT | RIGHT, LEFT, LEFT, RIGHT]);
        assert_eq!(pick_near(&places, 1), [3]);
        assert_eq!(pick_near(&places, 2), [1, 2]);
        assert_eq!(pick_near(&places, 4), [1, 2, 3, 0]);
    }

    #[test]
    fn the_first_places_are_taken_where_nothing_is_known_of_numa_nodes() {
        assert_eq!(pick_near(&free(&[0, 0, 0]), 2), [0, 1]);
        assert!(pick_near(&[], 2).is_empty());
    }

    proptest! {
        #[test]
        fn no_other_choice_is_in_fewer_numa_nodes(
            numbers in proptest::collection::vec(0u32..4, 1..10),
            count in 1usize..10,
        ) {
            let places: Vec<_> = numbers.iter().map(|number| 1 << number).enumerate().collect();
            let count = count.min(places.len());
            let picked = pick_near(&places, count);
            prop_assert_eq!(picked.len(), count);
            let numa_nodes = |chosen: &[usize]| chosen.iter().fold(0, |all, &one| all | places[one].1);
            let fewest = (0u32..1 << places.len())
                .filter(|set| set.count_ones() as usize == count)
                .map(|set| (0..places.len()).filter(|place| set & (1 << place) != 0).collect())
                .map(|chosen: Vec<usize>| numa_nodes(&chosen).count_ones())
                .min();
            prop_assert_eq!(Some(numa_nodes(&picked).count_ones()), fewest);
        }
    }
}
