//! Signals that every process of a job gets: batch systems and service managers send them to all of it.
//!
//! A process that calls [`leave_to_program`] ignores such a signal if another process has sent it and the program of the
//! job catches, ignores or blocks it: the program decides about its tasks. A signal that the process sends itself, that a
//! timer or the kernel raises, or that would end the program too, has the default action. The terminal's interrupt is
//! always ignored.
//!
//! Programs that the process executes inherit nothing, because a handler is installed and not `SIG_IGN`. A forked child
//! has the former actions, from its first moment on.
//!
//! Not here: who the program is, and the actions that user code sets, which replace these.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::c_int;

/// Id of the process that leaves the signals to the program; 0 means none.
///
/// All loads and stores of this file are relaxed: the handler runs in the process that stored the values, after it
/// stored them, or in a process that began as its copy.
static LEAVING: AtomicI32 = AtomicI32::new(0);
/// Id of the program's process; 0 if it is not known.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// The signals that the program handled when it described its workers, one bit each. Later it may not show that: a handler
/// may restore the default as its first step, and a thread that waits for a signal does not block it meanwhile.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// The former handler of the interrupt, for forked children.
static FORMER_INTERRUPT: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Signals that end a process by default and that other processes send. Not among them are SIGKILL; the signals of
/// crashes; SIGPIPE and SIGXFSZ, which Python ignores; and SIGSTKFLT, which ends a setup.
const NAMED: [c_int; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
];

/// Returns the numbers of all signals that this module is about.
pub fn all() -> impl Iterator<Item = c_int> {
    NAMED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Makes this process leave the signals of its job to the program. `None` stands for the program of the process that
/// this one was forked from.
///
/// Installs handlers where the default action is set. A process whose ancestor called this has them already, or the
/// actions that user code has set since.
pub fn leave_to_program(program: Option<i32>) {
    if let Some(program) = program {
        PROGRAM.store(program, Ordering::Relaxed);
    }
    let is_first = LEAVING.swap(own_id(), Ordering::Relaxed) == 0;
    if is_first {
        all().for_each(install);
    }
}

/// Leaves one signal to the program again, after user code has restored the default action. Has no effect in a forked
/// child.
pub fn leave_again(number: c_int) {
    if LEAVING.load(Ordering::Relaxed) == own_id() && all().any(|one| one == number) {
        install(number);
    }
}

/// Notes the signals that the program handles, as its [`handled_here`] returned them.
pub fn note_handled(signals: u64) {
    NOTED.store(signals, Ordering::Relaxed);
}

/// Returns the signals that this process catches or ignores and those that this thread blocks, one bit each.
#[must_use]
pub fn handled_here() -> u64 {
    let mut path = [0; 32];
    path.iter_mut().zip(b"/proc/thread-self/status").for_each(|(place, byte)| *place = *byte);
    handled_by(&path)
}

fn own_id() -> i32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::getpid() }
}

/// Installs the handler of a signal with the default action. The handler of the interrupt replaces Python's.
fn install(number: c_int) {
    // SAFETY: both structures are filled before they are read, and outlive the calls. The handler makes only calls that
    // handlers may make.
    unsafe {
        let mut former: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(number, std::ptr::null(), &raw mut former) != 0 {
            return;
        }
        let is_plain = former.sa_flags & libc::SA_SIGINFO == 0;
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&former.sa_sigaction);
        if number == libc::SIGINT && is_plain && is_handled {
            FORMER_INTERRUPT.store(former.sa_sigaction, Ordering::Relaxed);
        } else if former.sa_sigaction != libc::SIG_DFL {
            return;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        // On the alternative stack, because the threads of some runtimes have no room on their own.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(number, &raw const action, std::ptr::null_mut());
    }
}

/// The response to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Response {
    /// Nothing.
    Ignore,
    /// The default action.
    Default,
    /// The handler that a forked child would have without this module.
    Former,
}

/// Handles a signal. Makes only calls that are safe in handlers, and keeps the thread's error number.
extern "C" fn on_signal(number: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure; the error number is this thread's. The sender's id is read only where
    // the code says that there is one.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let is_sent = matches!((*info).si_code, SI_USER | SI_QUEUE);
        match response(number, is_sent.then(|| (*info).si_pid())) {
            Response::Ignore => {}
            Response::Default => take_default(number),
            Response::Former => call_former(number),
        }
        *errno = before;
    }
}

/// Code of a signal that a process sent with `kill`.
const SI_USER: c_int = 0;
/// Code of a signal that a process sent with `sigqueue`.
const SI_QUEUE: c_int = -1;

/// Chooses the response to a signal that `sender` has sent, or that was raised without a sender.
fn response(number: c_int, sender: Option<i32>) -> Response {
    let own = own_id();
    let is_interrupt = number == libc::SIGINT;
    if LEAVING.load(Ordering::Relaxed) != own {
        return if is_interrupt { Response::Former } else { Response::Default };
    }
    if is_interrupt {
        return Response::Ignore;
    }
    if sender.is_none_or(|sender| sender == own) {
        return Response::Default;
    }
    let program = PROGRAM.load(Ordering::Relaxed);
    let handled = NOTED.load(Ordering::Relaxed) | handled_by(&status_path(program));
    if handled & bit(number) == 0 { Response::Default } else { Response::Ignore }
}

