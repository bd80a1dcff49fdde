//! Home peers of functions. A function's tasks go to its home while a worker there is idle, so that few peers have what
//! the function loads and keeps between calls. Load has precedence: no task waits for its home while another peer is
//! idle.

use gristmill_wire::{ContextId, FunctionId};

/// Marker of a home that was not looked up yet.
const UNKNOWN: u16 = u16::MAX;

/// Factor that gives contexts with low numbers other homes than functions with low numbers.
const CONTEXT_SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Home peers of functions among a number of peers.
#[derive(Debug, Default)]
pub(crate) struct FunctionAffinity {
    places: usize,
    peers: Vec<u16>,
}

impl FunctionAffinity {
    /// Returns the home of a function among the first `places` peers. Few functions move when there are more peers.
    #[inline]
    pub fn find(&mut self, function: FunctionId, places: usize) -> usize {
        let known = self.peers.get(function.0 as usize).filter(|_| self.places == places);
        match known {
            Some(&home) if home != UNKNOWN => usize::from(home),
            _ => self.look_up(function, places),
        }
    }

    /// Returns the home of a context. All functions that run in the context have this home.
    pub fn find_context(&self, context: ContextId, places: usize) -> usize {
        bucket(u64::from(context.0).wrapping_mul(CONTEXT_SPREAD), places)
    }

    #[cold]
    fn look_up(&mut self, function: FunctionId, places: usize) -> usize {
        if self.places != places {
            self.places = places;
            self.peers.clear();
        }
        let index = function.0 as usize;
        if self.peers.len() <= index {
            self.peers.resize(index + 1, UNKNOWN);
        }
        let home = bucket(u64::from(function.0), places);
        self.peers[index] = u16::try_from(home).unwrap_or(UNKNOWN);
        home
    }
}

/// Returns the bucket of a key. All of the `count` buckets are equally likely. If one bucket is added, a key keeps
/// its bucket or moves to the new one.
///
/// Source: Lamping & Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm".
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of workers are small"
)]
fn bucket(key: u64, count: usize) -> usize {
    let (mut state, mut last, mut next) = (key, 0, 0);
    while next < count {
        last = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let share = ((state >> 33) + 1) as f64 / (1u64 << 31) as f64;
        next = ((last + 1) as f64 / share) as usize;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_spread_over_all_places() {
        let mut counts = [0; 8];
        (0..8000).for_each(|key| counts[bucket(key, 8)] += 1);
        assert!(counts.iter().all(|&count| (800..1200).contains(&count)), "{counts:?}");
    }

    #[test]
    fn one_more_place_moves_only_those_that_go_there() {
        let (mut peers, mut moved) = (FunctionAffinity::default(), 0);
        let before: Vec<usize> = (0..1000).map(|id| peers.find(FunctionId(id), 9)).collect();
        for (id, &was) in (0..1000).zip(&before) {
            let home = peers.find(FunctionId(id), 10);
            assert!(home == was || home == 9);
            moved += u32::from(home != was);
        }
        assert!((50..150).contains(&moved), "{moved} of a thousand");
    }
}
