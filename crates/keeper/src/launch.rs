//! The start of a keeper for this process.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{ffi::c_int, mem::MaybeUninit};

use thiserror::Error;

use crate::client::{Commands, Events, Link};
use crate::descriptor::{duplicate, process_handle, socket_pair};
use crate::image::{Image, directories};
use crate::message::Command;
use crate::process_id;
use crate::server::{CLIENT_DESCRIPTOR, CONTROL_DESCRIPTOR};
use crate::socket::Outgoing;
use crate::token::TreeToken;

/// The lowest number for copies of passed descriptors, so that none occupies the target number of another.
const CLEAR_OF_TARGETS: RawFd = 10;
/// Number of retries for an image that another thread's fork holds open for writing.
const BUSY_TRIES: u32 = 50;

/// The location of the keeper's executable.
#[derive(Debug, Clone, Default)]
pub enum ExecutableLocation {
    /// In memory, or in a temporary directory if the kernel refuses to execute it from memory.
    #[default]
    Automatic,
    /// In this directory. The file is removed as soon as the keeper runs.
    Directory(PathBuf),
}

/// The options of a keeper.
#[derive(Debug, Default)]
pub struct KeeperOptions {
    /// The location of the executable.
    pub placement: ExecutableLocation,
    /// Standard output of programs with [`crate::Output::Forward`]; `None` means this process's own.
    pub stdout: Option<OwnedFd>,
    /// The stream to which the keeper writes the standard error of programs with [`crate::Output::Forward`]; `None`
    /// means this process's own.
    pub stderr: Option<OwnedFd>,
}

