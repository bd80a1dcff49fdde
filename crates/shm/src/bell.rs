//! The doorbell: a futex word that is also the flag that says somebody sleeps, on it or elsewhere.

use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy, light};
use gristmill_sync::futex::{Woken, Word};
use std::time::Duration;

const AWAKE: u32 = 0;
/// Its one sleeper sleeps on the word, or is about to.
const ASLEEP: u32 = 1;
/// It sleeps on what else wakes it too, or is about to: whoever rings knows how to reach it there.
const ELSEWHERE: u32 = 2;

/// How long a sleeper may sleep whose heavy barrier failed: nobody is sure to see its flag.
const UNSURE_SLEEP: Duration = Duration::from_millis(1);

/// Wakes one sleeper, at the cost of one plain load while it is awake. Lives in place, in shared
/// memory too; a word of 0 is a bell whose sleeper is awake.
///
/// At most one thread sleeps on it; any number may ring. One that is killed or stopped between
/// clearing the flag and its wake keeps the others from ringing: whoever learns of that death or stop
/// wakes the sleeper by [`Bell::wake`], and a sleeper among several ringers bounds its sleep.
///
/// A bell is slept on in one way only, always by [`Bell::sleep`] or always by [`Bell::sleep_elsewhere`]: who rings clears
/// the flag for a sleeper that may have risen and lain down since, and must wake it where it is.
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
        let limit = self.lie_down(ASLEEP, mode, timeout);
        let woken = if still_empty() { self.0.wait(ASLEEP, limit) } else { Woken::Changed };
        self.0.store(AWAKE, Ordering::Relaxed);
        woken
    }

    /// As [`Bell::sleep`], but `sleep` is what sleeps, at most for the time that it is given, until an event that
    /// [`Bell::ring_with`] sets or what else it waits for. `None`: it was not called, there was something to do.
    pub fn sleep_elsewhere<T>(
        &self,
        mode: BarrierMode,
        still_empty: impl FnOnce() -> bool,
        timeout: Option<Duration>,
        sleep: impl FnOnce(Option<Duration>) -> T,
    ) -> Option<T> {
        let limit = self.lie_down(ELSEWHERE, mode, timeout);
        let woken = still_empty().then(|| sleep(limit));
        self.0.store(AWAKE, Ordering::Relaxed);
        woken
    }

    /// Raises the flag; gives for how long it can be relied on.
    fn lie_down(
        &self,
        flag: u32,
        mode: BarrierMode,
        timeout: Option<Duration>,
    ) -> Option<Duration> {
        self.0.store(flag, Ordering::Relaxed);
        // PAIRS: doorbell (the light barrier of `ring_with`)
        match heavy(mode) {
            HeavyBarrier::Done => timeout,
            HeavyBarrier::Failed => Some(timeout.map_or(UNSURE_SLEEP, |t| t.min(UNSURE_SLEEP))),
        }
    }

    /// Wakes the sleeper if there is one; says whether it made the call that wakes.
    ///
    /// What the sleeper is to find is written before this.
    #[inline]
    pub fn ring(&self, mode: BarrierMode) -> bool {
        self.ring_with(mode, || ())
    }

    /// As [`Bell::ring`]; a sleeper elsewhere is woken by `set_event`.
    #[inline]
    pub fn ring_with(&self, mode: BarrierMode, set_event: impl FnOnce()) -> bool {
        light(mode); // PAIRS: doorbell (the heavy barrier of `lie_down`)
        match self.0.load(Ordering::Relaxed) {
            ASLEEP => self.wake(),
            ELSEWHERE => {
                self.0.store(AWAKE, Ordering::Relaxed);
                set_event();
            }
            _ => return false,
        }
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
        self.0.load(Ordering::Relaxed) != AWAKE
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

    #[test]
    fn a_sleeper_elsewhere_is_woken_there_and_once() {
        let (bell, mode) = (Bell::default(), BarrierMode::Fence);
        let mut sets = 0;
        let woken = bell.sleep_elsewhere(
            mode,
            || true,
            None,
            |_| {
                assert!(bell.is_asleep());
                [0, 1].map(|_| bell.ring_with(mode, || sets += 1))
            },
        );
        assert_eq!((woken, sets), (Some([true, false]), 1));
        assert_eq!(bell.sleep_elsewhere(mode, || false, None, |_| ()), None, "there is work");
        assert!(!bell.is_asleep());
    }
}
