//! Who completes tasks: the token that goes between waiting callers and the attendant.
//!
//! At most one thread, the *leader*, sleeps on the client's bell; whoever else waits sleeps on a condition of its own and
//! is told by whoever completes its task. Every path out of leading passes the token on: to a waiting caller, else to
//! the attendant if anything is left to do. All of this is guarded by the client's one mutex; see `README.md`.

/// Who sleeps on the bell, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leader {
    /// Nobody: what arrives waits for the next caller, or for the attendant if it was told that something is to do.
    #[default]
    Nobody,
    /// A thread that waits for a task.
    Caller,
    /// The attendant.
    Attendant,
}

/// To whom the token goes.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOver {
    /// Wake one waiting caller: it will lead.
    Caller,
    /// Wake the attendant.
    Attendant,
    /// Nothing is left to do.
    Nobody,
}

/// The token and what is known of those who may take it.
#[derive(Debug, Default)]
pub struct Lead {
    leader: Leader,
    /// Callers that sleep on conditions of their own.
    waiting: usize,
    /// The attendant sleeps without a time limit, until it is told.
    is_parked: bool,
    /// Somebody completed tasks since the attendant last looked.
    attended: bool,
}

impl Lead {
    /// Takes the token if nobody has it.
    pub fn try_take(&mut self, leader: Leader) -> bool {
        if self.leader != Leader::Nobody {
            return false;
        }
        self.leader = leader;
        true
    }

    /// Gives the token up; the answer says whom to wake.
    pub fn give_up(&mut self, has_obligations: bool) -> HandOver {
        self.leader = Leader::Nobody;
        if self.waiting > 0 {
            HandOver::Caller
        } else if has_obligations && self.is_parked {
            self.is_parked = false;
            HandOver::Attendant
        } else {
            HandOver::Nobody
        }
    }

    /// Who has the token.
    pub const fn leader(&self) -> Leader {
        self.leader
    }

    /// A caller goes to sleep on its own condition.
    pub fn begin_wait(&mut self) {
        self.waiting += 1;
    }

    /// It woke.
    pub fn end_wait(&mut self) {
        self.waiting -= 1;
    }

    /// Somebody completed tasks: the attendant need not hurry.
    pub fn note_attended(&mut self) {
        self.attended = true;
    }

    /// Whether somebody did since the last question.
    pub fn take_attended(&mut self) -> bool {
        std::mem::take(&mut self.attended)
    }

    /// The attendant goes to sleep until told.
    pub fn park(&mut self) {
        self.is_parked = true;
    }

    /// Whether the attendant sleeps until told.
    #[inline]
    pub const fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Something is to do: whether the attendant has to be woken for it. While a caller leads it stays parked, and known
    /// to be: that caller passes the token on.
    #[must_use]
    pub fn summon(&mut self) -> bool {
        self.leader != Leader::Caller && std::mem::take(&mut self.is_parked)
    }
}
