//! The fork of a process that becomes the child of this process's own parent, the keeper.
//!
//! An intermediate child forks it and exits, and the kernel gives it to the keeper. The intermediate child shares this
//! process's memory, as one of `vfork` does: a fork copies the page tables and its end frees the copy, which takes
//! milliseconds each where contexts have hundreds of megabytes, and nobody needs a copy for so short a life.
//!
//! Not here: what the new process does before it is a worker.

use std::arch::asm;

use pyo3::ffi;

/// Where a double fork has led.
pub enum Forked {
    /// To the process that was; the error number of what failed, or 0.
    Parent(i32),
    /// To the new one, which is the keeper's child as soon as `middle` is gone.
    Child { middle: i32 },
}

/// Forks an intermediate child that forks the new process and exits.
///
/// The intermediate child runs no Python. This process must have one thread, which holds the interpreter.
pub fn fork_away() -> Forked {
    // SAFETY: the interpreter is held, and told of the fork before and after, in both processes that go on to use it.
    unsafe {
        let here = libc::getpid();
        ffi::PyOS_BeforeFork();
        let found = fork_middle();
        if libc::getpid() != here {
            tell_kernel_of_rseq();
            ffi::PyOS_AfterFork_Child();
            return Forked::Child { middle: i32::try_from(found).unwrap_or(0) };
        }
        let errno = i32::try_from(found).map_or(libc::EAGAIN, |middle| match middle {
            1.. => reap(middle),
            errno => -errno,
        });
        ffi::PyOS_AfterFork_Parent();
        Forked::Parent(errno)
    }
}

/// Makes the intermediate child. In this process the answer is its id, or the negative error number; in the new one it is
/// the same id.
///
/// # Safety
/// This process has one thread.
unsafe fn fork_middle() -> i64 {
    let flags = i64::from(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD);
    let found: i64;
    // SAFETY: this process stands still until the intermediate child has exited, which uses the stack below this frame
    // only, and writes nothing above it: `leave` is called, and does not return there. It returns in the new process, which
    // has a copy of its own of the stack as the intermediate child had it, this frame included. Registers are the
    // kernel's to restore in this process, and as after any call in the new one.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "call {leave}",
            "2:",
            leave = sym leave,
            inlateout("rax") libc::SYS_clone => found,
            inlateout("rdi") flags => _,
            inlateout("rsi") 0_i64 => _,
            inlateout("rdx") 0_i64 => _,
            inlateout("r10") 0_i64 => _,
            inlateout("r8") 0_i64 => _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "bl {leave}",
            "2:",
            leave = sym leave,
            inlateout("x8") libc::SYS_clone => _,
            inlateout("x0") flags => found,
            inlateout("x1") 0_i64 => _,
            inlateout("x2") 0_i64 => _,
            inlateout("x3") 0_i64 => _,
            inlateout("x4") 0_i64 => _,
            clobber_abi("C"),
        );
    }
    found
}

/// Forks in the intermediate child, and ends it with the error number, or 0. Returns in the new process, with the id of
/// the intermediate child.
extern "C" fn leave() -> i64 {
    // SAFETY: one thread, whose memory is whole; the C library's own handlers for forks run before and after it, where
    // they find the memory of the process that stands still. The error number is this thread's.
    unsafe {
        let middle = libc::getpid();
        match libc::fork() {
            0 => i64::from(middle),
            -1 => libc::_exit(last_errno()),
            _ => libc::_exit(0),
        }
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)
}

/// Registers the C library's area for restartable sequences again, which the kernel forgets where a child shares memory:
/// else `sched_getcpu` would give for ever the core of the moment of the fork.
fn tell_kernel_of_rseq() {
    /// The size that every kernel takes.
    const SIZE: usize = 32;
    /// Where the number of the core stands in the area, and what says there that nobody keeps it.
    const CORE: (usize, i32) = (4, -2);
    // SAFETY: the names are C strings; both symbols are constants of the C library, where it has them: an offset from the
    // thread pointer, and the size of what is there, or 0 if it has registered nothing. The area lives as long as this
    // thread, which is the only one.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if offset.is_null() || size.is_null() || size.cast::<u32>().read() == 0 {
            return;
        }
        let area = thread_pointer().offset(offset.cast::<isize>().read());
        if libc::syscall(libc::SYS_rseq, area, SIZE, 0, RSEQ_SIGNATURE) != 0 {
            area.add(CORE.0).cast::<i32>().write_volatile(CORE.1);
        }
    }
}

/// What stands in front of the places where a sequence goes on that was interrupted: the C library's choice.
#[cfg(target_arch = "x86_64")]
const RSEQ_SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const RSEQ_SIGNATURE: u32 = 0xd428_bc00;

/// Where this thread's own variables are.
fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: a read of a register, or of the word that holds its value by the rules of the platform.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Waits for the intermediate child: its exit code is the error number of its fork.
fn reap(middle: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: the status outlives the call.
        let reaped = unsafe { libc::waitpid(middle, &raw mut status, 0) };
        if reaped == middle {
            return if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { libc::ECHILD };
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return libc::ECHILD;
        }
    }
}
