//! The zygote's end of its socket: it decides when to fork candidates, and which worker each of them becomes.
//!
//! Every worker begins as a *candidate*: a process that was forked for the next requested worker, and that sleeps on a
//! socket of its own until it is given one. One candidate is forked ahead, the *stand-by*, so that a lost worker is
//! replaced without a fork. The stand-by has run no initializer and no task, is known only to its zygote, and exits
//! with it.
//!
//! Guarantees: each requested worker is announced by its candidate or reported as failed. A candidate's socket shows
//! its state: a byte when its worker is announced, the end of file when the worker is at work or dead.
//!
//! The fork itself, and the steps of a candidate before it waits, are done by the caller.

mod candidate;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::descriptor::{interest, raise_descriptor_limit, socket_pair, wait};
use crate::message::WorkerKey;
use crate::process_id;
use crate::socket::{Packet, receive, send, send_patiently};
use crate::zygote_frame::{ZYGOTE_FRAME_SIZE, ZygoteFrame};

pub use candidate::{AtWork, Candidate};

/// A requested worker, with its descriptors.
type WorkerRequest = (WorkerKey, Vec<OwnedFd>);

/// The next step of a zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteStep {
    /// Fork a candidate, then call [`Zygote::adopt`], or [`Zygote::give_up`] if the fork failed.
    Fork,
    /// Load one more part of the preload (modules that only later workers may need). If nothing is left to load, call
    /// [`Zygote::finish_warming`]. No stand-by is forked before that call.
    WarmUp,
    /// Run the handlers of signals that have arrived, if any: a signal may have interrupted the wait.
    Look,
    /// Exit: the keeper has closed its end, and all its requests are answered.
    Exit,
}

/// An assigned candidate: it was given a worker, and may not have announced it yet.
#[derive(Debug)]
struct PendingStart {
    worker: WorkerKey,
    socket: OwnedFd,
    announced: bool,
}

/// The state of a zygote: its candidates and pending requests.
#[derive(Debug)]
pub struct Zygote {
    control: OwnedFd,
    stand_by: Option<OwnedFd>,
    /// True if a stand-by should be forked. It is set when an assigned candidate is at work or dead, and unset by the
    /// next fork, so that a stand-by that dies by itself is not forked again and again.
    wants_stand_by: bool,
    requests: VecDeque<WorkerRequest>,
    starting: Vec<PendingStart>,
    /// True if the keeper will request no more workers.
    hung_up: bool,
    /// The state of the preload.
    warmth: PreloadState,
    /// The limit on descriptors for its workers; the zygote itself raises its own to the maximum.
    descriptor_limit: Option<libc::rlimit>,
}

/// The state of the preload: the loading of modules that only later workers may need. The names here call it warming up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreloadState {
    /// No worker was requested yet.
    Cold,
    /// The preload is due at this time.
    Due(Instant),
    /// The preload is complete.
    Warm,
}

/// Time between the first request for a worker and the preload: the first workers have the machine for themselves.
const WARM_UP_PAUSE: Duration = Duration::from_millis(100);

impl Zygote {
    /// Creates a zygote with the socket to the keeper.
    #[must_use]
    pub fn new(control: OwnedFd) -> Self {
        Self {
            control,
            stand_by: None,
            wants_stand_by: false,
            requests: VecDeque::new(),
            starting: Vec::new(),
            hung_up: false,
            warmth: PreloadState::Cold,
            descriptor_limit: raise_descriptor_limit(),
        }
    }

