//! The keeper process: one thread, one loop around `ppoll`, no locks, and no timers except the timeout of the poll.
//!
//! It is executed with its client's standard output and error at 1 and 2, the control socket at 3 and a handle of the
//! client at 4 ([`crate::launch()`]). It ends when the client is dead or has closed the socket, or after a shutdown
//! command.

mod commands;
mod connection;
mod execute;
mod oom;
mod peek;
mod poll;
mod reap;
mod sink;
mod stderr;
mod streams;
mod tail;
mod workers;
mod zygotes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Instant;

use gristmill_sync::job_signals;

use crate::descent::DescendantKill;
use crate::descriptor::{check, duplicate, raise_descriptor_limit, watched_signals};
use crate::message::{KeeperEvent, WorkerKey};
use crate::process_id;
use crate::token::TreeToken;
use connection::Connection;
use oom::OomWatch;
use sink::Sink;
use streams::Streams;
use workers::Worker;
use zygotes::Zygote;

/// The descriptor at which [`crate::launch()`] puts the control socket.
pub(crate) const CONTROL_DESCRIPTOR: RawFd = 3;
/// The descriptor at which [`crate::launch()`] puts the handle of the client.
pub(crate) const CLIENT_DESCRIPTOR: RawFd = 4;
/// Exit code of a keeper that was not started by [`crate::launch()`], or whose kernel lacks a required feature.
const UNUSABLE: u8 = 70;

/// The state of the keeper.
struct Server {
    connection: Connection,
    /// The handle of the client's process.
    client: OwnedFd,
    signals: OwnedFd,
    token: Option<TreeToken>,
    oom: OomWatch,
    zygotes: BTreeMap<u32, Zygote>,
    workers: BTreeMap<WorkerKey, Worker>,
    streams: Streams,
    kills: Vec<DescendantKill>,
    /// The time at which a shutdown stops waiting for workers.
    closing: Option<Instant>,
    /// The limit on open descriptors for programs, if the keeper has raised its own.
    descriptor_limit: Option<libc::rlimit>,
}

/// Runs a keeper until its client ends. This is all of the `gristmill-keeper` program.
#[must_use]
pub fn serve() -> ExitCode {
    match Server::new() {
        Ok(mut server) => {
            server.run();
            server.end_tree();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::from(UNUSABLE),
    }
}

impl Server {
    fn new() -> io::Result<Self> {
        let control = inherited(CONTROL_DESCRIPTOR)?;
        let client = inherited(CLIENT_DESCRIPTOR)?;
        close_above(CLIENT_DESCRIPTOR);
        settle()?;
        Ok(Self {
            connection: Connection::new(control),
            client,
            signals: watched_signals()?,
            token: None,
            oom: OomWatch::new(),
            zygotes: BTreeMap::new(),
            workers: BTreeMap::new(),
            streams: Streams::new(Sink::new(duplicate(io::stderr().as_fd(), CONTROL_DESCRIPTOR)?))?,
            kills: Vec::new(),
            closing: None,
            descriptor_limit: raise_descriptor_limit(),
        })
    }

    fn run(&mut self) {
        self.tell(&KeeperEvent::Up { pid: process_id() });
        while !self.is_done() {
            // The client hears of an end after the text that came before it.
            self.streams.flush();
            self.connection.flush();
            self.wait_and_serve();
            self.tick(Instant::now());
        }
        self.streams.flush();
        self.connection.flush();
    }

    /// Returns true if the client is gone, or if its shutdown has nothing more to wait for.
    fn is_done(&self) -> bool {
        let Some(deadline) = self.closing else { return self.connection.is_gone };
        // A ready zygote exits by itself, and may have work to do before. A starting zygote is not waited for.
        let is_left = !self.workers.is_empty() || self.zygotes.values().any(|one| one.is_ready());
        self.connection.is_gone || !is_left || deadline <= Instant::now()
    }

    fn tick(&mut self, now: Instant) {
        self.zygotes.values_mut().for_each(|zygote| zygote.tick(now));
        self.streams.tick(now);
        self.kills.retain_mut(|kill| !kill.round().is_empty());
    }

    /// Sends an event to the client, now or once the client reads.
    fn tell(&mut self, event: &KeeperEvent) {
        self.tell_with(event, Vec::new());
    }

    fn tell_with(&mut self, event: &KeeperEvent, descriptors: Vec<OwnedFd>) {
        self.connection.tell(event, descriptors);
    }

    /// Kills all remaining processes of the tree, reaps them, and writes the rest of their standard error.
    fn end_tree(&mut self) {
        let workers = self.workers.values().map(|worker| worker.pid);
        let zygotes = self.zygotes.values().map(|zygote| zygote.pid);
        let certain: BTreeSet<i32> = workers.chain(zygotes).collect();
        for &pid in &certain {
            // SAFETY: the call takes two integers; the id of an unreaped child is not reused.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if let Some(token) = self.token.clone() {
            DescendantKill::tree(&token, certain).finish(reap::discard_all);
        }
        self.streams.finish();
    }
}

/// Takes ownership of a descriptor that the keeper was executed with.
fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain call on a number; it fails if the number is not open, and marks it otherwise.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and no other code in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes the descriptors that the keeper inherited by accident.
fn close_above(last: RawFd) {
    // SAFETY: nothing above `last` has been opened by this process yet.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, last + 1, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > last) {
        // SAFETY: as above; the directory's own descriptor is closed already, which gives an error.
        unsafe { libc::close(number) };
    }
}

/// Makes this process the parent of all orphans below it, and ignores the signals that end or stop other processes.
fn settle() -> io::Result<()> {
    let stops = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    for signal in job_signals::all().chain([libc::SIGPIPE, libc::SIGXFSZ]).chain(stops) {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: the calls take integers and a string, and a set that is filled before it is read.
    unsafe {
        // The launch blocks all signals until here. Those that came meanwhile were dropped by the calls above.
        let mut nothing = std::mem::zeroed();
        libc::sigemptyset(&raw mut nothing);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const nothing, std::ptr::null_mut()))?;
        if libc::getsid(0) != libc::getpid() {
            libc::setsid();
        }
        libc::prctl(libc::PR_SET_NAME, c"gristmill".as_ptr());
        libc::chdir(c"/".as_ptr());
        check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
    }
    Ok(())
}
