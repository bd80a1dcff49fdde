//! Descriptors: pipes, sockets, process handles, memory files. All of them close on exec.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Converts the -1 of a system call into its error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Checks the result of a call that returns a `long`, like [`check`].
pub(crate) fn check_long(result: libc::c_long) -> io::Result<libc::c_int> {
    check(libc::c_int::try_from(result).unwrap_or(-1))
}

/// Takes ownership of a descriptor that a system call has just made.
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: every caller passes a descriptor that the kernel has just returned and that has no other owner.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Creates a pipe: the reading end never blocks, the writing end blocks, as a worker's stderr should.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let (reader, writer) = (own(ends[0]), own(ends[1]));
    // SAFETY: a plain call on a descriptor that this function owns.
    check(unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((reader, writer))
}

/// Creates two connected sockets that preserve packet boundaries.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok((own(ends[0]), own(ends[1])))
}

/// Duplicates a descriptor to a number of at least `least`.
pub(crate) fn duplicate(descriptor: BorrowedFd<'_>, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain call on a borrowed, hence open, descriptor.
    let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    Ok(own(check(copy)?))
}

/// Opens a handle of a process. It is free of races only for an unreaped child of the caller or for the caller itself.
pub(crate) fn process_handle(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two integers.
    Ok(own(check_long(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?))
}

/// Sends a signal to the process of a handle.
pub(crate) fn signal_handle(handle: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the kernel accepts a null pointer as no siginfo.
    check_long(unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, nothing, 0)
    })?;
    Ok(())
}

/// Creates an anonymous file in memory. It may be executed if `executable` is true.
pub(crate) fn memory_file(name: &CStr, executable: bool) -> io::Result<File> {
    /// `MFD_EXEC` of Linux 6.3; older kernels refuse the flag and do not need it.
    const EXECUTABLE: libc::c_uint = 0x10;
    let create = |flags| {
        // SAFETY: the name is a C string that outlives the call.
        check(unsafe { libc::memfd_create(name.as_ptr(), flags) })
    };
    let mut made = create(libc::MFD_CLOEXEC | if executable { EXECUTABLE } else { 0 });
    if executable && made.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL)) {
        made = create(libc::MFD_CLOEXEC);
    }
    Ok(File::from(own(made?)))
}

/// Creates a file in memory that holds `bytes`. Its position is at the end, so a reader must start at offset 0.
///
/// # Errors
/// The system has no memory for it.
pub fn memory_copy(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = memory_file(name, false)?;
    file.write_all(bytes)?;
    Ok(file.into())
}

/// The signal by which a worker asks the keeper to forward incomplete lines. A process that does not expect it ignores it.
pub(crate) const FORWARD_SIGNAL: libc::c_int = libc::SIGURG;

/// Creates a descriptor that delivers SIGCHLD and [`FORWARD_SIGNAL`], and blocks these signals for this thread.
pub(crate) fn watched_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is read, and outlives the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, FORWARD_SIGNAL);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        Ok(own(check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?))
    }
}

/// Waits until a descriptor has one of its `events` or is closed by its peer. Returns true if one has.
///
/// Returns `false` early if a signal handler ran: the caller knows the remaining time.
pub(crate) fn wait(
    descriptors: &mut [libc::pollfd],
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let spec = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let spec_pointer = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = libc::nfds_t::try_from(descriptors.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: pointer and count describe the slice; the time is null or a live timespec; no mask is passed.
    let ready =
        unsafe { libc::ppoll(descriptors.as_mut_ptr(), count, spec_pointer, std::ptr::null()) };
    match check(ready) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Raises the soft limit of descriptors to the hard one, because each worker needs some. Returns the former limit.
pub(crate) fn raise_descriptor_limit() -> Option<libc::rlimit> {
    // SAFETY: the structure outlives the calls.
    unsafe {
        let mut limit = std::mem::zeroed();
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit)).ok()?;
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised)).ok()?;
        Some(limit)
    }
}

/// Returns an entry for [`wait`].
pub(crate) fn interest(descriptor: impl AsFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: descriptor.as_fd().as_raw_fd(), events, revents: 0 }
}
