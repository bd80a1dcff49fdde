//! The client's two ends of the control socket: commands out, events in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::descriptor::{interest, signal_handle, wait};
use crate::message::{BODY_LIMIT, Command, KeeperEvent, Program, Stopped, WorkerKey};
use crate::process_id;
use crate::socket::{Outgoing, PACKET_LIMIT, open_packet, receive};
use crate::status::ExitStatus;
use crate::token::TreeToken;

/// Maximum time that a command waits for a keeper that does not read. A keeper answers within milliseconds unless it is
/// stopped.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time that a keeper that has closed its socket may take to exit before it is killed.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// The reason why a command did not reach the keeper.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The keeper does not read: it is stopped, or the machine is badly overloaded.
    #[error("the keeper has not read a command for {} ms", waited.as_millis())]
    Busy {
        /// The time that this call waited.
        waited: Duration,
    },
    /// The keeper is dead: [`Events::next`] returns its exit status.
    #[error("the keeper has ended")]
    Gone,
    /// Arguments and environment are larger than any kernel executes.
    #[error("a command has {size} bytes, and the limit is {BODY_LIMIT}")]
    TooLarge {
        /// Size of the command, bytes.
        size: usize,
    },
    /// The kernel refused to send it.
    #[error("a command could not be sent: {source}")]
    Send {
        /// The error of the system.
        source: io::Error,
    },
}

impl CommandError {
    /// Returns true if the same command may be sent again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Send { .. })
    }
}

/// The error that the keeper is dead and reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the keeper ended with {status}")]
pub struct KeeperLost {
    /// The exit status of the keeper: code 0 after a shutdown.
    pub status: ExitStatus,
}

/// The sending end for commands. Several threads may use it at the same time.
#[derive(Debug, Clone)]
pub struct Commands {
    link: Arc<Link>,
    token: TreeToken,
}

/// The part that both ends share.
#[derive(Debug)]
pub(crate) struct Link {
    /// The control socket.
    pub(crate) socket: OwnedFd,
    /// The handle of the keeper.
    ///
    /// The socket alone does not show that the keeper is dead: if another thread of this process was forking when the
    /// keeper was launched, its child holds a copy of the keeper's end until it executes a program, or for ever.
    pub(crate) keeper: OwnedFd,
}

impl Commands {
    pub(crate) fn new(link: Arc<Link>, token: TreeToken) -> Self {
        Self { link, token }
    }

    /// Returns the token of this tree, for [`crate::kill_tree_leftovers`].
    #[must_use]
    pub fn token(&self) -> &TreeToken {
        &self.token
    }

    /// Starts a zygote; `descriptors` become its descriptors from 4 up.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn start_zygote(
        &self,
        zygote: u32,
        program: Program,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), CommandError> {
        self.send(&Command::StartZygote { zygote, program }, descriptors)
    }

    /// Makes a zygote fork a worker; `descriptors` go to the zygote with the request.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn spawn(
        &self,
        zygote: u32,
        worker: WorkerKey,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), CommandError> {
        self.send(&Command::Spawn { zygote, worker }, descriptors)
    }

    /// Executes a program as a worker; `descriptors` become its descriptors from 3 up.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn spawn_fresh(
        &self,
        worker: WorkerKey,
        program: Program,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), CommandError> {
        self.send(&Command::SpawnFresh { worker, program }, descriptors)
    }

    /// Sends a signal to a worker and its descendants. SIGKILL is repeated until all of them are dead.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn kill(&self, worker: WorkerKey, signal: i32) -> Result<(), CommandError> {
        self.send(&Command::Kill { worker, signal }, &[])
    }

    /// Kills the processes that one task of a worker started.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn end_started(&self, worker: WorkerKey, by: Stopped) -> Result<(), CommandError> {
        self.send(&Command::EndStarted { worker, by }, &[])
    }

    /// Sends a signal to a worker alone.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn signal(&self, worker: WorkerKey, signal: i32) -> Result<(), CommandError> {
        self.send(&Command::Signal { worker, signal }, &[])
    }

    /// Makes a zygote exit; its workers live on.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn stop_zygote(&self, zygote: u32) -> Result<(), CommandError> {
        self.send(&Command::StopZygote { zygote }, &[])
    }

    /// Ends the tree after its workers have exited, or after the grace time.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn shutdown(&self, grace: Duration) -> Result<(), CommandError> {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.send(&Command::Shutdown { grace_ms }, &[])
    }

    /// Sends a command with descriptors, which stay the caller's.
    ///
    /// Success means that the command is in flight. A keeper that dies now may not have read it, which the events
    /// report.
    ///
    /// # Errors
    /// See [`CommandError`]. Nothing was sent then.
    pub fn send(
        &self,
        command: &Command,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), CommandError> {
        let failed = |source| CommandError::Send { source };
        let encoded = command.encode();
        let size = encoded.1.len();
        if size > BODY_LIMIT {
            return Err(CommandError::TooLarge { size });
        }
        let copies: io::Result<Vec<OwnedFd>> =
            descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect();
        let message = Outgoing::new(encoded, copies.map_err(failed)?).map_err(failed)?;
        let start = Instant::now();
        loop {
            if is_over(&self.link.keeper, Duration::ZERO) {
                return Err(CommandError::Gone);
            }
            match message.send(self.link.socket.as_fd()) {
                Ok(()) => return Ok(()),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => {
                        let waited = start.elapsed();
                        let Some(rest) = COMMAND_PATIENCE.checked_sub(waited) else {
                            return Err(CommandError::Busy { waited });
                        };
                        let mut writable = [
                            interest(&self.link.socket, libc::POLLOUT),
                            interest(&self.link.keeper, libc::POLLIN),
                        ];
                        wait(&mut writable, Some(rest)).map_err(failed)?;
                    }
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        return Err(CommandError::Gone);
                    }
                    _ => return Err(failed(error)),
                },
            }
        }
    }
}

