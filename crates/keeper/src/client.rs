//! The client's two ends: commands out, events in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::descriptor::{interest, signal_handle, wait};
use crate::message::{BODY_LIMIT, Command, Event, Program, WorkerKey};
use crate::process_id;
use crate::socket::{Outgoing, PACKET_LIMIT, open_packet, receive};
use crate::status::ExitStatus;
use crate::token::TreeToken;

/// How long a command waits for a keeper that does not read: it answers within milliseconds unless
/// it is stopped.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);
/// How long a keeper that has closed its socket may take to exit before it is killed.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// Why a command did not reach the keeper.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The keeper does not read; it is stopped, or the machine is badly overloaded.
    #[error("the keeper has not taken a command for {} ms", waited.as_millis())]
    Busy {
        /// How long this call waited.
        waited: Duration,
    },
    /// The keeper is dead: [`Events::next`] tells how it ended.
    #[error("the keeper is gone")]
    Gone,
    /// Arguments and environment are beyond what any kernel executes.
    #[error("a command has {size} bytes, where {BODY_LIMIT} are the limit")]
    TooLarge {
        /// Size of the command, bytes.
        size: usize,
    },
    /// The kernel refused to send it.
    #[error("a command could not be sent: {source}")]
    Send {
        /// Why.
        source: io::Error,
    },
}

impl CommandError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "keeper_busy",
            Self::Gone => "keeper_gone",
            Self::TooLarge { .. } => "keeper_command_too_large",
            Self::Send { .. } => "keeper_command_send",
        }
    }

    /// Whether the same command may be sent again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Send { .. })
    }
}

/// The keeper is dead, and reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the keeper ended with {status}")]
pub struct KeeperLost {
    /// How it ended: code 0 after a shutdown.
    pub status: ExitStatus,
}

/// Sends commands. Any thread may, at the same time.
#[derive(Debug, Clone)]
pub struct Commands {
    link: Arc<Link>,
    token: TreeToken,
}

/// What both ends share.
#[derive(Debug)]
pub(crate) struct Link {
    /// The control socket.
    pub(crate) socket: OwnedFd,
    /// The handle of the keeper.
    ///
    /// The socket alone does not tell that the keeper is dead: a child that another thread of this
    /// process was forking meanwhile holds a copy of the keeper's end until it executes something,
    /// or for ever.
    pub(crate) keeper: OwnedFd,
}

impl Commands {
    pub(crate) fn new(link: Arc<Link>, token: TreeToken) -> Self {
        Self { link, token }
    }

    /// The mark of this tree, for [`crate::kill_tree_leftovers`].
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

    /// Lets a zygote fork a worker; `descriptors` go to the zygote with the order.
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

    /// Signals a worker and its descent, with SIGKILL until nothing of it is left.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn kill(&self, worker: WorkerKey, signal: i32) -> Result<(), CommandError> {
        self.send(&Command::Kill { worker, signal }, &[])
    }

    /// Signals a worker alone.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn signal(&self, worker: WorkerKey, signal: i32) -> Result<(), CommandError> {
        self.send(&Command::Signal { worker, signal }, &[])
    }

    /// Lets a zygote exit; its workers live on.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn stop_zygote(&self, zygote: u32) -> Result<(), CommandError> {
        self.send(&Command::StopZygote { zygote }, &[])
    }

    /// Ends the tree once its workers have exited, or when the grace time is over.
    ///
    /// # Errors
    /// See [`Commands::send`].
    pub fn shutdown(&self, grace: Duration) -> Result<(), CommandError> {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.send(&Command::Shutdown { grace_ms }, &[])
    }

    /// Sends any command, with descriptors beside it, which stay the caller's.
    ///
    /// Success means that the command is under way: a keeper that dies now may not have read it,
    /// which the events tell.
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

/// Receives events and owns the keeper's process.
///
/// [`Events::next`] returns at once when its descriptor ([`AsFd`]) or [`Events::keeper`] is
/// readable. Dropping it ends the tree: it hangs up, waits up to a second for the keeper to exit,
/// and reaps it. In a forked child of the client dropping does nothing.
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

    /// The keeper's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The keeper's handle, readable once it is dead. For waiting only: [`Events::next`] reaps it.
    #[must_use]
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.link.keeper.as_fd()
    }

    /// Waits for the next event, for no longer than `timeout`; `None` waits for ever, zero only
    /// looks.
    ///
    /// # Errors
    /// The keeper is dead; events that it had sent come first. The same again from then on.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, KeeperLost> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(lost) = self.lost {
                return Err(lost);
            }
            // Whether it is dead is asked before its socket is read for the last time.
            let dead = is_over(&self.link.keeper, Duration::ZERO);
            match self.look() {
                Look::Event(event) => return Ok(Some(event)),
                Look::Nothing if !dead => {}
                Look::Nothing | Look::Closed => return Err(self.bury()),
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

    /// Takes a packet if there is one.
    fn look(&self) -> Look {
        let mut buffer = [0; PACKET_LIMIT];
        let packet = match receive(self.link.socket.as_fd(), &mut buffer) {
            Ok(packet) if packet.size > 0 => packet,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Look::Nothing;
            }
            _ => return Look::Closed,
        };
        let size = packet.size;
        let opened = open_packet(&buffer[..size], packet)
            .and_then(|(kind, body, descriptors)| Event::decode(kind, &body, descriptors));
        opened.map_or(Look::Closed, Look::Event)
    }

    /// Reaps the keeper, which is dead, exiting, or mad.
    fn bury(&mut self) -> KeeperLost {
        if !is_over(&self.link.keeper, EXIT_PATIENCE) {
            // It may have exited just now.
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
        // SAFETY: a plain call on a descriptor that we own.
        unsafe { libc::shutdown(self.link.socket.as_raw_fd(), libc::SHUT_RDWR) };
        if is_over(&self.link.keeper, EXIT_PATIENCE) {
            reap(&self.link.keeper, libc::WNOHANG);
        }
    }
}

/// What the socket has.
enum Look {
    Event(Event),
    Nothing,
    Closed,
}

/// Whether the process behind a handle is dead, or dies within `patience`.
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

/// Reaps the child behind a handle, and only that one.
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
