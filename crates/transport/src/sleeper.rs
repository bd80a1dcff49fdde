//! A set of descriptors on which one thread sleeps until a descriptor is ready or another thread wakes it.
//!
//! Level triggered: a descriptor that is ready and was not handled ends the next sleep as well.
//!
//! # Waking
//! A word holds the state of the sleeper: *awake*, *asleep*, or *called*. A waker sets *called*, and writes to an event
//! descriptor only if the word was *asleep*. So waking a sleeper that is awake, or called already, costs one atomic exchange.
//! The sleeper sets *asleep* only if the word is *awake*. It therefore sees a call before that at once, and a call after it
//! through the descriptor: no call is lost. A write may come late, after the sleeper rose for another reason; it ends the next
//! sleep without need. Only the event descriptor is edge triggered: each write ends one sleep, and no thread has to read it. So
//! only one thread at a time may sleep.

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

/// The token of the event descriptor; no other descriptor may have it.
const OWN_TOKEN: u64 = u64::MAX;
/// The largest number of descriptors reported by one sleep; the next sleep reports the rest.
const READY_COUNT_MAX: usize = 256;

/// The events that a descriptor is watched for. If the other end is gone, both are reported, whatever was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// The descriptor can be read.
    Readable,
    /// The descriptor can be written.
    Writable,
    /// Either event.
    Both,
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token under which the descriptor is watched.
    pub token: u64,
    /// True if the descriptor can be read, or is at its end.
    pub is_readable: bool,
    /// True if the descriptor can be written, or is at its end.
    pub is_writable: bool,
}

/// The reason why a sleep ended. If several reasons hold, the first one in this order is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum WakeReason {
    /// A waker called. Descriptors may be ready as well.
    Called,
    /// At least one descriptor is ready.
    Ready,
    /// The time limit has passed.
    TimedOut,
    /// A signal handler ran in this thread.
    Interrupted,
}

/// A set of descriptors that one thread sleeps on.
pub struct Sleeper {
    set: OwnedFd,
    bell: Arc<Bell>,
}

/// A handle that wakes a sleeper from any thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    state: AtomicU32,
    event: OwnedFd,
}

impl Bell {
    fn ring(&self) {
        // PAIRS: sleeper called (the sleeper's exchange and swap): the sleeper sees all that the caller did before.
        if self.state.swap(CALLED, Ordering::AcqRel) == ASLEEP {
            // The write fails only if the counter is full, and then the sleeper wakes anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

impl Sleeper {
    /// Creates a sleeper that watches nothing.
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

    /// Watches a descriptor under a token, or changes the events it is watched for. Closing a descriptor ends the watch.
    ///
    /// # Errors
    /// The descriptor is of a kind that is always ready (a file), or the system has no room.
    ///
    /// # Panics
    /// If the token is `u64::MAX`.
    pub fn watch(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        assert!(token != OWN_TOKEN, "the token is the sleeper's own");
        let data = epoll::EventData::new_u64(token);
        match epoll::modify(&self.set, &descriptor, data, interest.flags()) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.set, &descriptor, data, interest.flags())?),
            done => Ok(done?),
        }
    }

    /// Ends the watch of a descriptor; does nothing if it is not watched.
    ///
    /// # Errors
    /// The descriptor is not open.
    pub fn unwatch(&self, descriptor: impl AsFd) -> io::Result<()> {
        match epoll::delete(&self.set, descriptor) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Returns true if a descriptor would end a sleep at once. Any thread may call this. It does not consider calls, which only
    /// the sleeper checks.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut set = [rustix::event::PollFd::new(&self.set, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    /// Returns true if a waker called since the last sleep, or since the last [`Self::forget_calls`]. Only the sleeper may call
    /// this.
    #[must_use]
    pub fn is_called(&self) -> bool {
        // PAIRS: sleeper called (none is needed): the sleep that follows sees what the caller did.
        self.bell.state.load(Ordering::Relaxed) == CALLED
    }

    /// Forgets the calls since the last sleep. The sleeper must be about to sleep, and must have checked everything since those
    /// calls.
    pub fn forget_calls(&self) {
        // PAIRS: sleeper called (the swap in `ring`): what the caller did is visible, or was done under a lock that this thread
        // holds.
        let _ =
            self.bell.state.compare_exchange(CALLED, AWAKE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the event descriptor. A number that another process writes to it ends the current sleep, or the next one at
    /// once.
    #[must_use]
    pub fn event(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }

    /// Returns a handle that wakes this sleeper from other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.bell))
    }

    /// Sleeps until a descriptor is ready, a waker has called since the last sleep, or the limit has passed (rounded up to
    /// whole milliseconds; zero only checks). Replaces the content of `ready` with the descriptors that are ready.
    ///
    /// # Errors
    /// None in a correct program.
    pub fn sleep(&self, ready: &mut Vec<Ready>, limit: Option<Duration>) -> io::Result<WakeReason> {
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
            Err(Errno::INTR) if !was_called => return Ok(WakeReason::Interrupted),
            Err(Errno::INTR) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let has_rung = Self::tell(&events, ready);
        Ok(match (was_called || has_rung, ready.is_empty()) {
            (true, _) => WakeReason::Called,
            (false, false) => WakeReason::Ready,
            (false, true) => WakeReason::TimedOut,
        })
    }

    fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        limit: Option<Duration>,
    ) -> rustix::io::Result<()> {
        // The limit is cut to a day, because the system's type cannot hold every duration.
        let limit = limit.map(|time| time.min(Duration::from_secs(24 * 60 * 60)));
        let limit = limit.and_then(|time| Timespec::try_from(time).ok());
        epoll::wait(&self.set, rustix::buffer::spare_capacity(events), limit.as_ref())?;
        Ok(())
    }

    /// Appends the ready descriptors to `ready`. Returns true if the event descriptor is ready.
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
    /// Ends the current sleep, or the next one at once.
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
