//! Zygotes: their start, their forks and their end.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Server;
use super::commands::tree_variables;
use super::execute::{Execution, Outcome, SpawnEnvironment, execute};
use super::workers::Worker;
use crate::descriptor::{process_handle, signal_handle, socket_pair};
use crate::message::{KeeperEvent, Output, Program, WorkerKey, ZygoteEnd};
use crate::process_table::started_with;
use crate::socket::{ask_for_credentials, receive, send};
use crate::status::ExitStatus;
use crate::token::{TREE_VARIABLE, TreeToken};
use crate::zygote_frame::{ZYGOTE_FRAME_SIZE, ZygoteFrame};

/// Time that a zygote without a socket may take to exit: it may be writing a traceback.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// A process that workers are forked from.
#[derive(Debug)]
pub(super) struct Zygote {
    pub(super) pid: i32,
    handle: Option<OwnedFd>,
    /// The control socket; `None` after it was found closed.
    socket: Option<OwnedFd>,
    /// The pipe that tells if the exec of the zygote's program succeeded.
    outcome: Outcome,
    stream: u64,
    stderr: Output,
    ready: bool,
    /// Forks that the client requested and that have no answer yet.
    pending: BTreeMap<WorkerKey, Pending>,
    /// The pending forks that the zygote's socket has not taken yet, with their descriptors.
    unsent: VecDeque<(WorkerKey, Vec<OwnedFd>)>,
    /// The time at which the keeper found the socket closed; the zygote should exit soon after.
    closed_at: Option<Instant>,
    /// The reason for which the keeper killed the zygote, for [`KeeperEvent::ZygoteLost`].
    complaint: Option<&'static str>,
}

/// A worker that has not started yet.
#[derive(Debug)]
struct Pending {
    stream: u64,
    /// The count of out-of-memory kills before its start.
    ooms_before: u64,
    /// The signal that the worker gets after its start.
    pending_signal: Option<i32>,
}

impl Zygote {
    /// Returns the control socket and the poll events to wait for.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, libc::c_short)> {
        let waits = self.ready && !self.unsent.is_empty();
        let events = libc::POLLIN | if waits { libc::POLLOUT } else { 0 };
        self.socket.as_ref().map(|socket| (socket.as_fd(), events))
    }

    /// Returns true if the zygote has reported that it is ready to fork.
    pub(super) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Makes the zygote exit, by an end of file on its socket. Workers that the zygote forks before it exits can still
    /// announce themselves.
    pub(super) fn stop(&mut self) {
        if let Some(socket) = &self.socket {
            shut(socket, libc::SHUT_WR);
        }
    }

    /// Stores a signal for a worker that has not started yet.
    pub(super) fn signal_on_start(&mut self, worker: WorkerKey, signal: i32) {
        if let Some(pending) = self.pending.get_mut(&worker) {
            pending.pending_signal = Some(signal);
        }
    }

    /// Sends the pending forks, until the zygote's socket takes no more.
    fn flush(&mut self) {
        let Some(socket) = self.socket.as_ref().filter(|_| self.ready) else { return };
        while let Some((worker, descriptors)) = self.unsent.front() {
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match send(socket.as_fd(), &[&ZygoteFrame::Fork(*worker).encode()], &borrowed) {
                Ok(()) => {
                    self.unsent.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The zygote is slow, or has ended; its end is reported when it is reaped.
                Err(_) => return,
            }
        }
    }

    /// Returns the time at which the keeper kills the zygote unless it has exited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waits = self.closed_at.filter(|_| self.complaint.is_none());
        waits.map(|closed_at| closed_at + EXIT_PATIENCE)
    }

    /// Kills the zygote if it has not exited by its deadline.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.condemn("the zygote closed its control socket and did not exit");
        }
    }

    fn close(&mut self) {
        self.socket = None;
        self.closed_at = Some(Instant::now());
    }

    fn condemn(&mut self, complaint: &'static str) {
        self.complaint.get_or_insert(complaint);
        if let Some(handle) = &self.handle {
            // The kill fails only if the zygote is dead already; its exit is reported in any case.
            let _ = signal_handle(handle.as_fd(), libc::SIGKILL);
        }
    }
}

