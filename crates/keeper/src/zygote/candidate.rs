//! A candidate: a process that waits to become a worker, and announces itself once it is one.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::look;
use crate::descriptor::{check, interest, wait};
use crate::message::WorkerKey;
use crate::socket::send;
use crate::worker_start::{WorkerStartError, announce_start};
use crate::zygote_frame::{ZYGOTE_FRAME_SIZE, ZygoteFrame};

/// A candidate's end of its line.
#[derive(Debug)]
pub struct Candidate {
    control: OwnedFd,
    line: OwnedFd,
}

impl Candidate {
    /// Creates a candidate with the socket to the keeper and its end of the line to the zygote.
    pub(super) fn new(control: OwnedFd, line: OwnedFd) -> Self {
        Self { control, line }
    }

    /// Waits until this process is given a worker. From then on it writes to the worker's stderr pipe, and is announced
    /// to the keeper. Returns `None` if the zygote is gone.
    ///
    /// # Errors
    /// See [`WorkerStartError`]; the process should exit.
    pub fn wait(self) -> Result<Option<(WorkerKey, AtWork)>, WorkerStartError> {
        let failed = |call| move |source| WorkerStartError::Call { call, source };
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
        announce_start(self.control.as_fd(), worker)?;
        // The zygote may have died meanwhile, which does not matter to a worker that the keeper knows.
        let _ = send(self.line.as_fd(), &[b"."], &[]);
        Ok(Some((worker, AtWork { _line: self.line })))
    }
}

/// A guard that a new worker holds until it is at work. Meanwhile its zygote forks no stand-by, which would take the
/// core that the worker needs.
#[derive(Debug)]
pub struct AtWork {
    _line: OwnedFd,
}

/// The name of a process in process lists.
#[derive(Debug, Clone, Copy)]
struct Name([u8; 16]);

/// The name of a stand-by, whose command line equals that of every worker.
const STAND_BY_NAME: Name = Name::new(b"gristmill-next");

impl Name {
    const fn new(text: &[u8]) -> Self {
        let mut name = [0; 16];
        let mut place = 0;
        while place < text.len() {
            name[place] = text[place];
            place += 1;
        }
        Self(name)
    }

    fn of_this_process() -> Self {
        let mut name = Self([0; 16]);
        // SAFETY: the kernel writes at most 16 bytes.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.0.as_mut_ptr()) };
        name
    }

    fn set(&self) {
        // SAFETY: the kernel reads up to the null that ends the name.
        unsafe { libc::prctl(libc::PR_SET_NAME, self.0.as_ptr()) };
    }
}
