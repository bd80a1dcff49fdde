//! An asymmetric pair of barriers: free on the hot path, expensive for a thread that is about to sleep.
//!
//! The barriers guarantee: if two threads each store one word and then load the other's, at least one of them sees the
//! other's store. One side runs [`light`] between its store and its load, the other runs [`heavy`]. Under
//! [`BarrierMode::Membarrier`] the heavy side makes the kernel run a full barrier on every registered thread, so the
//! light side only has to keep the compiler from reordering. Under [`BarrierMode::Fence`] both are full fences.

use crate::atomic::{Ordering, fence};

/// The implementation of the two barriers. Both ends of a ring must use the same mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BarrierMode {
    /// `light` is a compiler fence, `heavy` a `membarrier` call over all registered processes.
    Membarrier = 1,
    /// Both are sequentially consistent fences: used where seccomp or the kernel refuses `membarrier`.
    Fence = 2,
    /// Neither does anything. Only for models, to show that the protocols need their barriers.
    #[cfg(gristmill_loom)]
    Absent = 3,
}

impl BarrierMode {
    /// Returns the mode as a word for a shared header.
    #[must_use]
    pub const fn word(self) -> u64 {
        self as u64
    }

    /// Reads a mode from a shared header. Returns `None` if the word is not a mode.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Membarrier),
            2 => Some(Self::Fence),
            _ => None,
        }
    }
}

/// The result of a heavy barrier. Its callers are threads about to sleep, and threads that take records or calls back
/// (takers). After [`Self::Failed`] a taker does not know which of them the other side has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "after a failed barrier a sleeper must not sleep long and a receiver knows nothing"]
pub enum HeavyBarrier {
    /// Every light barrier of a registered thread is ordered with it.
    Done,
    /// The kernel refused the call although it had accepted it at registration; nothing is ordered with the other side.
    Failed,
}

/// Registers this process for heavy barriers of other processes and tries one. Returns the mode that it can use.
///
/// A child made by fork inherits the registration; exec clears it. The function costs two system calls and may be
/// called again.
#[must_use]
pub fn register() -> BarrierMode {
    if system::register() && system::issue() { BarrierMode::Membarrier } else { BarrierMode::Fence }
}

/// Orders the caller's earlier stores before its later loads, as seen by the caller of a heavy barrier.
#[inline(always)]
pub fn light(mode: BarrierMode) {
    match mode {
        #[cfg(not(gristmill_loom))]
        BarrierMode::Membarrier => std::sync::atomic::compiler_fence(Ordering::SeqCst),
        // PAIRS: heavy barrier (the fence in `heavy`)
        #[cfg(not(gristmill_loom))]
        BarrierMode::Fence => fence(Ordering::SeqCst),
        #[cfg(gristmill_loom)]
        BarrierMode::Membarrier | BarrierMode::Fence => fence(Ordering::SeqCst),
        #[cfg(gristmill_loom)]
        BarrierMode::Absent => {}
    }
}

/// Orders the caller's earlier stores before its later loads, as seen by all callers of light barriers.
///
/// Takes about 1 to 10 us under `Membarrier`, because it interrupts the cores that run registered processes.
#[inline]
pub fn heavy(mode: BarrierMode) -> HeavyBarrier {
    match mode {
        #[cfg(not(gristmill_loom))]
        BarrierMode::Membarrier => {
            if !system::issue() {
                return HeavyBarrier::Failed;
            }
        }
        // PAIRS: light barrier (the fence in `light`)
        #[cfg(not(gristmill_loom))]
        BarrierMode::Fence => fence(Ordering::SeqCst),
        #[cfg(gristmill_loom)]
        BarrierMode::Membarrier | BarrierMode::Fence => fence(Ordering::SeqCst),
        #[cfg(gristmill_loom)]
        BarrierMode::Absent => {}
    }
    HeavyBarrier::Done
}

/// The `membarrier` system call.
#[cfg(target_os = "linux")]
mod system {
    /// `MEMBARRIER_CMD_GLOBAL_EXPEDITED` of `linux/membarrier.h`.
    const GLOBAL_EXPEDITED: libc::c_long = 1 << 1;
    /// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED` of `linux/membarrier.h`.
    const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 1 << 2;

    fn call(command: libc::c_long) -> bool {
        let nothing: libc::c_long = 0;
        // SAFETY: membarrier takes three integers and touches no memory of the caller.
        unsafe { libc::syscall(libc::SYS_membarrier, command, nothing, nothing) == 0 }
    }

    pub(super) fn register() -> bool {
        call(REGISTER_GLOBAL_EXPEDITED)
    }

    #[cold]
    pub(super) fn issue() -> bool {
        call(GLOBAL_EXPEDITED)
    }
}

/// The replacement on systems without `membarrier`, which use fences only.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn issue() -> bool {
        false
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_registered_process_can_issue_heavy_barriers() {
        assert_eq!(heavy(register()), HeavyBarrier::Done);
        assert_eq!(heavy(BarrierMode::Fence), HeavyBarrier::Done);
    }

    #[test]
    fn a_mode_survives_its_header_word() {
        for mode in [BarrierMode::Membarrier, BarrierMode::Fence] {
            assert_eq!(BarrierMode::from_word(mode.word()), Some(mode));
        }
        assert_eq!(BarrierMode::from_word(0), None);
        assert_eq!(BarrierMode::from_word(u64::MAX), None);
    }
}
