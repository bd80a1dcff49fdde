//! The token for completing tasks, which passes between waiting callers and the attendant.
//!
//! At most one thread, the *leader*, sleeps on the client's bell. Every other waiting thread sleeps on a condition of its own,
//! and the thread that completes its task wakes it. Each leader passes the token on when it stops leading: to a waiting caller,
//! else to the attendant if work is left. The client's one mutex guards all of this; see `README.md`.

/// The thread that sleeps on the bell, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leader {
    /// No thread: an arrival waits for the next caller, or for the attendant if it was woken for work.
    #[default]
    Absent,
    /// A thread that waits for a task.
    Caller,
    /// The attendant.
    Attendant,
}

/// The thread that gets the token next.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOver {
    /// Wake one waiting caller: it will lead.
    Caller,
    /// Wake the attendant.
    Attendant,
    /// No thread: no work is left, or an awake thread will do it.
    NoThread,
}

/// The token, and the state of the threads that may take it.
#[derive(Debug, Default)]
pub struct Lead {
    leader: Leader,
    /// Number of callers that sleep on conditions of their own.
    waiting: usize,
    /// True if the attendant is parked: it sleeps until it is woken for work.
    is_parked: bool,
    /// True if a thread completed tasks since the attendant last looked.
    attended: bool,
    /// True if no thread completed tasks since the last nap began.
    is_nap_idle: bool,
}

impl Lead {
    /// Takes the token if no thread has it.
    #[must_use]
    pub fn try_take(&mut self, leader: Leader) -> bool {
        if self.leader != Leader::Absent {
            return false;
        }
        self.leader = leader;
        true
    }

    /// Gives the token up, and returns the thread to wake.
    pub fn give_up(&mut self, has_obligations: bool) -> HandOver {
        self.leader = Leader::Absent;
        if self.waiting > 0 {
            HandOver::Caller
        } else if has_obligations && self.is_parked {
            self.is_parked = false;
            HandOver::Attendant
        } else {
            HandOver::NoThread
        }
    }

    /// Returns the holder of the token.
    #[inline]
    #[must_use]
    pub const fn leader(&self) -> Leader {
        self.leader
    }

    /// Records that a caller goes to sleep on its own condition.
    pub fn begin_wait(&mut self) {
        self.waiting += 1;
    }

    /// Records that such a caller woke.
    pub fn end_wait(&mut self) {
        self.waiting -= 1;
    }

    /// Records that a thread completed tasks: the attendant need not hurry.
    #[inline]
    pub const fn note_attended(&mut self) {
        self.attended = true;
        self.is_nap_idle = false;
    }

    /// Records that the leader begins a nap.
    pub const fn begin_nap(&mut self) {
        self.is_nap_idle = true;
    }

    /// Returns true if nothing has come since the last nap began: tasks run longer than expected, and another nap would only wake
    /// the leader once more.
    #[must_use]
    pub const fn was_nap_idle(&self) -> bool {
        self.is_nap_idle
    }

    /// Returns true if a thread completed tasks since the last call.
    pub fn take_attended(&mut self) -> bool {
        std::mem::take(&mut self.attended)
    }

    /// Records that the attendant goes to sleep until it is woken for work.
    pub fn park(&mut self) {
        self.is_parked = true;
    }

    /// Returns true if the attendant is parked.
    #[inline]
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Returns true if the attendant has to be woken for new work. While a caller leads, the attendant stays parked, and
    /// recorded as parked: that caller passes the token on.
    #[must_use]
    pub fn summon(&mut self) -> bool {
        self.leader != Leader::Caller && std::mem::take(&mut self.is_parked)
    }
}