/// Takes the default action of a signal once its handler returns.
///
/// # Safety
/// The caller handles this signal.
unsafe fn take_default(number: c_int) {
    // SAFETY: both calls are async-signal-safe. The raised signal is blocked until the handler returns.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
}

/// Calls the handler that [`install`] replaced, or takes the default action if there was none.
///
/// # Safety
/// The caller handles this signal, which is the interrupt.
unsafe fn call_former(number: c_int) {
    let former = FORMER_INTERRUPT.load(Ordering::Relaxed);
    // SAFETY: the number is that of a handler with one argument, which was installed for this signal and which the
    // process has kept.
    unsafe {
        if former == libc::SIG_DFL {
            take_default(number);
        } else {
            std::mem::transmute::<usize, extern "C" fn(c_int)>(former)(number);
        }
    }
}

fn bit(number: c_int) -> u64 {
    1 << (number - 1)
}

/// Returns the signals that a process, or a thread, catches, ignores or blocks, one bit each; none if its status file cannot
/// be read. The path ends with a null. Makes only calls that are safe in signal handlers.
fn handled_by(path: &[u8; 32]) -> u64 {
    let mut lines = StatusLines::default();
    let mut bytes = [0_u8; 256];
    // SAFETY: the path ends with a null; the buffer outlives the reads, which get its size.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return 0;
        }
        while let Ok(size @ 1..) =
            usize::try_from(libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()))
        {
            bytes.iter().take(size).for_each(|&byte| lines.take(byte));
        }
        libc::close(file);
    }
    lines.handled
}

/// Returns the path of a process's status file, which ends with a null.
fn status_path(process: i32) -> [u8; 32] {
    let mut digits = [0_u8; 10];
    let mut rest = process.unsigned_abs();
    let mut count = 0;
    for digit in &mut digits {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    let mut path = [0; 32];
    let id = digits.into_iter().take(count).rev();
    let text = b"/proc/".iter().copied().chain(id).chain(*b"/status");
    path.iter_mut().zip(text).for_each(|(place, byte)| *place = byte);
    path
}

/// A reader of a status file, byte by byte, without an allocation.
#[derive(Debug, Default)]
struct StatusLines {
    /// The beginning of the line that is read. The lines about signals have 24 bytes.
    line: [u8; 32],
    length: usize,
    handled: u64,
}

impl StatusLines {
    fn take(&mut self, byte: u8) {
        if byte == b'\n' {
            self.end_line();
            self.length = 0;
        } else if let Some(place) = self.line.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.length).unwrap_or_default();
        if let Some((b"SigBlk:\t" | b"SigIgn:\t" | b"SigCgt:\t", mask)) = line.split_at_checked(8) {
            let mask = std::str::from_utf8(mask).ok();
            let mask = mask.and_then(|text| u64::from_str_radix(text, 16).ok());
            self.handled |= mask.unwrap_or(0);
        }
    }
}

/// The signals of the job, blocked in the calling thread until this is dropped.
///
/// A process that is forked meanwhile gets none of them before it has chosen how to respond. It empties its mask then,
/// and forgets this value.
#[derive(Debug)]
pub struct Held {
    before: libc::sigset_t,
}

impl Held {
    /// Blocks the signals.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: the sets are filled before they are read, and outlive the calls.
        unsafe {
            let (mut before, mut set) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut set);
            all().for_each(|number| {
                libc::sigaddset(&raw mut set, number);
            });
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self { before }
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked the signals, and outlives this one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> u64 {
        let mut lines = StatusLines::default();
        text.iter().for_each(|&byte| lines.take(byte));
        lines.handled
    }

    #[test]
    fn the_masks_of_a_status_file_are_read_behind_lines_of_any_length() {
        let groups = b"Groups:\t".iter().copied().chain(b"4711 ".repeat(40_000));
        let rest = b"\nSigQ:\t1/2\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000000002\nSigCgt:\t8000000000000004\n";
        let found = read(&groups.chain(*rest).collect::<Vec<u8>>());
        assert_eq!(found, 0x8000_0000_0000_0007);
        assert_eq!(read(b"SigCgt:\tnot hexadecimal\nSigIgn:\nSig"), 0);
    }

    #[test]
    fn a_status_file_is_found_by_the_process_id() {
        for (process, path) in [(7, "/proc/7/status"), (i32::MAX, "/proc/2147483647/status")] {
            let found = status_path(process);
            assert_eq!(found.split(|&byte| byte == 0).next(), Some(path.as_bytes()));
        }
        let pipe = bit(libc::SIGPIPE); // which Rust ignores
        assert_eq!(handled_by(&status_path(own_id())) & pipe, pipe);
        assert_eq!(handled_here() & pipe, pipe);
        assert_eq!(handled_by(&status_path(i32::MAX)), 0);
    }
}
