//! A frame that no C++ exception passes, below all that a task runs.
//!
//! C++ code that throws out of its function unwinds the interpreter's frames until something catches the exception. The
//! only candidates are Rust's, which abort, and faulthandler's handler then reads frames that are gone. Without a
//! candidate nothing is unwound: the C++ library writes what was thrown, and aborts where it was.

use std::ffi::c_void;
use std::io::Write as _;

/// A function that may unwind: in one of another ABI the compiler puts a candidate for catching.
type Unwinding = unsafe extern "C-unwind" fn(*mut c_void);

/// A closure, and its result once it has run.
struct Run<F, R> {
    body: Option<F>,
    result: Option<R>,
}

/// The run of a closure, without its types.
struct Call {
    function: Unwinding,
    run: *mut c_void,
}

/// Runs a closure. Neither an exception nor a panic of the closure is caught outside: both abort the process.
#[inline]
pub fn under_barrier<R>(body: impl FnOnce() -> R) -> R {
    fn function_of<F: FnOnce() -> R, R>(_: &Run<F, R>) -> Unwinding {
        run::<F, R>
    }
    let mut run = Run { body: Some(body), result: None };
    let mut call = Call { function: function_of(&run), run: (&raw mut run).cast() };
    // SAFETY: `run_or_abort` takes a call, and returns before this one is dropped.
    unsafe { gristmill_call_under_barrier(run_or_abort, (&raw mut call).cast()) };
    run.result.expect("the closure ran")
}

/// Runs a closure.
unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(run: *mut c_void) {
    // SAFETY: a call has the function of its run's types.
    let run = unsafe { &mut *run.cast::<Run<F, R>>() };
    run.result = run.body.take().map(|body| body());
}

/// Runs a call. Aborts the process if the thread ends meanwhile: its other threads would keep it alive without a result.
unsafe extern "C-unwind" fn run_or_abort(call: *mut c_void) {
    struct ThreadEnds;
    impl Drop for ThreadEnds {
        fn drop(&mut self) {
            let _ = std::io::stderr().write_all(b"the thread that ran the task has ended itself\n");
            // SAFETY: the default action runs no handler, which would read frames that are gone.
            unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
            std::process::abort();
        }
    }
    let ends = ThreadEnds;
    // SAFETY: `under_barrier` passes a call, and the function takes its run.
    unsafe {
        let call = &*call.cast::<Call>();
        (call.function)(call.run);
    }
    std::mem::forget(ends);
}

/// Defines `gristmill_call_under_barrier` by its instructions. It is assembly for the lack of unwinding tables: a search for a
/// handler ends at a frame without them. Its frame pointer still leads debuggers and profilers on.
macro_rules! barrier_of {
    ($($instruction:literal),+ $(,)?) => {
        std::arch::global_asm!(
            ".pushsection .text.gristmill_call_under_barrier, \"ax\", @progbits",
            ".hidden gristmill_call_under_barrier",
            ".globl gristmill_call_under_barrier",
            ".type gristmill_call_under_barrier, @function",
            "gristmill_call_under_barrier:",
            $($instruction,)+
            ".size gristmill_call_under_barrier, . - gristmill_call_under_barrier",
            ".popsection",
        );
    };
}

#[cfg(target_arch = "x86_64")]
barrier_of!(
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "pop rbp",
    "ret",
);

#[cfg(target_arch = "aarch64")]
barrier_of!(
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "mov x2, x0",
    "mov x0, x1",
    "blr x2",
    "ldp x29, x30, [sp], #16",
    "ret",
);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C-unwind" {
    /// Calls the function with the pointer.
    fn gristmill_call_under_barrier(function: Unwinding, pointer: *mut c_void);
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn gristmill_call_under_barrier(function: Unwinding, pointer: *mut c_void) {
    // SAFETY: the caller guarantees it.
    unsafe { function(pointer) };
}
