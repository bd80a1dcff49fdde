//! Which places a wide task gets: near to each other, where there is a choice.
//!
//! A machine may have several memories, each near to some of its cores. Those cores are a *domain*; a place is in the
//! domains of its cores, a bit each. A task whose places are in one domain has its data near to all of them.

use gristmill_wire::Epoch;

use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// What a wait for a place in the same domain may cost: so many times what another place would.
const NEAR_COST: u64 = 2;

/// Picks `count` of the places, each given with its domains, so that they are in as few domains as can be: in one that
/// has just enough, else in the largest. Of equal ones the first; fewer where there are no more.
#[must_use]
pub fn pick_near(free: &[(usize, u64)], count: usize) -> Vec<usize> {
    if free.iter().all(|&(_, domains)| domains == free[0].1) {
        return free.iter().take(count).map(|&(place, _)| place).collect();
    }
    let (mut picked, mut entered) = (Vec::new(), 0);
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for &(place, domains) in free {
        match groups.iter_mut().find(|group| group.0 == domains) {
            Some(group) => group.1.push(place),
            None => groups.push((domains, vec![place])),
        }
    }
    while picked.len() < count && !groups.is_empty() {
        let missing = count - picked.len();
        let cost = |(domains, places): &(u64, Vec<usize>)| {
            let entered = (domains & !entered).count_ones();
            let is_short = places.len() < missing && entered > 0;
            let size = if is_short { usize::MAX - places.len() } else { places.len() };
            let bits = if is_short { 0 } else { entered };
            (entered > 0, is_short, bits, size, domains.count_ones())
        };
        let best = (0..groups.len()).min_by_key(|&at| cost(&groups[at])).unwrap_or(0);
        let (domains, places) = groups.remove(best);
        entered |= domains;
        picked.extend(places.into_iter().take(missing));
    }
    picked
}

impl Core {
    /// The domains of a slot's place; a spare worker sits where others wait.
    pub(crate) fn domains(&self, slot: usize) -> u64 {
        let domains = &self.config.domains;
        if domains.is_empty() { 0 } else { domains[slot % domains.len()] }
    }

    /// The places of `free` that a task is to have of those whose workers have nothing to do: what it has already comes
    /// first where that makes no difference.
    pub(super) fn pick_idle(&self, index: u32, free: &[usize], count: usize) -> Vec<usize> {
        let is_its = |slot: &&usize| self.slots[**slot].holder == index;
        let others = free.iter().filter(|slot| !is_its(slot));
        let ordered = free.iter().filter(is_its).chain(others);
        let placed: Vec<_> = ordered.map(|&slot| (slot, self.domains(slot))).collect();
        pick_near(&placed, count)
    }

    /// The place that a task is to wait for, of those that it could have: in a domain where it has others already, or
    /// where there are the most, unless the wait would be much longer there.
    pub(super) fn pick_busy(&self, index: u32, free: &[usize]) -> Option<usize> {
        let backlog = |slot: &usize| self.slots[*slot].backlog_ns;
        let least = free.iter().copied().min_by_key(backlog)?;
        let held = (0..self.slots.len()).filter(|&slot| self.slots[slot].holder == index);
        let entered = held.fold(0, |domains, slot| domains | self.domains(slot));
        let within = |domains: u64| {
            let near = free.iter().copied().filter(move |&slot| self.domains(slot) & !domains == 0);
            near.min_by_key(backlog)
        };
        let near = within(entered).or_else(|| within(self.roomiest(free)))?;
        let limit = NEAR_COST.saturating_mul(backlog(&least)).saturating_add(self.config.window_ns);
        Some(if backlog(&near) <= limit { near } else { least })
    }

    /// Whether the first workers start in places where a task would be nearer than where it could run now. All of an
    /// engine start at once: the first tasks would have the places of those that happen to be ready first.
    pub(super) fn could_be_nearer(&self, index: u32, count: usize) -> bool {
        if self.config.domains.is_empty() || count < 2 {
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
        let placed: Vec<_> = all.map(|slot| (slot, self.domains(slot))).collect();
        let spread = |slots: &mut dyn Iterator<Item = usize>| {
            slots.fold(0, |domains, slot| domains | self.domains(slot)).count_ones()
        };
        let nearest = pick_near(&placed, count);
        spread(&mut nearest.into_iter()) < spread(&mut self.held_slots(index))
    }

    /// The domains with the most of these places; of equal ones those with the least to do.
    fn roomiest(&self, free: &[usize]) -> u64 {
        let room = |&domains: &u64| {
            let inside = free.iter().filter(|&&slot| self.domains(slot) == domains);
            let backlog: u64 = inside.clone().map(|&slot| self.slots[slot].backlog_ns).sum();
            (inside.count(), std::cmp::Reverse(backlog))
        };
        free.iter().map(|&slot| self.domains(slot)).max_by_key(room).unwrap_or(0)
    }

    /// Slots whose places a task has.
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

    fn free(domains: &[u64]) -> Vec<(usize, u64)> {
        domains.iter().copied().enumerate().collect()
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
    fn a_place_across_domains_is_taken_last() {
        let places = free(&[LEFT | RIGHT, LEFT, LEFT, RIGHT]);
        assert_eq!(pick_near(&places, 1), [3]);
        assert_eq!(pick_near(&places, 2), [1, 2]);
        assert_eq!(pick_near(&places, 4), [1, 2, 3, 0]);
    }

    #[test]
    fn the_first_places_are_taken_where_nothing_is_known_of_domains() {
        assert_eq!(pick_near(&free(&[0, 0, 0]), 2), [0, 1]);
        assert!(pick_near(&[], 2).is_empty());
    }

    proptest! {
        #[test]
        fn no_other_choice_is_in_fewer_domains(
            numbers in proptest::collection::vec(0u32..4, 1..10),
            count in 1usize..10,
        ) {
            let places: Vec<_> = numbers.iter().map(|number| 1 << number).enumerate().collect();
            let count = count.min(places.len());
            let picked = pick_near(&places, count);
            prop_assert_eq!(picked.len(), count);
            let domains = |chosen: &[usize]| chosen.iter().fold(0, |all, &one| all | places[one].1);
            let fewest = (0u32..1 << places.len())
                .filter(|set| set.count_ones() as usize == count)
                .map(|set| (0..places.len()).filter(|place| set & (1 << place) != 0).collect())
                .map(|chosen: Vec<usize>| domains(&chosen).count_ones())
                .min();
            prop_assert_eq!(Some(domains(&picked).count_ones()), fewest);
        }
    }
}