    /// Tells the keeper that it can request workers.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn announce(&self) -> io::Result<()> {
        let frame = ZygoteFrame::Ready { pid: process_id() }.encode();
        send_patiently(self.control.as_fd(), &frame)
    }

    /// Creates the two ends of a new candidate's socket (its *line*): the zygote's and the candidate's.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new_line() -> io::Result<(OwnedFd, OwnedFd)> {
        socket_pair()
    }

    /// Waits until the zygote has a step to do.
    ///
    /// # Errors
    /// The keeper's packets are invalid, or it is gone.
    pub fn next_step(&mut self) -> io::Result<ZygoteStep> {
        self.next_step_by(Instant::now)
    }

    /// Waits like [`Self::next_step`], with the caller's clock.
    fn next_step_by(&mut self, now: impl Fn() -> Instant) -> io::Result<ZygoteStep> {
        loop {
            self.hand_out();
            let pause = self.pause(now());
            let is_idle = self.starting.is_empty() && self.stand_by.is_none();
            let forks_ahead = self.warmth == PreloadState::Warm && self.wants_stand_by && is_idle;
            match (self.requests.is_empty(), self.hung_up) {
                (false, _) => return Ok(ZygoteStep::Fork),
                (true, true) => return Ok(ZygoteStep::Exit),
                (true, false) if forks_ahead => return Ok(ZygoteStep::Fork),
                (true, false) => {}
            }
            let mut polled = vec![interest(&self.control, libc::POLLIN)];
            let candidates =
                self.starting.iter().map(|pending| &pending.socket).chain(&self.stand_by);
            polled.extend(candidates.map(|socket| interest(socket, libc::POLLIN)));
            if !wait(&mut polled, pause)? {
                // The preload is due, and no event waits.
                if pause == Some(Duration::ZERO) {
                    return Ok(ZygoteStep::WarmUp);
                }
                if self.pause(now()) == Some(Duration::ZERO) {
                    continue;
                }
                return Ok(ZygoteStep::Look);
            }
            let mut is_readable = polled.iter().map(|entry| entry.revents != 0);
            let from_keeper = is_readable.next() == Some(true);
            let from_candidates: Vec<bool> = is_readable.collect();
            self.hear_candidates(&from_candidates)?;
            if from_keeper {
                self.hear_keeper()?;
            }
            if self.warmth == PreloadState::Cold && !self.requests.is_empty() {
                self.warmth = PreloadState::Due(now() + WARM_UP_PAUSE);
            }
        }
    }

    /// Records that the preload is complete.
    pub fn finish_warming(&mut self) {
        self.warmth = PreloadState::Warm;
    }

    /// Returns the time until the preload is due, or `None` if it is not due at any time.
    fn pause(&self, now: Instant) -> Option<Duration> {
        match self.warmth {
            PreloadState::Due(due) => Some(due.saturating_duration_since(now)),
            PreloadState::Cold | PreloadState::Warm => None,
        }
    }

    /// Adopts the candidate at the other end of the socket `line` as the stand-by.
    pub fn adopt(&mut self, line: OwnedFd) {
        self.wants_stand_by = false;
        self.stand_by = Some(line);
    }

    /// Records that no candidate could be forked, and reports the worker of the oldest order as failed.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn give_up(&mut self, errno: i32) -> io::Result<()> {
        self.wants_stand_by = false;
        self.requests.pop_front().map_or(Ok(()), |(worker, _)| self.report_failure(worker, errno))
    }

    /// Converts the zygote, in a candidate's process, into the candidate. Drops all state of the zygote. `line` is the
    /// candidate's end of its socket.
    #[must_use]
    pub fn into_candidate(self, line: OwnedFd) -> Candidate {
        if let Some(limit) = &self.descriptor_limit {
            // SAFETY: the structure outlives the call, which lowers a limit of this process.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
        }
        Candidate::new(self.control, line)
    }

    /// Gives the worker of the oldest order to the stand-by.
    fn hand_out(&mut self) {
        let Some((worker, descriptors)) = self.requests.front() else { return };
        let Some(line) = self.stand_by.take() else { return };
        let frame = ZygoteFrame::Fork(*worker).encode();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        // A stand-by that has died takes no packet. The order then stays in the queue, so the next step is a fork.
        if send(line.as_fd(), &[&frame], &borrowed).is_ok() {
            self.starting.push(PendingStart { worker: *worker, socket: line, announced: false });
            self.requests.pop_front();
        }
    }

    /// Reads the requests of the keeper.
    fn hear_keeper(&mut self) -> io::Result<()> {
        let mut buffer = [0; ZYGOTE_FRAME_SIZE + 1];
        loop {
            let Some(packet) = look(&self.control, &mut buffer)? else { return Ok(()) };
            if packet.size == 0 {
                self.hung_up = true;
                return Ok(());
            }
            let Some(ZygoteFrame::Fork(worker)) = ZygoteFrame::decode(&buffer[..packet.size])
            else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            self.requests.push_back((worker, packet.descriptors));
        }
    }

    /// Reads the packets of the assigned candidates. Drops the stand-by if its socket has any event: it has died.
    /// `are_readable` holds one flag for each start, then one for the stand-by.
    fn hear_candidates(&mut self, are_readable: &[bool]) -> io::Result<()> {
        let starting = std::mem::take(&mut self.starting);
        if are_readable.get(starting.len()) == Some(&true) {
            self.stand_by = None;
        }
        for (mut pending, &is_readable) in starting.into_iter().zip(are_readable) {
            let packet = if is_readable { look(&pending.socket, &mut [0])? } else { None };
            match packet {
                Some(packet) if packet.size == 0 => {
                    self.wants_stand_by = true;
                    if !pending.announced {
                        self.report_failure(pending.worker, libc::ECHILD)?;
                    }
                }
                other => {
                    pending.announced |= other.is_some();
                    self.starting.push(pending);
                }
            }
        }
        Ok(())
    }

    fn report_failure(&self, worker: WorkerKey, errno: i32) -> io::Result<()> {
        let frame = ZygoteFrame::ForkFailed { worker, errno }.encode();
        send_patiently(self.control.as_fd(), &frame)
    }
}

/// Reads a packet, if there is one. The end of the socket gives an empty packet.
fn look(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
    loop {
        match receive(socket.as_fd(), buffer) {
            Ok(packet) => return Ok(Some(packet)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                // The peer died with packets unread.
                io::ErrorKind::ConnectionReset => {
                    return Ok(Some(Packet::end()));
                }
                _ => return Err(error),
            },
        }
    }
}