impl Server {
    pub(super) fn start_zygote(
        &mut self,
        id: u32,
        program: &Program,
        descriptors: Vec<OwnedFd>,
        token: &TreeToken,
    ) {
        if self.zygotes.contains_key(&id) {
            return self.refuse(format!("zygote {id} exists already"));
        }
        if let Err(error) = self.try_start_zygote(id, program, descriptors, token) {
            self.zygote_not_started(id, error.raw_os_error().unwrap_or(libc::EINVAL));
        }
    }

    fn try_start_zygote(
        &mut self,
        id: u32,
        program: &Program,
        descriptors: Vec<OwnedFd>,
        token: &TreeToken,
    ) -> io::Result<()> {
        let (socket, theirs) = socket_pair()?;
        ask_for_credentials(socket.as_fd())?;
        let (stream, stderr) = self.streams.add(program.stderr)?;
        let passed = std::iter::once(theirs.as_fd()).chain(descriptors.iter().map(AsFd::as_fd));
        let around = SpawnEnvironment {
            variables: tree_variables(token),
            stderr: stderr.as_fd(),
            passed: passed.collect(),
            descriptor_limit: self.descriptor_limit,
        };
        let started = match execute(program, around) {
            Ok(started) => started,
            Err(error) => {
                self.streams.remove(stream);
                return Err(error);
            }
        };
        let zygote = Zygote {
            pid: started.pid,
            handle: process_handle(started.pid).ok(),
            socket: Some(socket),
            outcome: started.outcome,
            stream,
            stderr: program.stderr,
            ready: false,
            pending: BTreeMap::new(),
            unsent: VecDeque::new(),
            closed_at: None,
            complaint: None,
        };
        self.zygotes.insert(id, zygote);
        Ok(())
    }

    /// Requests a worker from a zygote. The answer is a start or a failure, now or later.
    pub(super) fn spawn(&mut self, id: u32, worker: WorkerKey, descriptors: Vec<OwnedFd>) {
        if self.is_taken(worker) {
            return self.spawn_failed(worker, "a worker of this slot and epoch exists already");
        }
        let Some(output) = self.zygotes.get(&id).map(|zygote| zygote.stderr) else {
            return self.spawn_failed(worker, "the zygote does not exist");
        };
        let (stream, stderr) = match self.streams.add(output) {
            Ok(made) => made,
            Err(error) => return self.spawn_failed(worker, &error.to_string()),
        };
        let ooms_before = self.oom.count();
        if let Some(zygote) = self.zygotes.get_mut(&id) {
            zygote.pending.insert(worker, Pending { stream, ooms_before, pending_signal: None });
            let passed = std::iter::once(stderr).chain(descriptors).collect();
            zygote.unsent.push_back((worker, passed));
            zygote.flush();
        }
    }

    /// Returns true if a worker with this key lives or is pending.
    pub(super) fn is_taken(&self, worker: WorkerKey) -> bool {
        self.workers.contains_key(&worker)
            || self.zygotes.values().any(|zygote| zygote.pending.contains_key(&worker))
    }

    /// Reads all packets of a zygote and its new workers, then sends the pending forks.
    pub(super) fn serve_zygote(&mut self, id: u32) {
        let mut buffer = [0; ZYGOTE_FRAME_SIZE + 1];
        while let Some(zygote) = self.zygotes.get_mut(&id) {
            let Some(socket) = &zygote.socket else { return };
            match receive(socket.as_fd(), &mut buffer) {
                Ok(packet) if packet.size == 0 => {
                    zygote.close();
                    return;
                }
                Ok(packet) => match ZygoteFrame::decode(&buffer[..packet.size]) {
                    Some(frame) => self.take_frame(id, frame, packet.sender),
                    None => zygote.condemn("the zygote sent a malformed packet"),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    zygote.flush();
                    return;
                }
                Err(_) => {
                    zygote.close();
                    return;
                }
            }
        }
    }

