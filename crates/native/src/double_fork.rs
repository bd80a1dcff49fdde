//! Forking of a process that becomes a child of this process's own parent, the keeper.
//!
//! An intermediate child forks the new process and exits, and the kernel makes the keeper its parent. The intermediate
//! child shares this process's memory, like a child of `vfork`: a fork copies the page tables and the exit frees the
//! copy, which takes milliseconds each if contexts have hundreds of megabytes, and so short a life needs no copy.
//!
//! Not here: the steps of the new process before it is a worker.

use std::arch::asm;

use pyo3::ffi;

/// The process in which a double fork returns.
pub enum Forked {
    /// The original process, with the error number of the failed step, or 0.
    Parent(i32),
    /// The new process, which is the keeper's child as soon as `middle` is gone.
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

/// Creates the intermediate child. Returns its id, or the negative error number, in this process; returns the same id
/// in the new process.
///
/// # Safety
/// This process has one thread.
unsafe fn fork_middle() -> i64 {
    let flags = i64::from(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD);
    let found: i64;
    // SAFETY: this process is suspended until the intermediate child has exited. That child uses only the stack below
    // this frame and writes nothing above it: it calls `leave`, which does not return there. `leave` returns in the new
    // process, which has its own copy of the stack as the intermediate child had it, this frame included. In this
    // process the kernel restores the registers; in the new one they are as after any call.
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
    // SAFETY: the child has one thread, whose memory is complete. The C library's own fork handlers run before and
    // after the fork, and find the memory of the suspended process. The error number is this thread's.
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

/// Registers the C library's area for restartable sequences again: the kernel drops the registration in a child that
/// shares memory, and `sched_getcpu` would then always return the core at the time of the fork.
fn tell_kernel_of_rseq() {
    /// The size that every kernel accepts.
    const SIZE: usize = 32;
    /// The offset of the core number in the area, and its value for "not registered".
    const CORE: (usize, i32) = (4, -2);
    // SAFETY: the names are C strings. Both symbols, where the C library has them, are its constants: an offset from
    // the thread pointer, and the size of the area there, or 0 if it has registered none. The area lives as long as
    // this thread, which is the only one.
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

/// The signature in front of the address where an interrupted sequence resumes, chosen by the C library.
#[cfg(target_arch = "x86_64")]
const RSEQ_SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const RSEQ_SIGNATURE: u32 = 0xd428_bc00;

/// Returns the base address of this thread's own variables.
fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: reads a register, or the word that holds its value by the rules of the platform.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Waits for the intermediate child, and returns its exit code: the error number of its fork.
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