/// The reason why a keeper could not be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The kernel refused a call that every keeper needs.
    #[error("starting the keeper failed at {step}: {source}")]
    Setup {
        /// The step that failed.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The executable could not be executed from any location.
    #[error("the keeper could not be executed from {place}: {source}")]
    Execute {
        /// The last location tried.
        place: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl LaunchError {
    /// Returns true if the cause was a shortage of processes, descriptors or memory, so that a later retry may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let (Self::Setup { source, .. } | Self::Execute { source, .. }) = self;
        let limits = [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
        source.raw_os_error().is_some_and(|errno| limits.contains(&errno))
    }
}

/// Starts a keeper from the bytes of its executable. Returns the sending and the receiving end of its socket.
///
/// The function does not wait for the keeper: commands may be sent at once, and [`crate::KeeperEvent::Up`] comes when
/// it runs. The keeper is a direct child of this process with an empty environment, in a session of its own. [`Events`]
/// reaps it through its handle, which disturbs neither a SIGCHLD handler nor `waitpid` for other children. If a
/// `waitpid(-1)` elsewhere in this process reaps the keeper first, only its exit status is lost. The keeper and all
/// processes that it started end when this process dies, or when [`Commands`] and [`Events`] are both dropped.
///
/// # Errors
/// See [`LaunchError`].
pub fn launch(image: &[u8], options: KeeperOptions) -> Result<(Commands, Events), LaunchError> {
    let setup = |step| move |source| LaunchError::Setup { step, source };
    let token = TreeToken::random().map_err(setup("getrandom"))?;
    let (ours, theirs) = socket_pair().map_err(setup("socketpair"))?;
    let client = process_handle(process_id()).map_err(setup("pidfd_open"))?;
    let stdout = options.stdout.map_or_else(|| stream(io::stdout()), Ok);
    let stderr = options.stderr.map_or_else(|| stream(io::stderr()), Ok);
    let sources = [
        (stdout.map_err(setup("dup"))?, libc::STDOUT_FILENO),
        (stderr.map_err(setup("dup"))?, libc::STDERR_FILENO),
        (theirs, CONTROL_DESCRIPTOR),
        (client, CLIENT_DESCRIPTOR),
    ];
    let mut passed = Vec::with_capacity(sources.len());
    for (source, target) in &sources {
        let copy = duplicate(source.as_fd(), CLEAR_OF_TARGETS).map_err(setup("dup"))?;
        passed.push((copy, *target));
    }
    drop(sources);
    let pid = execute_anywhere(image, &options.placement, &passed)?;
    drop(passed);
    let keeper = process_handle(pid).map_err(setup("pidfd_open"))?;
    let begin = Outgoing::new(Command::Begin { token: token.clone() }.encode(), Vec::new());
    // The send fails only if the keeper is dead, which [`Events`] reports.
    let _ = begin.and_then(|message| message.send(ours.as_fd()));
    let link = Arc::new(Link { socket: ours, keeper });
    Ok((Commands::new(Arc::clone(&link), token), Events::new(link, pid)))
}

/// Returns a sending end without a keeper, for engines that have no processes: no process receives its commands, which
/// fail like those to a dead keeper. The link's handle is this process's own, as a placeholder.
///
/// # Errors
/// [`LaunchError::Setup`].
pub fn unheard() -> Result<Commands, LaunchError> {
    let setup = |step| move |source| LaunchError::Setup { step, source };
    let token = TreeToken::random().map_err(setup("getrandom"))?;
    let (socket, _) = socket_pair().map_err(setup("socketpair"))?;
    let keeper = process_handle(process_id()).map_err(setup("pidfd_open"))?;
    Ok(Commands::new(Arc::new(Link { socket, keeper }), token))
}

/// Duplicates a standard stream of this process, or opens `/dev/null` if the stream is closed.
fn stream(stream: impl AsFd) -> io::Result<OwnedFd> {
    duplicate(stream.as_fd(), CLEAR_OF_TARGETS).or_else(|_| {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        Ok(null.into())
    })
}

fn execute_anywhere(
    bytes: &[u8],
    placement: &ExecutableLocation,
    passed: &[(OwnedFd, RawFd)],
) -> Result<i32, LaunchError> {
    let in_directory = |directory: &Path| {
        let place = directory.display().to_string();
        Image::in_directory(bytes, directory)
            .and_then(|image| spawn(&image, passed))
            .map_err(|source| LaunchError::Execute { place, source })
    };
    if let ExecutableLocation::Directory(directory) = placement {
        return in_directory(directory);
    }
    let in_memory = Image::in_memory(bytes).and_then(|image| spawn(&image, passed));
    let mut result =
        in_memory.map_err(|source| LaunchError::Execute { place: "memory".to_owned(), source });
    for directory in directories() {
        if result.as_ref().is_err_and(|error| !error.is_retryable()) {
            result = in_directory(&directory);
        }
    }
    result
}

/// Executes an image. A new image may be busy: if another thread forked meanwhile, its child holds the writing
/// descriptor until it executes a program itself.
fn spawn(image: &Image, passed: &[(OwnedFd, RawFd)]) -> io::Result<i32> {
    let path = image.path()?;
    let mut tries = 0;
    loop {
        match spawn_once(&path, passed) {
            Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn spawn_once(path: &CString, passed: &[(OwnedFd, RawFd)]) -> io::Result<i32> {
    let nothing: [*mut libc::c_char; 1] = [std::ptr::null_mut()];
    let arguments = [c"gristmill-keeper".as_ptr().cast_mut(), std::ptr::null_mut()];
    let actions = Actions::new(passed)?;
    let attributes = Attributes::new()?;
    let mut pid = 0;
    // SAFETY: all pointers refer to initialised values that outlive the call; the arrays end with null.
    succeed(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            nothing.as_ptr(),
        )
    })?;
    Ok(pid)
}

/// The descriptors that the keeper starts with.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(passed: &[(OwnedFd, RawFd)]) -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init fills the value before it is taken; the later calls get an initialised one.
        unsafe {
            succeed(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            let mut actions = Self(actions.assume_init());
            let (stdin, null) = (libc::STDIN_FILENO, c"/dev/null".as_ptr());
            let list = &raw mut actions.0;
            succeed(libc::posix_spawn_file_actions_addopen(list, stdin, null, libc::O_RDWR, 0))?;
            for (source, target) in passed {
                let source = source.as_raw_fd();
                succeed(libc::posix_spawn_file_actions_adddup2(list, source, *target))?;
            }
            Ok(actions)
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the value was initialised and is destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// The attributes that the keeper starts with: default signal dispositions, all signals blocked until it has chosen its
/// own, a new session.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let flags = libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK
            | c_int::from(libc::POSIX_SPAWN_SETSID);
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: init fills the value, and the set functions fill the sets, before they are used.
        unsafe {
            succeed(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            let mut attributes = Self(attributes.assume_init());
            let mut set = MaybeUninit::uninit();
            libc::sigfillset(set.as_mut_ptr());
            succeed(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, set.as_ptr()))?;
            succeed(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, set.as_ptr()))?;
            let flags = libc::c_short::try_from(flags).unwrap_or(0);
            succeed(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the value was initialised and is destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// Converts the error number that a function of `posix_spawn` returns.
fn succeed(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}
