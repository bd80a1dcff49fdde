//! The zygote's end of its socket: which candidates it is to fork, and which worker each of them becomes.
//!
//! Every worker begins as a *candidate*: a process that was forked for whatever worker is asked for next, and that sleeps
//! on a socket of its own until it is given one. One candidate is forked ahead, the *stand-by*: a worker that is lost is
//! replaced without a fork. It has run nothing of the user, is known to nobody but its zygote, and exits with it.
//!
//! Guarantees: each worker asked for is announced by its candidate, or reported as failed. A candidate's socket says how far
//! it is: a byte when its worker is announced, the end when the worker is at work or dead.
//!
//! Not here: the fork itself, and what a candidate does before it waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::birth::{BirthError, announce_birth};
use crate::descriptor::{check, interest, socket_pair, wait};
use crate::message::WorkerKey;
use crate::process_id;
use crate::socket::{Packet, receive, send, send_patiently};
use crate::zygote_frame::{ZYGOTE_FRAME_SIZE, ZygoteFrame};

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
                continue;
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
        Candidate { control: self.control, line }
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

/// A candidate's end of its line.
#[derive(Debug)]
pub struct Candidate {
    control: OwnedFd,
    line: OwnedFd,
}

impl Candidate {
    /// Waits until this process is given a worker to be: writes to its stderr pipe from then on, and is announced. `None`
    /// when the zygote is gone.
    ///
    /// # Errors
    /// See [`BirthError`]; the process should exit.
    pub fn wait(self) -> Result<Option<(WorkerKey, AtWork)>, BirthError> {
        let failed = |call| move |source| BirthError::Call { call, source };
        let mut buffer = [0; ZYGOTE_FRAME_SIZE + 1];
        let mut taken = look(&self.line, &mut buffer).map_err(failed("recvmsg"))?;
        let name = Name::of_this_process();
        if taken.is_none() {
            STAND_BY_NAME.set();
        }
        let packet = loop {
            if let Some(packet) = taken {
                break packet;
            }
            wait(&mut [interest(&self.line, libc::POLLIN)], None).map_err(failed("ppoll"))?;
            taken = look(&self.line, &mut buffer).map_err(failed("recvmsg"))?;
        };
        name.set();
        let Some(ZygoteFrame::Fork(worker)) = ZygoteFrame::decode(&buffer[..packet.size]) else {
            return Ok(None);
        };
        if let Some(stderr) = packet.descriptors.first() {
            // SAFETY: the source is owned, hence open; number 2 is standard error by convention.
            check(unsafe { libc::dup2(stderr.as_raw_fd(), 2) }).map_err(failed("dup2"))?;
        }
        announce_birth(self.control.as_fd(), worker)?;
        // A zygote that died meanwhile does not matter to a worker that the keeper knows.
        let _ = send(self.line.as_fd(), &[b"."], &[]);
        Ok(Some((worker, AtWork { _line: self.line })))
    }
}

/// Held by a new worker until it is at work; its zygote forks nothing ahead meanwhile, which would take the core that the
/// worker needs.
#[derive(Debug)]
pub struct AtWork {
    _line: OwnedFd,
}

/// What lists of processes call this one.
#[derive(Debug, Clone, Copy)]
struct Name([libc::c_char; 16]);

/// A stand-by's name: its command line is that of every worker.
const STAND_BY_NAME: Name = Name::new(b"gristmill-next");

impl Name {
    const fn new(text: &[u8]) -> Self {
        let mut name = [0; 16];
        let mut place = 0;
        while place < text.len() {
            name[place] = text[place].cast_signed();
            place += 1;
        }
        Self(name)
    }

    fn of_this_process() -> Self {
        let mut name = Self([0; 16]);
        // SAFETY: the kernel writes 16 bytes at most.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.0.as_mut_ptr()) };
        name
    }

