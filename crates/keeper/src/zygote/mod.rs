//! The zygote's end of its socket: which candidates it is to fork, and which worker each of them becomes.
//!
//! Every worker begins as a *candidate*: a process that was forked for whatever worker is asked for next, and that sleeps
//! on a socket of its own until it is given one. One candidate is forked ahead, the *stand-by*: a worker that is lost is
//! replaced without a fork. It has run no initializer and no task, is known to nobody but its zygote, and exits with it.
//!
//! Guarantees: each worker asked for is announced by its candidate, or reported as failed. A candidate's socket says how far
//! it is: a byte when its worker is announced, the end when the worker is at work or dead.
//!
//! Not here: the fork itself, and what a candidate does before it waits.

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

/// A worker that was asked for, with the descriptors that belong to it.
type Order = (WorkerKey, Vec<OwnedFd>);

/// What a zygote is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteStep {
    /// Fork a candidate: [`Zygote::adopt`] it, or [`Zygote::give_up`].
    Fork,
    /// Load a part of what later workers may need, which the first ones did not wait for: until [`Zygote::finish_warming`].
    /// No stand-by is forked before.
    WarmUp,
    /// Run the handlers of signals that have come, if any.
    Look,
    /// Exit: the keeper has hung up, and has what it asked for.
    Exit,
}

/// A candidate that has been given a worker.
#[derive(Debug)]
struct Birth {
    worker: WorkerKey,
    socket: OwnedFd,
    announced: bool,
}

/// A zygote's knowledge of its candidates.
#[derive(Debug)]
pub struct Zygote {
    control: OwnedFd,
    stand_by: Option<OwnedFd>,
    /// Whether a stand-by is to be forked: once after each birth, so that one that dies of itself is not forked for ever.
    wants_stand_by: bool,
    orders: VecDeque<Order>,
    births: Vec<Birth>,
    /// The keeper wants no more workers than it has asked for.
    hung_up: bool,
    warmth: Warmth,
    /// How many descriptors its workers may have; the zygote itself takes what it can get.
    descriptor_limit: Option<libc::rlimit>,
}

/// Whether what later workers may need is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warmth {
    /// Not before a first worker was asked for.
    Cold,
    /// Once this time has come.
    Due(Instant),
    Warm,
}

/// How long the first workers have the machine for themselves.
const WARM_UP_PAUSE: Duration = Duration::from_millis(100);

impl Zygote {
    /// Takes over the socket to the keeper.
    #[must_use]
    pub fn new(control: OwnedFd) -> Self {
        Self {
            control,
            stand_by: None,
            wants_stand_by: false,
            orders: VecDeque::new(),
            births: Vec::new(),
            hung_up: false,
            warmth: Warmth::Cold,
            descriptor_limit: raise_descriptor_limit(),
        }
    }

