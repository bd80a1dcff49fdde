//! What the workers of each of a node's places are bound to: which places and GPUs a lease gets, as one choice.
//!
//! Guarantees: a lease's places are pinned to GPUs that no other lease was granted, as far as there are such places, and
//! its GPUs are those that its places are pinned to before any other. GPUs that other places are pinned to are given only
//! to who names how many it needs.

use gristmill_client::pick_near;
use gristmill_wire::GPUS_MAX;

/// What each place is near to, and what its worker sees. Where a list is empty workers are not bound by it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Which of the node's memories each is near to, a bit each.
    pub domains: Vec<u64>,
    /// The GPUs that each one's worker is pinned to, a bit each.
    pub pins: Vec<u16>,
}

/// The GPUs that a lease may get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeGpus {
    /// Those that nobody was granted, a bit each.
    pub free: u16,
    /// Those that the places of other leases are pinned to.
    pub used: u16,
}

impl Places {
    /// So many of the free places: those first whose GPUs nobody was granted, near to each other where that can be.
    pub(crate) fn pick(&self, free: &[u16], granted: u16, count: u32) -> Vec<u16> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let is_own = |place: &u16| self.pins_of(*place) & granted == 0;
        let (own, shared): (Vec<_>, Vec<_>) = free.iter().copied().partition(is_own);
        let mut picked = self.pick_near(&own, count);
        picked.extend(self.pick_near(&shared, count - picked.len()));
        picked
    }

    fn pick_near(&self, free: &[u16], count: usize) -> Vec<u16> {
        let domains = |place: u16| self.domains.get(usize::from(place)).copied().unwrap_or(0);
        let free: Vec<_> = free.iter().map(|&one| (usize::from(one), domains(one))).collect();
        let picked = pick_near(&free, count).into_iter();
        picked.map(|place| u16::try_from(place).unwrap_or(u16::MAX)).collect()
    }

    /// So many GPUs for a lease with these places, a bit each; as many as there are for one that does not say how many.
    pub(crate) fn gpus(&self, places: &[u16], gpus: FreeGpus, count: Option<u64>) -> u16 {
        let own = self.pinned(places);
        let all = self.pins.iter().fold(0, |all, pins| all | pins);
        // Its own, those that nobody is pinned to, those of places that are free, and those of others.
        let ranks = [own, !all, all & !gpus.used, all];
        let ranks = &ranks[..if count.is_some() { 4 } else { 2 }];
        let count = count.map_or(GPUS_MAX, |count| usize::try_from(count).unwrap_or(GPUS_MAX));
        let mut chosen = 0;
        for rank in ranks {
            let left = count - devices(chosen).count();
            let new = devices(rank & gpus.free & !chosen).take(left);
            chosen |= new.fold(0, |set, device| set | device);
        }
        chosen
    }

    /// The GPUs that these places are pinned to.
    pub(crate) fn pinned(&self, places: &[u16]) -> u16 {
        places.iter().fold(0, |set, &place| set | self.pins_of(place))
    }

    fn pins_of(&self, place: u16) -> u16 {
        self.pins.get(usize::from(place)).copied().unwrap_or(0)
    }
}

/// The GPUs of a set, each as a set of its own.
fn devices(set: u16) -> impl Iterator<Item = u16> {
    (0..GPUS_MAX).map(|device| 1 << device).filter(move |device| set & device != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four places that are pinned to a GPU each, and as many GPUs as bits.
    fn pinned() -> Places {
        Places { domains: Vec::new(), pins: vec![0b1, 0b10, 0b100, 0b1000] }
    }

    fn all_free(free: u16) -> FreeGpus {
        FreeGpus { free, used: 0 }
    }

    #[test]
    fn a_place_whose_gpu_somebody_was_granted_comes_last() {
        assert_eq!(pinned().pick(&[0, 1, 2, 3], 0b1, 2), [1, 2]);
        assert_eq!(pinned().pick(&[0, 1], 0b1, 2), [1, 0]);
        assert_eq!(Places::default().pick(&[0, 1], 0b1, 1), [0], "nothing is pinned");
    }

    #[test]
    fn who_does_not_say_how_many_gets_no_gpu_that_others_are_pinned_to() {
        assert_eq!(pinned().gpus(&[1, 2], all_free(0b1111), None), 0b110);
        assert_eq!(pinned().gpus(&[1], all_free(0b11_1111), None), 0b11_0010);
        assert_eq!(Places::default().gpus(&[1], all_free(0b111), None), 0b111);
    }

    #[test]
    fn who_says_how_many_gets_its_own_first_and_those_of_other_leases_last() {
        let gpus = FreeGpus { free: 0b1_1111, used: 0b1 };
        assert_eq!(pinned().gpus(&[3], gpus, Some(1)), 0b1000);
        assert_eq!(pinned().gpus(&[3], gpus, Some(2)), 0b1_1000);
        assert_eq!(pinned().gpus(&[3], gpus, Some(4)), 0b1_1110);
        assert_eq!(pinned().gpus(&[3], gpus, Some(9)), 0b1_1111);
        assert_eq!(pinned().gpus(&[3], gpus, Some(0)), 0);
    }
}