    fn set(&self) {
        // SAFETY: the kernel reads up to the null that ends the name.
        unsafe { libc::prctl(libc::PR_SET_NAME, self.0.as_ptr()) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::BorrowedFd;

    /// A zygote that is warm, and its keeper's end.
    fn zygote() -> (Zygote, OwnedFd) {
        let (keeper, control) = socket_pair().unwrap();
        let mut zygote = Zygote::new(control);
        zygote.warmth = Warmth::Warm;
        (zygote, keeper)
    }

    fn ask(keeper: &OwnedFd, worker: WorkerKey, descriptors: &[BorrowedFd<'_>]) {
        send(keeper.as_fd(), &[&ZygoteFrame::Fork(worker).encode()], descriptors).unwrap();
    }

    /// Forks a candidate, as far as the zygote can tell.
    fn fork(zygote: &mut Zygote) -> OwnedFd {
        assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Fork);
        let (ours, theirs) = Zygote::new_line().unwrap();
        zygote.adopt(ours);
        theirs
    }

    fn frame_on(socket: &OwnedFd) -> Option<ZygoteFrame> {
        let mut buffer = [0; ZYGOTE_FRAME_SIZE];
        let packet = look(socket, &mut buffer).unwrap()?;
        ZygoteFrame::decode(&buffer[..packet.size])
    }

    fn announce(line: &OwnedFd) {
        send(line.as_fd(), &[b"."], &[]).unwrap();
    }

    /// Lets the zygote take in what has arrived; it has nothing to fork.
    fn settle(zygote: &mut Zygote, keeper: &OwnedFd) {
        // SAFETY: a plain call on a descriptor that the test owns.
        unsafe { libc::shutdown(keeper.as_raw_fd(), libc::SHUT_WR) };
        assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Exit);
    }

    #[test]
    fn a_worker_goes_to_a_new_candidate_and_the_next_to_the_stand_by() {
        let (mut zygote, keeper) = zygote();
        let (first, second) = (WorkerKey::new(0, 1), WorkerKey::new(1, 1));
        ask(&keeper, first, &[]);
        let candidate = fork(&mut zygote);
        zygote.hand_out();
        assert_eq!(frame_on(&candidate), Some(ZygoteFrame::Fork(first)));
        announce(&candidate);
        drop(candidate);
        let stand_by = fork(&mut zygote);
        ask(&keeper, second, &[]);
        settle(&mut zygote, &keeper);
        assert_eq!(frame_on(&stand_by), Some(ZygoteFrame::Fork(second)));
        assert_eq!(frame_on(&keeper), None, "nothing failed");
    }

    #[test]
    fn nothing_is_forked_ahead_before_the_workers_asked_for_are_at_work() {
        let (mut zygote, keeper) = zygote();
        ask(&keeper, WorkerKey::new(0, 1), &[]);
        ask(&keeper, WorkerKey::new(1, 1), &[]);
        let first = fork(&mut zygote);
        let second = fork(&mut zygote);
        drop(first);
        announce(&second);
        settle(&mut zygote, &keeper);
        assert!(zygote.stand_by.is_none());
    }

    #[test]
    fn a_candidate_that_dies_before_its_worker_is_announced_is_reported() {
        let (mut zygote, keeper) = zygote();
        let worker = WorkerKey::new(3, 9);
        ask(&keeper, worker, &[]);
        drop(fork(&mut zygote));
        // Before it was given the worker: another is forked.
        drop(fork(&mut zygote));
        let candidate = fork(&mut zygote);
        zygote.hand_out();
        drop(candidate);
        drop(fork(&mut zygote));
        let failed = ZygoteFrame::ForkFailed { worker, errno: libc::ECHILD };
        assert_eq!(frame_on(&keeper), Some(failed));
    }

    #[test]
    fn a_stand_by_that_dies_of_itself_is_not_forked_again_and_again() {
        let (mut zygote, keeper) = zygote();
        ask(&keeper, WorkerKey::new(0, 1), &[]);
        let candidate = fork(&mut zygote);
        zygote.hand_out();
        announce(&candidate);
        drop(candidate);
        drop(fork(&mut zygote));
        settle(&mut zygote, &keeper);
        assert!(zygote.stand_by.is_none());
    }

    #[test]
    fn it_warms_up_before_it_forks_ahead() {
        let (mut zygote, keeper) = zygote();
        zygote.warmth = Warmth::Cold;
        ask(&keeper, WorkerKey::new(0, 1), &[]);
        let candidate = fork(&mut zygote);
        zygote.hand_out();
        announce(&candidate);
        drop(candidate);
        let later = Instant::now() + WARM_UP_PAUSE;
        for _ in 0..3 {
            assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::WarmUp);
        }
        zygote.finish_warming();
        let _stand_by = fork(&mut zygote);
        settle(&mut zygote, &keeper);
    }

    #[test]
    fn workers_that_were_asked_for_come_before_the_warming_up() {
        let (mut zygote, keeper) = zygote();
        zygote.warmth = Warmth::Cold;
        ask(&keeper, WorkerKey::new(0, 1), &[]);
        let first = fork(&mut zygote);
        zygote.hand_out();
        let later = Instant::now() + WARM_UP_PAUSE;
        assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::WarmUp);
        ask(&keeper, WorkerKey::new(1, 1), &[]);
        assert_eq!(zygote.next_step_by(|| later).unwrap(), ZygoteStep::Fork);
        drop(first);
    }

    #[test]
    fn a_fork_that_fails_is_reported_once() {
        let (mut zygote, keeper) = zygote();
        let worker = WorkerKey::new(0, 1);
        ask(&keeper, worker, &[]);
        assert_eq!(zygote.next_step().unwrap(), ZygoteStep::Fork);
        zygote.give_up(libc::EAGAIN).unwrap();
        settle(&mut zygote, &keeper);
        let failed = ZygoteFrame::ForkFailed { worker, errno: libc::EAGAIN };
        assert_eq!(frame_on(&keeper), Some(failed));
    }

    #[test]
    fn a_packet_that_is_not_the_keepers_ends_the_zygote() {
        let (mut zygote, keeper) = zygote();
        send(keeper.as_fd(), &[b"hello"], &[]).unwrap();
        assert_eq!(zygote.next_step().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn descriptors_travel_on_to_the_candidate() {
        let (mut zygote, keeper) = zygote();
        let (reader, writer) = pipe().unwrap();
        ask(&keeper, WorkerKey::new(0, 1), &[writer.as_fd()]);
        drop(writer);
        let candidate = fork(&mut zygote);
        zygote.hand_out();
        let mut packet = look(&candidate, &mut [0; ZYGOTE_FRAME_SIZE]).unwrap().unwrap();
        File::from(packet.descriptors.pop().unwrap()).write_all(b"through").unwrap();
        drop(packet);
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through", "and nobody else keeps the pipe open");
    }

    #[test]
    fn a_candidate_without_a_zygote_is_no_worker() {
        let (ours, theirs) = Zygote::new_line().unwrap();
        let (zygote, keeper) = zygote();
        let candidate = zygote.into_candidate(theirs);
        drop(ours);
        assert!(candidate.wait().unwrap().is_none());
        assert_eq!(look(&keeper, &mut [0]).unwrap().unwrap().size, 0, "nobody was announced");
    }
}
