//! The event descriptor that a client sleeps on if it waits for connections too. Its workers write to it.

use super::SegmentError;
use crate::bell::Bell;
use gristmill_sync::barrier::BarrierMode;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// An event descriptor, which a write makes ready to read. Clones share it.
#[derive(Debug, Clone)]
pub struct EventFd(Arc<File>);

impl EventFd {
    /// Creates an event descriptor. It is closed on exec unless it is passed on.
    ///
    /// # Errors
    /// [`SegmentError::Create`]: the system has no descriptors left.
    pub fn create() -> Result<OwnedFd, SegmentError> {
        // SAFETY: the call takes no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(SegmentError::Create { source: std::io::Error::last_os_error() });
        }
        // SAFETY: the call just returned the descriptor, so it is open and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Wakes the sleepers of the event.
    #[cold]
    pub fn set(&self) {
        // It fails only if the counter is full, which takes longer to fill than any program runs.
        let _ = (&*self.0).write(&1_u64.to_ne_bytes());
    }
}

impl From<OwnedFd> for EventFd {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Arc::new(descriptor.into()))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A client's bell as its workers see it. It wakes the client on the bell or on the event.
#[derive(Debug, Clone, Copy)]
pub struct ClientBell<'a> {
    pub(super) bell: &'a Bell,
    pub(super) event: Option<&'a EventFd>,
}

impl ClientBell<'_> {
    fn set_event(self) {
        if let Some(event) = self.event {
            event.set();
        }
    }

    /// Rings like [`Bell::ring`].
    #[inline]
    pub fn ring(self, mode: BarrierMode) -> bool {
        self.bell.ring_with(mode, || self.set_event())
    }

    /// Wakes like [`Bell::wake`].
    #[cold]
    pub fn wake(self) {
        self.bell.wake();
        self.set_event();
    }

    /// Returns true if the client sleeps, like [`Bell::is_asleep`].
    #[inline]
    #[must_use]
    pub fn is_asleep(self) -> bool {
        self.bell.is_asleep()
    }
}
