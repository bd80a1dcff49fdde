//! The standard streams of a worker: what its tasks write is out before their results are.
//!
//! Standard output is the program's own. Text that waits there in a buffer of Python or of the C library is flushed
//! after the task. Standard error is a pipe to the keeper, which forwards it: the worker waits for that if a task has
//! written there. It knows this from Python's streams (`gristmill._output`), and asks the pipe after each task that
//! took long enough for C code or another program to write.

use std::sync::OnceLock;

use gristmill_keeper::WorkerStderr;
use gristmill_sync::atomic::{AtomicU32, Ordering};
use gristmill_sync::clock::TickScale;
use pyo3::prelude::*;

/// Run time from which a task may have written past Python's streams, nanoseconds. A question to the pipe would double the
/// run time of much shorter tasks.
const WRITE_NS: u64 = 1_000;

/// Text waits in a buffer of Python's streams.
const TEXT: u32 = 1;
/// Python's stream has written to standard error.
const STDERR: u32 = 2;

/// The notes of Python's streams. Relaxed without a partner: they are read with the interpreter held by the thread that
/// wrote, or later.
static NOTES: AtomicU32 = AtomicU32::new(0);
/// Standard error of this worker, unless that was no pipe when it started.
static PIPE: OnceLock<Pipe> = OnceLock::new();

struct Pipe {
    stderr: WorkerStderr,
    /// [`WRITE_NS`], in clock ticks.
    write_time: u64,
}

unsafe extern "C" {
    #[link_name = "stdout"]
    static C_STDOUT: *mut libc::FILE;
    fn __fpending(stream: *mut libc::FILE) -> libc::size_t;
}

/// Takes standard error of this process, which has just become a worker.
pub fn begin(ticks: TickScale) {
    if let Some(stderr) = WorkerStderr::new() {
        // A process becomes a worker once.
        let _ = PIPE.set(Pipe { stderr, write_time: ticks.from_ns(WRITE_NS) });
    }
}

/// Notes that text may wait in a buffer of a standard stream.
#[pyfunction]
pub fn note_text() {
    NOTES.fetch_or(TEXT, Ordering::Relaxed); // as `NOTES` says
}

/// Notes that this process has written to standard error.
#[pyfunction]
pub fn note_stderr() {
    NOTES.fetch_or(STDERR, Ordering::Relaxed); // as `NOTES` says
}

/// Waits until all that this process has written to standard error is out, a fifth of a second at most.
#[pyfunction]
pub fn await_stderr() {
    settle(u64::MAX);
}

/// Returns whether text waits in a buffer of Python's streams or of the C library's standard output.
#[inline]
pub fn has_text() -> bool {
    // Relaxed: as `NOTES` says.
    NOTES.load(Ordering::Relaxed) & TEXT != 0 || c_text_waits()
}

/// Returns whether text waits in the C library's buffer.
#[inline]
fn c_text_waits() -> bool {
    // SAFETY: the C library sets its stream before any code of this module runs. A program may set it to null, which is
    // checked. The call reads two words of the stream; a thread that writes there meanwhile makes the number stale only.
    unsafe { !C_STDOUT.is_null() && __fpending(C_STDOUT) > 0 }
}

/// Flushes the buffers of the C library's standard output and, by calling `flush`, of Python's streams.
///
/// # Errors
/// The exception that the handler of a signal raised meanwhile.
#[cold]
pub fn flush(flush: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = flush.py();
    if NOTES.fetch_and(!TEXT, Ordering::Relaxed) & TEXT != 0 {
        flush.call0()?; // the order: as `NOTES` says
    }
    if c_text_waits() {
        // SAFETY: the stream is the C library's own, which locks it.
        py.detach(|| unsafe { libc::fflush(C_STDOUT) });
    }
    Ok(())
}

/// Waits until what was written to standard error is out, a fifth of a second at most. Looks at the pipe if Python's
/// stream has written there, or if the `ran` ticks of a call are long enough for another write.
#[inline]
pub fn settle(ran: u64) {
    let Some(pipe) = PIPE.get() else { return };
    // Relaxed: as `NOTES` says.
    if ran >= pipe.write_time || NOTES.load(Ordering::Relaxed) & STDERR != 0 {
        look(&pipe.stderr);
    }
}

#[inline(never)]
fn look(stderr: &WorkerStderr) {
    // Relaxed: as `NOTES` says.
    if NOTES.load(Ordering::Relaxed) & STDERR != 0 {
        NOTES.fetch_and(!STDERR, Ordering::Relaxed); // as above
    }
    if !stderr.is_settled() {
        // The other threads of the task go on meanwhile.
        Python::attach(|py| py.detach(|| stderr.wait()));
    }
}

/// Adds the functions for Python's streams to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(note_text, module)?)?;
    module.add_function(wrap_pyfunction!(note_stderr, module)?)?;
    module.add_function(wrap_pyfunction!(await_stderr, module)?)
}
