//! The slack of a thread's timers: how late the kernel may end a sleep, to end several at once.

/// Makes sleeps of this thread end within about a microsecond of their time, instead of 50, while it exists.
#[derive(Debug)]
pub struct ShortSlack {
    /// The slack before, nanoseconds; `None` if it was not changed.
    before: Option<libc::c_ulong>,
    /// The slack belongs to the thread.
    _stays_here: std::marker::PhantomData<*const ()>,
}

/// Slack of a precise sleep, nanoseconds.
#[cfg(target_os = "linux")]
const SHORT_NS: libc::c_ulong = 1_000;
/// An argument that a call does not use.
#[cfg(target_os = "linux")]
const NONE: libc::c_ulong = 0;

impl ShortSlack {
    /// Shortens the slack. Does nothing where the system has no slack, or where it is as short already.
    #[must_use]
    #[cfg(target_os = "linux")]
    pub fn begin() -> Self {
        // SAFETY: the call has no memory arguments.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, NONE, NONE, NONE, NONE) };
        let before = libc::c_ulong::try_from(before).ok().filter(|&before| before > SHORT_NS);
        if before.is_some() {
            set(SHORT_NS);
        }
        Self { before, _stays_here: std::marker::PhantomData }
    }

    /// Does nothing.
    #[must_use]
    #[cfg(not(target_os = "linux"))]
    pub const fn begin() -> Self {
        Self { before: None, _stays_here: std::marker::PhantomData }
    }
}

#[cfg(target_os = "linux")]
impl Drop for ShortSlack {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

#[cfg(target_os = "linux")]
fn set(slack_ns: libc::c_ulong) {
    // SAFETY: the call has no memory arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns, NONE, NONE, NONE) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn slack() -> libc::c_int {
        // SAFETY: the call has no memory arguments.
        unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, NONE, NONE, NONE, NONE) }
    }

    #[test]
    fn the_slack_of_the_program_comes_back() {
        set(70_000);
        let short = ShortSlack::begin();
        assert_eq!(slack(), 1_000);
        drop(short);
        assert_eq!(slack(), 70_000);
        set(1);
        let short = ShortSlack::begin();
        assert_eq!(slack(), 1, "shorter than a precise sleep asks for");
        drop(short);
        assert_eq!(slack(), 1);
    }
}