    fn take_frame(&mut self, id: u32, frame: ZygoteFrame, sender: Option<i32>) {
        let Some(zygote) = self.zygotes.get_mut(&id) else { return };
        match frame {
            ZygoteFrame::Ready { pid } if sender == Some(pid) && pid == zygote.pid => {
                if !std::mem::replace(&mut zygote.ready, true) {
                    self.tell(&KeeperEvent::ZygoteReady { zygote: id, pid });
                }
            }
            ZygoteFrame::Started { worker, pid } if sender == Some(pid) => {
                match zygote.pending.remove(&worker) {
                    Some(pending) => self.welcome(worker, pid, &pending),
                    None => self.disown(pid),
                }
            }
            ZygoteFrame::ForkFailed { worker, errno } => {
                if let Some(pending) = zygote.pending.remove(&worker) {
                    self.streams.remove(pending.stream);
                    let error = io::Error::from_raw_os_error(errno);
                    self.spawn_failed(worker, &format!("the zygote could not fork: {error}"));
                }
            }
            _ => zygote.condemn("the zygote sent a packet that only the keeper may send"),
        }
    }

    fn welcome(&mut self, key: WorkerKey, pid: i32, pending: &Pending) {
        // The worker is not yet the keeper's child, because its first parent still lives, or is dead and reaped already.
        if !super::reap::is_child(pid) {
            self.streams.remove(pending.stream);
            self.disown(pid);
            let text = "the worker announced itself before it was a child of the keeper, or died";
            return self.spawn_failed(key, text);
        }
        self.add_worker(key, Worker::new(pid, pending.stream, pending.ooms_before, None));
        self.announce(key);
        if let (Some(signal), Some(token)) = (pending.pending_signal, self.token.clone()) {
            self.kill(key, signal, &token);
        }
    }

    /// Kills a process that claims to be a worker but is not pending, if it belongs to this tree.
    fn disown(&self, pid: i32) {
        let Ok(handle) = process_handle(pid) else { return };
        let mark = self.token.as_ref().map(|token| format!("{TREE_VARIABLE}={token}"));
        if mark.is_some_and(|mark| started_with(pid, mark.as_bytes())) {
            // A failure means that the process is dead already.
            let _ = signal_handle(handle.as_fd(), libc::SIGKILL);
        }
    }

    /// Reports a zygote that was just reaped, and the workers that it will not fork any more.
    pub(super) fn zygote_ended(&mut self, id: u32, status: ExitStatus) {
        if let Some(socket) = self.zygotes.get(&id).and_then(|zygote| zygote.socket.as_ref()) {
            // From here on a late worker cannot announce itself, so it exits. Announcements that were sent before are
            // still read.
            shut(socket, libc::SHUT_RD);
        }
        self.serve_zygote(id);
        let Some(mut zygote) = self.zygotes.remove(&id) else { return };
        let mut stderr_tail = self.streams.last_words(zygote.stream);
        let end = match zygote.outcome.look() {
            Execution::Failed(errno) => {
                stderr_tail = io::Error::from_raw_os_error(errno).to_string().into_bytes();
                ZygoteEnd::NotStarted { errno }
            }
            Execution::Running | Execution::Pending => ZygoteEnd::Exited(status),
        };
        if let Some(complaint) = zygote.complaint.filter(|_| status.is_sigkill()) {
            stderr_tail.extend_from_slice(b"the keeper ended this zygote: ");
            stderr_tail.extend_from_slice(complaint.as_bytes());
        }
        self.tell(&KeeperEvent::ZygoteLost { zygote: id, end, stderr_tail });
        for (worker, pending) in zygote.pending {
            self.streams.remove(pending.stream);
            self.spawn_failed(worker, "its zygote ended before the worker had started");
        }
    }
}

fn shut(socket: &OwnedFd, how: libc::c_int) {
    // SAFETY: a plain call on a descriptor that we own.
    unsafe { libc::shutdown(socket.as_raw_fd(), how) };
}
