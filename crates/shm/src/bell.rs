//! The doorbell: a futex word that is also the flag that says somebody sleeps on it.

use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy, light};
use gristmill_sync::futex::{Woken, Word};
use std::time::Duration;

/// 1 while its one sleeper sleeps or is about to.
const ASLEEP: u32 = 1;
const AWAKE: u32 = 0;

/// How long a sleeper may sleep whose heavy barrier failed: nobody is sure to see its flag.
const UNSURE_SLEEP: Duration = Duration::from_millis(1);

/// Wakes one sleeper, at the cost of one plain load while it is awake. Lives in place, in shared
/// memory too; a word of 0 is a bell whose sleeper is awake.
///
/// At most one thread sleeps on it; any number may ring. One that is killed or stopped between
/// clearing the flag and its wake keeps the others from ringing: whoever learns of that death or stop
/// wakes the sleeper by [`Bell::wake`], and a sleeper among several ringers bounds its sleep.
#[derive(Debug)]
#[cfg_attr(not(gristmill_loom), repr(transparent))]
pub struct Bell(Word);

impl Default for Bell {
    fn default() -> Self {
        Self(Word::new(AWAKE))
    }
}

impl Bell {
    /// Sleeps until somebody rings, unless `still_empty` finds something after the flag is up.
    ///
    /// `still_empty` re-reads *everything* that the sleeper waits for: all its rings, and the tails
    /// when it waits for room. Spurious returns are normal; the caller looks and calls again.
    pub fn sleep(
        &self,
        mode: BarrierMode,
        mut still_empty: impl FnMut() -> bool,
        timeout: Option<Duration>,
    ) -> Woken {
        self.0.store(ASLEEP, Ordering::Relaxed);
        // PAIRS: doorbell (the light barrier of `ring`)
        let limit = match heavy(mode) {
            HeavyBarrier::Done => timeout,
            HeavyBarrier::Failed => Some(timeout.map_or(UNSURE_SLEEP, |t| t.min(UNSURE_SLEEP))),
        };
        let woken = if still_empty() { self.0.wait(ASLEEP, limit) } else { Woken::Changed };
        self.0.store(AWAKE, Ordering::Relaxed);
        woken
    }

    /// Wakes the sleeper if there is one; says whether it made the call that wakes.
    ///
    /// What the sleeper is to find is written before this.
    #[inline]
    pub fn ring(&self, mode: BarrierMode) -> bool {
        light(mode); // PAIRS: doorbell (the heavy barrier of `sleep`)
        if self.0.load(Ordering::Relaxed) != ASLEEP {
            return false;
        }
        self.wake();
        true
    }

    /// Wakes the sleeper whatever the flag says: for news that come another way than through a ring.
    #[cold]
    pub fn wake(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
        self.0.wake(1);
    }

    /// Whether its sleeper sleeps, at a glance: for placement, not for correctness.
    #[inline]
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASLEEP
    }

    /// Forgets a sleeper that died asleep.
    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_sleeps_past_something_to_do() {
        let bell = Bell::default();
        assert_eq!(bell.sleep(BarrierMode::Fence, || false, None), Woken::Changed);
        assert!(!bell.ring(BarrierMode::Fence), "an awake sleeper costs no call");
    }

    #[test]
    fn a_ring_after_the_flag_is_up_is_not_lost() {
        let bell = Bell::default();
        let woken = bell.sleep(BarrierMode::Fence, || bell.ring(BarrierMode::Fence), None);
        assert_eq!(woken, Woken::Changed);
    }
}
