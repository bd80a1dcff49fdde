//! The keeper process: one thread, one loop around `ppoll`, no lock, no timer but the timeout of
//! the poll.
//!
//! It is executed with its client's standard output and error at 1 and 2, the control socket at 3
//! and a handle of the client at 4 ([`crate::launch()`]). It ends when the client is dead or has
//! closed the socket, or when it was told to.

mod commands;
mod execute;
mod oom;
mod poll;
mod reap;
mod sink;
mod stderr;
mod tail;
mod workers;
mod zygotes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Instant;

use crate::descent::Hunt;
use crate::descriptor::{check, child_signals, duplicate, raise_descriptor_limit};
use crate::message::{Event, WorkerKey};
use crate::process_id;
use crate::socket::Outgoing;
use crate::token::TreeToken;
use oom::OomWatch;
use sink::Sink;
use stderr::Stderr;
use workers::Worker;
use zygotes::Zygote;

/// Where [`crate::launch()`] puts the control socket.
pub(crate) const CONTROL_DESCRIPTOR: RawFd = 3;
/// Where [`crate::launch()`] puts the handle of the client.
pub(crate) const CLIENT_DESCRIPTOR: RawFd = 4;
/// Exit code of a keeper that was not started by [`crate::launch()`], or whose kernel lacks what it
/// needs.
const UNUSABLE: u8 = 70;

/// Everything the keeper knows.
struct Server {
    control: OwnedFd,
    client: OwnedFd,
    signals: OwnedFd,
    token: Option<TreeToken>,
    /// Events that the client has not taken yet.
    outbox: VecDeque<Outgoing>,
    sink: Sink,
    oom: OomWatch,
    zygotes: BTreeMap<u32, Zygote>,
    workers: BTreeMap<WorkerKey, Worker>,
    streams: BTreeMap<u64, Stderr>,
    next_stream: u64,
    hunts: Vec<Hunt>,
    /// When a shutdown stops waiting for workers.
    closing: Option<Instant>,
    client_gone: bool,
    /// The limit on open descriptors that programs get, where the keeper has raised its own.
    descriptor_limit: Option<libc::rlimit>,
}

/// Runs a keeper until its client goes: the whole of the `gristmill-keeper` program.
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
            control,
            client,
            signals: child_signals()?,
            token: None,
            outbox: VecDeque::new(),
            sink: Sink::new(duplicate(io::stderr().as_fd(), CONTROL_DESCRIPTOR)?),
            oom: OomWatch::new(),
            zygotes: BTreeMap::new(),
            workers: BTreeMap::new(),
            streams: BTreeMap::new(),
            next_stream: 0,
            hunts: Vec::new(),
            closing: None,
            client_gone: false,
            descriptor_limit: raise_descriptor_limit(),
        })
    }

    fn run(&mut self) {
        self.tell(&Event::Up { pid: process_id() });
        while !self.is_done() {
            self.flush_outbox();
            self.sink.flush();
            self.wait_and_serve();
            self.tick(Instant::now());
        }
        self.flush_outbox();
    }

    /// Whether the client is gone, or the shutdown it asked for has nothing more to wait for.
    fn is_done(&self) -> bool {
        let Some(deadline) = self.closing else { return self.client_gone };
        // A zygote that is ready exits by itself, and may have something to do before; one that starts is not waited for.
        let is_left = !self.workers.is_empty() || self.zygotes.values().any(|one| one.is_ready());
        self.client_gone || !is_left || deadline <= Instant::now()
    }

    fn tick(&mut self, now: Instant) {
        for stream in self.streams.values_mut() {
            stream.tick(&mut self.sink, now);
        }
        self.zygotes.values_mut().for_each(|zygote| zygote.tick(now));
        self.streams.retain(|_, stream| !stream.is_over());
        self.hunts.retain_mut(|hunt| !hunt.round().is_empty());
    }

    /// Reports something to the client, now or as soon as it reads.
    fn tell(&mut self, event: &Event) {
        self.tell_with(event, Vec::new());
    }

    fn tell_with(&mut self, event: &Event, descriptors: Vec<OwnedFd>) {
        match Outgoing::new(event.encode(), descriptors) {
            Ok(message) => self.outbox.push_back(message),
            // Only a body that needs a memory file can fail, and no event is that large.
            Err(_) => self.client_gone = true,
        }
    }

    fn flush_outbox(&mut self) {
        while let Some(message) = self.outbox.front_mut() {
            match message.send(self.control.as_fd()) {
                Ok(()) => {
                    self.outbox.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Too many descriptors are under way: the client gets the event without its handle.
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    message.drop_descriptors();
                }
                Err(_) => {
                    self.client_gone = true;
                    return;
                }
            }
        }
    }

    /// Kills everything that is left of the tree, reaps it, and writes the last words.
    fn end_tree(&mut self) {
        let workers = self.workers.values().map(|worker| worker.pid);
        let zygotes = self.zygotes.values().map(|zygote| zygote.pid);
        let certain: BTreeSet<i32> = workers.chain(zygotes).collect();
        for &pid in &certain {
            // SAFETY: the call takes two integers; an unreaped child's id belongs to nobody else.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if let Some(token) = self.token.clone() {
            Hunt::tree(&token, certain).finish(reap::discard_all);
        }
        let now = Instant::now();
        for stream in self.streams.values_mut() {
            stream.last_words(&mut self.sink, now);
        }
        self.sink.finish();
    }
}

/// Takes over a descriptor that the keeper was executed with.
fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain call on a number, which tells whether it is open, and marks it.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and nothing in this process has taken it over before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes what the client had left open for its children by accident.
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

/// Makes this process what a keeper is: the parent of all orphans below it, deaf to what ends other
/// processes.
fn settle() -> io::Result<()> {
    let deaf = [libc::SIGINT, libc::SIGHUP, libc::SIGTERM, libc::SIGQUIT, libc::SIGPIPE];
    let stops = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGUSR1, libc::SIGUSR2];
    for signal in deaf.into_iter().chain(stops) {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: the calls take integers and a string.
    unsafe {
        if libc::getsid(0) != libc::getpid() {
            libc::setsid();
        }
        libc::prctl(libc::PR_SET_NAME, c"gristmill".as_ptr());
        libc::chdir(c"/".as_ptr());
        check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
    }
    Ok(())
}