/// The receiving end for events, and the owner of the keeper's process.
///
/// [`Events::next`] returns at once if its descriptor ([`AsFd`]) or [`Events::keeper`] is readable. Dropping the value
/// ends the tree: it shuts the socket down, waits up to a second for the keeper to exit, and reaps it. In a forked
/// child of the client dropping does nothing.
#[derive(Debug)]
pub struct Events {
    link: Arc<Link>,
    pid: i32,
    lost: Option<KeeperLost>,
    owner: i32,
}

impl Events {
    pub(crate) fn new(link: Arc<Link>, pid: i32) -> Self {
        Self { link, pid, lost: None, owner: process_id() }
    }

    /// Returns the keeper's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the keeper's handle, which is readable once the keeper is dead. Use it for waiting only:
    /// [`Events::next`] reaps the keeper.
    #[must_use]
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.link.keeper.as_fd()
    }

    /// Waits for the next event. A `timeout` of `None` waits for ever; zero does not wait.
    ///
    /// # Errors
    /// [`KeeperLost`] if the keeper is dead and all events that it had sent were returned. All later calls return the
    /// same error.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<KeeperEvent>, KeeperLost> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(lost) = self.lost {
                return Err(lost);
            }
            // This check comes before the last read of the socket, so that no event is missed.
            let dead = is_over(&self.link.keeper, Duration::ZERO);
            match self.look() {
                SocketRead::Event(event) => return Ok(Some(event)),
                SocketRead::Nothing if !dead => {}
                SocketRead::Nothing | SocketRead::Closed => return Err(self.bury()),
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Ok(None);
            }
            let mut polled = [
                interest(&self.link.socket, libc::POLLIN),
                interest(&self.link.keeper, libc::POLLIN),
            ];
            if wait(&mut polled, rest).is_err() {
                return Err(self.bury());
            }
        }
    }

    /// Reads a packet if there is one.
    fn look(&self) -> SocketRead {
        let mut buffer = [0; PACKET_LIMIT];
        let packet = match receive(self.link.socket.as_fd(), &mut buffer) {
            Ok(packet) if packet.size > 0 => packet,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return SocketRead::Nothing;
            }
            _ => return SocketRead::Closed,
        };
        let size = packet.size;
        let opened = open_packet(&buffer[..size], packet)
            .and_then(|(kind, body, descriptors)| KeeperEvent::decode(kind, &body, descriptors));
        opened.map_or(SocketRead::Closed, SocketRead::Event)
    }

    /// Reaps the keeper, which is dead, exiting, or misbehaving. Kills it if it does not exit in time.
    fn bury(&mut self) -> KeeperLost {
        if !is_over(&self.link.keeper, EXIT_PATIENCE) {
            // A failure means that it has exited just now.
            let _ = signal_handle(self.link.keeper.as_fd(), libc::SIGKILL);
        }
        let lost = KeeperLost { status: reap(&self.link.keeper, 0) };
        self.lost = Some(lost);
        lost
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if self.lost.is_some() || self.owner != process_id() {
            return;
        }
        // SAFETY: a plain call on a descriptor that this value owns.
        unsafe { libc::shutdown(self.link.socket.as_raw_fd(), libc::SHUT_RDWR) };
        if is_over(&self.link.keeper, EXIT_PATIENCE) {
            reap(&self.link.keeper, libc::WNOHANG);
        }
    }
}

/// The result of reading the socket.
enum SocketRead {
    Event(KeeperEvent),
    Nothing,
    Closed,
}

/// Returns true if the process of a handle is dead or dies within `patience`.
fn is_over(keeper: &OwnedFd, patience: Duration) -> bool {
    let start = Instant::now();
    loop {
        let rest = patience.saturating_sub(start.elapsed());
        if wait(&mut [interest(keeper, libc::POLLIN)], Some(rest)).unwrap_or(false) {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
    }
}

/// Reaps the child of a handle, and only that one.
fn reap(keeper: &OwnedFd, flags: libc::c_int) -> ExitStatus {
    let id = libc::id_t::try_from(keeper.as_raw_fd()).unwrap_or(libc::id_t::MAX);
    loop {
        // SAFETY: the structure outlives the calls; the fields read are those that waitid fills.
        let (result, code, status) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let result = libc::waitid(libc::P_PIDFD, id, &raw mut info, libc::WEXITED | flags);
            (result, info.si_code, info.si_status())
        };
        if result < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return ExitStatus::Unknown;
        }
        return match code {
            libc::CLD_EXITED => ExitStatus::Code(status),
            libc::CLD_KILLED => ExitStatus::Signal { signal: status, core: false },
            libc::CLD_DUMPED => ExitStatus::Signal { signal: status, core: true },
            _ => ExitStatus::Unknown,
        };
    }
}
