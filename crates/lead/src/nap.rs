//! The word on which a leader naps: a sleep by the clock that other threads can end.

use std::time::Duration;

use gristmill_sync::atomic::Ordering;
use gristmill_sync::futex::{Woken, Word};
use gristmill_sync::slack::ShortSlack;

const AWAKE: u32 = 0;
const NAPPING: u32 = 1;

/// One word for all leaders: only the thread with the token naps.
#[derive(Debug)]
pub struct NapWord(Word);

impl Default for NapWord {
    fn default() -> Self {
        Self(Word::new(AWAKE))
    }
}

impl NapWord {
    /// Announces a nap. The caller has the mutex, and has looked at all that it guards.
    pub fn begin(&self) {
        // PAIRS: client mutex (`end` comes after its caller had the mutex, so it reads this value or a later one)
        self.0.store(NAPPING, Ordering::Relaxed);
    }

    /// Naps for `limit`, without the mutex. Returns at once if the nap was ended already.
    pub fn sleep(&self, limit: Option<Duration>) -> Woken {
        let slack = ShortSlack::begin();
        let woken = self.0.wait(NAPPING, limit);
        drop(slack);
        // PAIRS: none: an `end` that misses this store ends the next nap early, or wakes no thread
        self.0.store(AWAKE, Ordering::Relaxed);
        woken
    }

    /// Ends the nap that a leader has begun. The caller has had the mutex since it changed what the leader must see.
    pub fn end(&self) {
        // PAIRS: client mutex (`begin`)
        if self.0.load(Ordering::Relaxed) == NAPPING {
            // PAIRS: futex queue (the kernel compares the word and queues the sleeper in one step)
            self.0.store(AWAKE, Ordering::Relaxed);
            self.0.wake(1);
        }
    }
}
