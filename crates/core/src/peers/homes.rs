//! Where functions are at home: each has a peer where it goes while a worker there has nothing to do, so that what it
//! loads, and keeps between calls, is in few places. Load comes first: nothing waits at home while another peer idles.

use gristmill_wire::{ContextId, FunctionId};

/// Not looked up yet.
const UNKNOWN: u16 = u16::MAX;

/// Has contexts of low numbers have other homes than functions of low numbers.
const CONTEXT_SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The homes of functions among so many places.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    places: usize,
    homes: Vec<u16>,
}

impl Homes {
    /// The place where a function is at home, among the first `places`; few functions move when there are more.
    #[inline]
    pub fn find(&mut self, function: FunctionId, places: usize) -> usize {
        let known = self.homes.get(function.0 as usize).filter(|_| self.places == places);
        match known {
            Some(&home) if home != UNKNOWN => usize::from(home),
            _ => self.look_up(function, places),
        }
    }

    /// The place where a context is at home: all functions that run in it are there.
    pub fn find_context(&self, context: ContextId, places: usize) -> usize {
        bucket(u64::from(context.0).wrapping_mul(CONTEXT_SPREAD), places)
    }

    #[cold]
    fn look_up(&mut self, function: FunctionId, places: usize) -> usize {
        if self.places != places {
            self.places = places;
            self.homes.clear();
        }
        let index = function.0 as usize;
        if self.homes.len() <= index {
            self.homes.resize(index + 1, UNKNOWN);
        }
        let home = bucket(u64::from(function.0), places);
        self.homes[index] = u16::try_from(home).unwrap_or(UNKNOWN);
        home
    }
}

/// The bucket of a key: of `count` of them all are as likely, and of `count + 1` a key has another one only if it is the
/// last (Lamping and Veach: A fast, minimal memory, consistent hash algorithm).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of places are small"
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
        let (mut homes, mut moved) = (Homes::default(), 0);
        let before: Vec<usize> = (0..1000).map(|id| homes.find(FunctionId(id), 9)).collect();
        for (id, &was) in (0..1000).zip(&before) {
            let home = homes.find(FunctionId(id), 10);
            assert!(home == was || home == 9);
            moved += u32::from(home != was);
        }
        assert!((50..150).contains(&moved), "{moved} of a thousand");
    }
}
