//! The worker's end of its standard error: a wait until the keeper has forwarded what was written there.

use std::io;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use gristmill_sync::atomic::{AtomicBool, Ordering};

use crate::descriptor::{FORWARD_SIGNAL, check};

/// Standard error.
const STDERR: libc::c_int = 2;
/// Time for which a worker only yields the CPU: the keeper usually wakes within it.
const YIELD_TIME: Duration = Duration::from_micros(300);
/// Time after which the worker asks the keeper to forward incomplete lines.
const ASK_TIME: Duration = Duration::from_micros(40);
/// Shortest and longest sleep between two looks.
const SLEEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(2)];
/// Longest wait. The keeper needs longer only if it is stopped, or if the program's stream takes no text.
const PATIENCE: Duration = Duration::from_millis(200);

/// The writing end of the pipe to the keeper, which is descriptor 2 of this process.
///
/// The keeper removes text from the pipe once the program's stream has it, so an empty pipe means that all is out.
#[derive(Debug)]
pub struct WorkerStderr {
    /// Device and inode of the pipe. A task may put another file in its place.
    identity: (libc::dev_t, libc::ino_t),
    keeper: libc::pid_t,
    /// True if a wait was in vain, and the pipe was not found empty since.
    is_stalled: AtomicBool,
}

impl WorkerStderr {
    /// Takes descriptor 2 of this worker. Returns `None` if it is no pipe.
    ///
    /// Call it in a child of the keeper.
    #[must_use]
    pub fn new() -> Option<Self> {
        let (kind, identity) = identity()?;
        // SAFETY: the call has no arguments.
        let keeper = unsafe { libc::getppid() };
        let this = Self { identity, keeper, is_stalled: AtomicBool::new(false) };
        (kind == libc::S_IFIFO).then_some(this)
    }

    /// Returns whether there is nothing to wait for: all text that this process and its programs have written to standard
    /// error has reached the program's stream, or a wait was in vain and the stream has taken nothing since. Costs one
    /// system call.
    #[inline]
    pub fn is_settled(&self) -> bool {
        // Relaxed without a partner: the flag only saves time, and no data is published with it.
        let is_forwarded = self.is_forwarded();
        if is_forwarded {
            self.is_stalled.store(false, Ordering::Relaxed);
        }
        is_forwarded || self.is_stalled.load(Ordering::Relaxed)
    }

    /// Returns once [`Self::is_settled`] is true, which takes a fifth of a second at most.
    #[cold]
    pub fn wait(&self) {
        if !self.is_settled() && !self.wait_patiently() {
            self.is_stalled.store(true, Ordering::Relaxed); // as above
        }
    }

    /// Returns false if the text is still on its way after [`PATIENCE`].
    fn wait_patiently(&self) -> bool {
        let begun = Instant::now();
        let [mut sleep, longest] = SLEEPS;
        let mut has_asked = false;
        while !self.is_forwarded() {
            let waited = begun.elapsed();
            if waited >= PATIENCE {
                return false;
            }
            if waited < YIELD_TIME {
                if waited >= ASK_TIME && !has_asked {
                    self.ask();
                    has_asked = true;
                }
                thread::yield_now();
            } else {
                // Again, because the signals of several workers may count as one, and the keeper reads long text in parts.
                self.ask();
                thread::sleep(sleep);
                sleep = longest.min(sleep * 2);
            }
        }
        true
    }

    /// Asks the keeper to forward incomplete lines.
    fn ask(&self) {
        if self.keeper > 1 {
            // SAFETY: a plain call with integers.
            unsafe { libc::kill(self.keeper, FORWARD_SIGNAL) };
        }
    }

    #[inline]
    fn is_forwarded(&self) -> bool {
        let mut count: libc::c_int = 0;
        // SAFETY: the request writes one integer to the pointer.
        let asked = unsafe { libc::ioctl(STDERR, libc::FIONREAD, &raw mut count) };
        asked < 0 || count == 0 || !self.is_in_place()
    }

    /// Returns whether descriptor 2 still is the pipe.
    #[cold]
    fn is_in_place(&self) -> bool {
        identity().is_some_and(|(_, identity)| identity == self.identity)
    }
}

/// Returns the kind of the file that is descriptor 2, and its device and inode.
fn identity() -> Option<(libc::mode_t, (libc::dev_t, libc::ino_t))> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call fills in the structure, which outlives it.
    let found: io::Result<_> = check(unsafe { libc::fstat(STDERR, status.as_mut_ptr()) });
    found.ok()?;
    // SAFETY: the call has succeeded, so it has written the structure.
    let status = unsafe { status.assume_init() };
    Some((status.st_mode & libc::S_IFMT, (status.st_dev, status.st_ino)))
}
