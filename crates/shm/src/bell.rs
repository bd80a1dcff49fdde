//! The doorbell: a futex word that is also the flag that its sleeper sleeps, on the word or elsewhere.

use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy, light};
use gristmill_sync::futex::{Woken, Word};
use std::time::Duration;

const AWAKE: u32 = 0;
/// The sleeper sleeps on the word, or is about to.
const ASLEEP: u32 = 1;
/// The sleeper sleeps on an event that other sources set too, or is about to. The thread that rings sets that event.
const ELSEWHERE: u32 = 2;

/// Maximum sleep after a failed heavy barrier: another thread may not see the flag then.
const UNSURE_SLEEP: Duration = Duration::from_millis(1);

/// A doorbell that wakes one sleeper. Ringing costs one plain load while the sleeper is awake. It lives in place, in
/// shared memory too; a word of 0 is a bell whose sleeper is awake.
///
/// At most one thread sleeps on a bell; any number may ring it. A ringer that is killed or stopped after it cleared the
/// flag and before its wake keeps the other ringers from waking the sleeper. The process that learns of that death or
/// stop therefore calls [`Bell::wake`], and a sleeper with several ringers bounds its sleep.
///
/// All sleeps on one bell use the same method, [`Bell::sleep`] or [`Bell::sleep_elsewhere`]. A ringer may clear the
/// flag after its sleeper has risen and fallen asleep again, and must still wake it by the right means.
#[derive(Debug)]
#[cfg_attr(not(gristmill_loom), repr(transparent))]
pub struct Bell(Word);

impl Default for Bell {
    fn default() -> Self {
        Self(Word::new(AWAKE))
    }
}

impl Bell {
    /// Sleeps until the bell rings, unless `still_empty` returns false after the flag is raised.
    ///
    /// `still_empty` re-reads *everything* that the sleeper waits for: all its rings, and the tails if it waits for
    /// room. Spurious returns are normal; the caller checks and calls again.
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

    /// Sleeps like [`Bell::sleep`], but by calling `sleep` with the maximum duration. `sleep` returns when the event is
    /// set that [`Bell::ring_with`] sets, or when another source wakes it. Returns `None` if there was work to do and
    /// `sleep` was not called.
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

    /// Raises the flag. Returns the time for which the flag can be relied on.
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

    /// Wakes the sleeper if there is one. Returns true if it made the system call that wakes.
    ///
    /// The caller writes what the sleeper waits for before it rings.
    #[inline]
    pub fn ring(&self, mode: BarrierMode) -> bool {
        self.ring_with(mode, || ())
    }

    /// Rings like [`Bell::ring`]; `set_event` wakes a sleeper that sleeps elsewhere.
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

    /// Wakes the sleeper regardless of the flag, for events that do not come through a ring.
    #[cold]
    pub fn wake(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
        self.0.wake(1);
    }

    /// Returns true if the sleeper was asleep at the time of the load. Good enough for placement, not for correctness.
    #[inline]
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) != AWAKE
    }

    /// Clears the flag of a sleeper that died asleep.
    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_thread_sleeps_past_something_to_do() {
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
