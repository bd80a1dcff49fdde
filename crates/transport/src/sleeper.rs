//! Sleeps until a descriptor is ready, or somebody calls.
//!
//! Level triggered: what is ready and was not attended to wakes the next sleep as well.
//!
//! # Waking
//! A word says what the sleeper does: *awake*, *asleep*, or *called*. Who calls sets *called*, and writes to an event
//! descriptor only where the word said *asleep*: calling somebody who is awake, or called already, is one atomic exchange.
//! The sleeper sets *asleep* only where the word says *awake*, so that a call before that is seen at once and one after it
//! comes through the descriptor: none is lost. A write that comes late, after the sleeper rose for another reason, wakes
//! the next sleep for nothing. The descriptor alone is edge triggered: each write ends one sleep, and nobody has to read it.
//! So only one thread at a time may sleep.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gristmill_sync::atomic::{AtomicU32, Ordering};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const CALLED: u32 = 2;

/// The token of the event descriptor; no other may have it.
const OWN_TOKEN: u64 = u64::MAX;
/// Told in one sleep at most; the rest is told in the next one.
const READY_COUNT_MAX: usize = 256;

/// What a descriptor is watched for. That the other end is gone is told as both, whatever was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read.
    Readable,
    /// Something can be written.
    Writable,
    /// Either.
    Both,
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What it was watched as.
    pub token: u64,
    /// It can be read, or is at its end.
    pub is_readable: bool,
    /// It can be written, or is at its end.
    pub is_writable: bool,
}

/// Why a sleep ended. Several reasons may hold; the first one here that does is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// Somebody called. Descriptors may be ready as well.
    Called,
    /// At least one descriptor is ready.
    Ready,
    /// The time was up.
    TimedOut,
    /// A signal handler ran in this thread.
    Interrupted,
}

/// A set of descriptors that one thread sleeps on.
pub struct Sleeper {
    set: OwnedFd,
    bell: Arc<Bell>,
}

/// Wakes a sleeper from any thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    state: AtomicU32,
    event: OwnedFd,
}

impl Bell {
    fn ring(&self) {
        // PAIRS: sleeper called (the sleeper's exchange and swap): what the caller did before is seen by the sleeper.
        if self.state.swap(CALLED, Ordering::AcqRel) == ASLEEP {
            // It fails only where the counter is full, and then the sleeper wakes anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

impl Sleeper {
    /// With nothing to watch.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let data = epoll::EventData::new_u64(OWN_TOKEN);
        epoll::add(&set, &event, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        let bell = Arc::new(Bell { state: AtomicU32::new(AWAKE), event });
        Ok(Self { set, bell })
    }

    /// Watches a descriptor under a token, or changes what it is watched for. A closed descriptor is watched no longer.
    ///
    /// # Errors
    /// The descriptor is of a kind that is always ready (a file), or the system has no room.
    ///
    /// # Panics
    /// The token is `u64::MAX`.
    pub fn watch(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        assert!(token != OWN_TOKEN, "the token is the sleeper's own");
        let data = epoll::EventData::new_u64(token);
        match epoll::modify(&self.set, &descriptor, data, interest.flags()) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.set, &descriptor, data, interest.flags())?),
            done => Ok(done?),
        }
    }

    /// Watches a descriptor no longer; nothing happens where it was not watched.
    ///
    /// # Errors
    /// It is no open descriptor.
    pub fn unwatch(&self, descriptor: impl AsFd) -> io::Result<()> {
        match epoll::delete(&self.set, descriptor) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Whether a sleep would end at once for a descriptor. Any thread may ask; that somebody called is for the sleeper.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut set = [rustix::event::PollFd::new(&self.set, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    /// Whether somebody called since the last sleep, or since that was forgotten. Only the sleeper asks.
    #[must_use]
    pub fn is_called(&self) -> bool {
        // PAIRS: sleeper called (none is needed): the sleep that follows sees what the caller did.
        self.bell.state.load(Ordering::Relaxed) == CALLED
    }

    /// Forgets who called since the last sleep: the sleeper is about to sleep and has looked at everything since.
    pub fn forget_calls(&self) {
        // PAIRS: sleeper called (the swap in `ring`): what the caller did is seen, or was under a lock that is held.
        let _ =
            self.bell.state.compare_exchange(CALLED, AWAKE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What other processes write a number to, as an event descriptor takes it, to end the sleep that is going on, or the
    /// next one at once.
    #[must_use]
    pub fn event(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }

    /// What wakes it from other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.bell))
    }

    /// Sleeps until a descriptor is ready, somebody has called since the last sleep, or the limit has passed (rounded up
    /// to whole milliseconds; zero: only looks). What is ready is in the place of what `ready` held.
    ///
    /// # Errors
    /// None that a correct program sees.
    pub fn sleep(&self, ready: &mut Vec<Ready>, limit: Option<Duration>) -> io::Result<Rest> {
        ready.clear();
        // PAIRS: sleeper called (the swap in `ring`)
        let state = &self.bell.state;
        let laid_down =
            state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        let limit = if laid_down { limit } else { Some(Duration::ZERO) };
        let mut events = Vec::with_capacity(READY_COUNT_MAX);
        let waited = self.wait(&mut events, limit);
        // PAIRS: sleeper called (the swap in `ring`)
        let was_called = self.bell.state.swap(AWAKE, Ordering::AcqRel) == CALLED;
        match waited {
            Err(Errno::INTR) if !was_called => return Ok(Rest::Interrupted),
            Err(Errno::INTR) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let has_rung = Self::tell(&events, ready);
        Ok(match (was_called || has_rung, ready.is_empty()) {
            (true, _) => Rest::Called,
            (false, false) => Rest::Ready,
            (false, true) => Rest::TimedOut,
        })
    }

    fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        limit: Option<Duration>,
    ) -> rustix::io::Result<()> {
        // A day is as good as a time that the system's type cannot hold.
        let limit = limit.map(|time| time.min(Duration::from_secs(24 * 60 * 60)));
        let limit = limit.and_then(|time| Timespec::try_from(time).ok());
        epoll::wait(&self.set, rustix::buffer::spare_capacity(events), limit.as_ref())?;
        Ok(())
    }

    /// Says what is ready; `true`: the event descriptor is.
    fn tell(events: &[epoll::Event], ready: &mut Vec<Ready>) -> bool {
        let mut has_rung = false;
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == OWN_TOKEN {
                has_rung = true;
                continue;
            }
            let is_over = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            let is_readable = is_over || flags.contains(epoll::EventFlags::IN);
            let is_writable = is_over || flags.contains(epoll::EventFlags::OUT);
            ready.push(Ready { token, is_readable, is_writable });
        }
        has_rung
    }
}

impl Waker {
    /// Ends the sleep that is going on, or the next one at once.
    pub fn wake(&self) {
        self.0.ring();
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sleeper").field("set", &self.set).finish_non_exhaustive()
    }
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Readable => epoll::EventFlags::IN,
            Self::Writable => epoll::EventFlags::OUT,
            Self::Both => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}