    /// Tells the keeper that workers can be asked for.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn announce(&self) -> io::Result<()> {
        let frame = ZygoteFrame::Ready { pid: process_id() }.encode();
        send_patiently(self.control.as_fd(), &frame)
    }

    /// The two ends of a new candidate's socket: the zygote's, and the candidate's.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new_line() -> io::Result<(OwnedFd, OwnedFd)> {
        socket_pair()
    }

    /// Waits until something is to be done.
    ///
    /// # Errors
    /// The keeper's packets are not a keeper's, or it is gone.
    pub fn next_step(&mut self) -> io::Result<ZygoteStep> {
        self.next_step_by(Instant::now)
    }

    /// As [`Self::next_step`], with a clock of the caller's.
    fn next_step_by(&mut self, now: impl Fn() -> Instant) -> io::Result<ZygoteStep> {
        loop {
            self.hand_out();
            let pause = self.pause(now());
            let is_idle = self.births.is_empty() && self.stand_by.is_none();
            let forks_ahead = self.warmth == Warmth::Warm && self.wants_stand_by && is_idle;
            match (self.orders.is_empty(), self.hung_up) {
                (false, _) => return Ok(ZygoteStep::Fork),
                (true, true) => return Ok(ZygoteStep::Exit),
                (true, false) if forks_ahead => return Ok(ZygoteStep::Fork),
                (true, false) => {}
            }
            let mut polled = vec![interest(&self.control, libc::POLLIN)];
            let candidates = self.births.iter().map(|birth| &birth.socket).chain(&self.stand_by);
            polled.extend(candidates.map(|socket| interest(socket, libc::POLLIN)));
            if !wait(&mut polled, pause)? {
                // Due, and nobody has to wait for it.
                if pause == Some(Duration::ZERO) {
                    return Ok(ZygoteStep::WarmUp);
                }
                if self.pause(now()) == Some(Duration::ZERO) {
                    continue;
                }
                return Ok(ZygoteStep::Look);
            }
            let mut has_news = polled.iter().map(|entry| entry.revents != 0);
            let from_keeper = has_news.next() == Some(true);
            let from_candidates: Vec<bool> = has_news.collect();
            self.hear_candidates(&from_candidates)?;
            if from_keeper {
                self.hear_keeper()?;
            }
            if self.warmth == Warmth::Cold && !self.orders.is_empty() {
                self.warmth = Warmth::Due(now() + WARM_UP_PAUSE);
            }
        }
    }

    /// Nothing more is to be loaded.
    pub fn finish_warming(&mut self) {
        self.warmth = Warmth::Warm;
    }

    /// How long until it is to warm up.
    fn pause(&self, now: Instant) -> Option<Duration> {
        match self.warmth {
            Warmth::Due(due) => Some(due.saturating_duration_since(now)),
            Warmth::Cold | Warmth::Warm => None,
        }
    }

    /// Takes on the candidate at the other end of a line.
    pub fn adopt(&mut self, line: OwnedFd) {
        self.wants_stand_by = false;
        self.stand_by = Some(line);
    }

    /// There is no candidate: reports the worker that it was for.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn give_up(&mut self, errno: i32) -> io::Result<()> {
        self.wants_stand_by = false;
        self.orders.pop_front().map_or(Ok(()), |(worker, _)| self.report_failure(worker, errno))
    }

    /// In a candidate's process: lets go of everything that is the zygote's.
    #[must_use]
    pub fn into_candidate(self, line: OwnedFd) -> Candidate {
        if let Some(limit) = &self.descriptor_limit {
            // SAFETY: the structure outlives the call, which lowers a limit of this process.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
        }
        Candidate::new(self.control, line)
    }

    /// Gives the first worker in line to the stand-by.
    fn hand_out(&mut self) {
        let Some((worker, descriptors)) = self.orders.front() else { return };
        let Some(line) = self.stand_by.take() else { return };
        let frame = ZygoteFrame::Fork(*worker).encode();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        // One that died while it stood by takes no packet: another is forked.
        if send(line.as_fd(), &[&frame], &borrowed).is_ok() {
            self.births.push(Birth { worker: *worker, socket: line, announced: false });
            self.orders.pop_front();
        }
    }

    /// Reads what the keeper has sent.
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
            self.orders.push_back((worker, packet.descriptors));
        }
    }

    /// Reads what candidates have sent: births first, the stand-by behind them, as they were polled.
    fn hear_candidates(&mut self, have_news: &[bool]) -> io::Result<()> {
        let births = std::mem::take(&mut self.births);
        if have_news.get(births.len()) == Some(&true) {
            self.stand_by = None;
        }
        for (mut birth, &has_news) in births.into_iter().zip(have_news) {
            let packet = if has_news { look(&birth.socket, &mut [0])? } else { None };
            match packet {
                Some(packet) if packet.size == 0 => {
                    self.wants_stand_by = true;
                    if !birth.announced {
                        self.report_failure(birth.worker, libc::ECHILD)?;
                    }
                }
                other => {
                    birth.announced |= other.is_some();
                    self.births.push(birth);
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

/// A packet, if there is one. The end of the line is an empty one.
fn look(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
    loop {
        match receive(socket.as_fd(), buffer) {
            Ok(packet) => return Ok(Some(packet)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                // A peer that died with packets unread.
                io::ErrorKind::ConnectionReset => {
                    return Ok(Some(Packet::end()));
                }
                _ => return Err(error),
            },
        }
    }
}
