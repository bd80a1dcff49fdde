//! A process generation: a mark, read by a plain load, that tells a process from the processes that it was forked from.
//!
//! The mark lies in a page of its own that the kernel fills with zeros in every child made by `fork` or `clone`
//! (`MADV_WIPEONFORK`, Linux 4.14). No handler has to run in the child, so a `clone` that bypasses the C library is
//! noticed as well. If the kernel refuses that, a handler of `pthread_atfork` zeroes the page, and only forks through
//! the C library are noticed. A child that shares this process's memory (`vfork`, `CLONE_VM`) counts as this process.
//!
//! Models do not use this module, so its atomics are real in them too.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// The mark until [`watch_forks`] is called, or if no page can be mapped.
static UNWATCHED: AtomicU32 = AtomicU32::new(1);
/// Address of the mark.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNWATCHED).cast_mut());
/// The mark that was assigned last in this line of forks. Forks inherit it.
static LATEST: AtomicU32 = AtomicU32::new(1);
/// True if the kernel fills the page with zeros in children.
static IS_WIPED: AtomicBool = AtomicBool::new(false);

/// Returns the generation of this process. It differs from the generation of every process that this one was forked
/// from: state that stores another generation belongs to an ancestor.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    // Relaxed without a partner: the pointer is set before the program forks for the first time, and a page is never
    // unmapped.
    let mark = MARK.load(Ordering::Relaxed);
    // SAFETY: it points to a static, or to a page that is mapped for good.
    let found = unsafe { &*mark }.load(Ordering::Relaxed);
    if found == 0 { renew(mark) } else { found }
}

/// Assigns a new mark to this process, which is the child of a fork and calls [`generation`] for the first time.
#[cold]
fn renew(mark: *const AtomicU32) -> u32 {
    // Relaxed without a partner: no other data depends on the two words, and the first thread that sets the mark wins.
    let next = LATEST.load(Ordering::Relaxed).wrapping_add(1).max(1);
    // SAFETY: as in `generation`.
    let mark = unsafe { &*mark };
    match mark.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            LATEST.store(next, Ordering::Relaxed);
            next
        }
        Err(other) => other,
    }
}

/// Returns true if children of a bare `clone` are noticed too, not only those of the C library's `fork`.
#[must_use]
pub fn notices_clone() -> bool {
    IS_WIPED.load(Ordering::Relaxed) // as in `generation`
}

/// Starts to notice forks. Calling it again has no effect.
#[cfg(unix)]
pub fn watch_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let page = system::map_page();
        let is_wiped = page.is_some_and(system::wipe_on_fork);
        if let Some(page) = page {
            // SAFETY: the page is mapped for good, aligned, and zeroed, which is a valid word.
            unsafe { &*page }.store(generation(), Ordering::Relaxed);
            MARK.store(page, Ordering::Relaxed); // as in `generation`
        }
        if !is_wiped {
            system::empty_by_handler();
        }
        IS_WIPED.store(is_wiped, Ordering::Relaxed);
    });
}

/// Does nothing: only Unix has forks.
#[cfg(not(unix))]
pub fn watch_forks() {}

#[cfg(unix)]
mod system {
    use super::{AtomicU32, MARK, Ordering};

    /// Maps a private page for the mark.
    pub fn map_page() -> Option<*mut AtomicU32> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let page = unsafe {
            let size = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(1 << 16);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0)
        };
        (page != libc::MAP_FAILED).then_some(page.cast())
    }

    /// Makes the kernel fill a page with zeros in children. Returns false if the kernel does not support it.
    #[cfg(target_os = "linux")]
    pub fn wipe_on_fork(page: *mut AtomicU32) -> bool {
        // SAFETY: the page is mapped, and nothing is in it yet.
        unsafe {
            let size = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(1 << 16);
            libc::madvise(page.cast(), size, libc::MADV_WIPEONFORK) == 0
        }
    }

    /// Returns false: only Linux supports it.
    #[cfg(not(target_os = "linux"))]
    pub fn wipe_on_fork(_page: *mut AtomicU32) -> bool {
        false
    }

    /// Makes the C library set the mark to zero in children of its own `fork`.
    pub fn empty_by_handler() {
        extern "C" fn in_child() {
            let mark = MARK.load(Ordering::Relaxed); // a forked child has one thread
            // SAFETY: as in `generation`.
            unsafe { &*mark }.store(0, Ordering::Relaxed);
        }
        // SAFETY: the handler only sets a word to zero.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Forks a child and returns true if its generation differs from `here` and stays the same.
    fn ask_child(fork: impl Fn() -> libc::pid_t, here: u32) -> bool {
        let child = fork();
        if child == 0 {
            let first = generation();
            let is_right = first != here && first == generation();
            // SAFETY: ends the child, which has run nothing but loads and stores.
            unsafe { libc::_exit(i32::from(is_right)) };
        }
        assert!(child > 0, "a child was forked");
        let mut status = 0;
        // SAFETY: the status outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn a_forked_child_is_of_another_generation() {
        watch_forks();
        let here = generation();
        // SAFETY: the child makes no call but `_exit`.
        assert!(ask_child(|| unsafe { libc::fork() }, here));
        assert_eq!(here, generation(), "the parent stays what it was");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_of_a_bare_clone_is_of_another_generation() {
        watch_forks();
        if !notices_clone() {
            return;
        }
        let clone = || {
            let flags = libc::c_long::from(libc::SIGCHLD);
            // SAFETY: equivalent to fork, with a copy of this stack; the child makes no call but `_exit`.
            let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
            libc::pid_t::try_from(child).expect("a process id")
        };
        assert!(ask_child(clone, generation()));
    }
}
