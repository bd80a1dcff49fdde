//! What a client sleeps on that waits for connections too: a descriptor that its workers write to.

use super::SegmentError;
use crate::bell::Bell;
use gristmill_sync::barrier::BarrierMode;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// An event descriptor, which a write makes ready to read. Clones share it.
#[derive(Debug, Clone)]
pub struct Event(Arc<File>);

impl Event {
    /// A descriptor for one, which children inherit only where they are given it.
    ///
    /// # Errors
    /// [`SegmentError::Create`]: the system has no descriptors left.
    pub fn create() -> Result<OwnedFd, SegmentError> {
        // SAFETY: the call takes no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(SegmentError::Create { source: std::io::Error::last_os_error() });
        }
        // SAFETY: the call just returned it, so it is open and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Ends the sleep of whoever sleeps on it.
    #[cold]
    pub fn set(&self) {
        // It fails only where the counter is full, which takes longer to fill than anything runs.
        let _ = (&*self.0).write(&1_u64.to_ne_bytes());
    }
}

impl From<OwnedFd> for Event {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Arc::new(descriptor.into()))
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A client's bell as its workers ring it, wherever the client sleeps.
#[derive(Debug, Clone, Copy)]
pub struct ClientBell<'a> {
    pub(super) bell: &'a Bell,
    pub(super) event: Option<&'a Event>,
}

impl ClientBell<'_> {
    fn set_event(self) {
        if let Some(event) = self.event {
            event.set();
        }
    }

    /// As [`Bell::ring`].
    #[inline]
    pub fn ring(self, mode: BarrierMode) -> bool {
        self.bell.ring_with(mode, || self.set_event())
    }

    /// As [`Bell::wake`].
    #[cold]
    pub fn wake(self) {
        self.bell.wake();
        self.set_event();
    }

    /// As [`Bell::is_asleep`].
    #[inline]
    #[must_use]
    pub fn is_asleep(self) -> bool {
        self.bell.is_asleep()
    }
}
