//! A 32-bit word to sleep on, shared by processes.
//!
//! Under loom a word carries a mutex and a condition variable instead of the kernel's queue. Like the kernel, they
//! compare and queue in one step with respect to a wake; the protocols rely on nothing else.

use crate::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The reason why a sleep ended. Any of them may be spurious: the sleeper checks its condition again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Another thread or process woke it.
    Notified,
    /// The time ran out.
    TimedOut,
    /// A signal handler ran in this thread.
    Interrupted,
    /// It did not sleep: the word did not hold the expected value. The bell in `shm` also returns this if there is work
    /// to do.
    Changed,
}

/// A word that threads of several processes can sleep on.
#[derive(Debug)]
#[cfg_attr(not(gristmill_loom), repr(transparent))]
pub struct Word {
    value: AtomicU32,
    #[cfg(gristmill_loom)]
    queue: model::Queue,
}

impl Word {
    /// Creates a word outside shared memory.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self {
            value: AtomicU32::new(value),
            #[cfg(gristmill_loom)]
            queue: model::Queue::default(),
        }
    }

    /// Reads the word.
    #[inline]
    #[must_use]
    pub fn load(&self, order: Ordering) -> u32 {
        self.value.load(order)
    }

    /// Writes the word without waking a sleeper.
    #[inline]
    pub fn store(&self, value: u32, order: Ordering) {
        self.value.store(value, order);
    }

    /// Sleeps while the word holds `expected`, at most for `timeout`.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) -> Woken {
        #[cfg(gristmill_loom)]
        return self.queue.wait(&self.value, expected, timeout);
        #[cfg(not(gristmill_loom))]
        wait(&self.value, expected, timeout)
    }

    /// Wakes up to `count` sleepers.
    pub fn wake(&self, count: u32) {
        #[cfg(gristmill_loom)]
        self.queue.wake(count);
        #[cfg(not(gristmill_loom))]
        wake(&self.value, count);
    }
}

/// Sleeps while `word` holds `expected`, at most for `timeout`. Works across processes.
///
/// An unexpected error of the kernel counts as [`Woken::Changed`], so the caller checks its condition again.
#[cfg(all(target_os = "linux", not(gristmill_loom)))]
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Woken {
    let limit = timeout.map(|time| libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is a valid, aligned u32 for the whole call, and the limit is null or points to
    // a timespec that outlives it. FUTEX_WAIT reads both and writes neither.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, limit) };
    if result == 0 {
        return Woken::Notified;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ETIMEDOUT) => Woken::TimedOut,
        Some(libc::EINTR) => Woken::Interrupted,
        _ => Woken::Changed,
    }
}

/// Wakes up to `count` sleepers of `word`, in any process that maps it.
#[cfg(all(target_os = "linux", not(gristmill_loom)))]
pub fn wake(word: &AtomicU32, count: u32) {
    let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
    // SAFETY: FUTEX_WAKE uses the address as a key only; it reads and writes nothing there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
}

/// Sleeps for at most a millisecond: without futexes a sleeper polls. Engines do not start on such systems.
#[cfg(all(not(target_os = "linux"), not(gristmill_loom)))]
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Woken {
    if word.load(Ordering::Relaxed) != expected {
        return Woken::Changed;
    }
    let step = Duration::from_millis(1);
    std::thread::sleep(timeout.map_or(step, |time| time.min(step)));
    Woken::TimedOut
}

/// Does nothing: without futexes no sleep is longer than a millisecond.
#[cfg(all(not(target_os = "linux"), not(gristmill_loom)))]
pub fn wake(_word: &AtomicU32, _count: u32) {}

/// A model of the kernel's queue for loom.
#[cfg(gristmill_loom)]
mod model {
    use super::{AtomicU32, Duration, Ordering, Woken};
    use loom::sync::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Queue {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Queue {
        /// Waits for a wake. Time does not pass in a model, so a wait with a timeout ends at once.
        pub(super) fn wait(
            &self,
            value: &AtomicU32,
            expected: u32,
            limit: Option<Duration>,
        ) -> Woken {
            let guard = self.lock.lock().expect("a model never poisons its lock");
            // PAIRS: futex queue (the lock that `wake` takes after its caller's store)
            if value.load(Ordering::Relaxed) != expected {
                return Woken::Changed;
            }
            if limit.is_some() {
                return Woken::TimedOut;
            }
            drop(self.sleepers.wait(guard).expect("a model never poisons its lock"));
            Woken::Notified
        }

        pub(super) fn wake(&self, count: u32) {
            let _guard = self.lock.lock().expect("a model never poisons its lock");
            if count == 1 { self.sleepers.notify_one() } else { self.sleepers.notify_all() }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(gristmill_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_word_that_differs_is_not_slept_on() {
        assert_eq!(Word::new(7).wait(8, None), Woken::Changed);
    }

    #[test]
    fn a_timeout_ends_a_sleep() {
        assert_eq!(Word::new(7).wait(7, Some(Duration::from_nanos(1))), Woken::TimedOut);
    }

    #[test]
    fn a_wake_ends_a_sleep() {
        let word = Arc::new(Word::new(1));
        let sleeper = std::thread::spawn({
            let word = Arc::clone(&word);
            // PAIRS: word changed (the store below)
            move || {
                while word.load(Ordering::Acquire) == 1 {
                    word.wait(1, None);
                }
            }
        });
        word.store(0, Ordering::Release); // PAIRS: word changed (the sleeper's load)
        word.wake(1);
        sleeper.join().expect("the sleeper returns");
    }
}
