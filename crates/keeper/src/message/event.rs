//! What a keeper tells its client.

use super::MessageError;
use super::command::WorkerKey;
use super::field::{Reader, Writer};
use crate::status::{ExitStatus, Usage};

use std::os::fd::OwnedFd;

/// A worker that lives.
#[derive(Debug)]
pub struct Birth {
    /// Which worker.
    pub worker: WorkerKey,
    /// Its process id.
    pub pid: i32,
    /// Readable once the process is dead; signals through it can hit nobody else. Absent where the
    /// keeper could not open one (no descriptors left).
    pub pidfd: Option<OwnedFd>,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Which worker.
    pub worker: WorkerKey,
    /// Its process id.
    pub pid: i32,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether the kernel's out-of-memory killer probably did it: SIGKILL that the keeper did not
    /// send while the kernel's counter of such kills moved. A client that kills through a pidfd
    /// knows better.
    pub oom: bool,
    /// What it had used.
    pub usage: Usage,
    /// Its last whole lines of standard error, at most 4 KiB.
    pub stderr_tail: Vec<u8>,
}

/// How a zygote ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteEnd {
    /// Its program was never executed.
    NotStarted {
        /// The error number of the call that failed.
        errno: i32,
    },
    /// It ran and ended.
    Exited(ExitStatus),
}

/// A message from the keeper to the client.
#[derive(Debug)]
pub enum Event {
    /// The keeper runs.
    Up {
        /// Its process id.
        pid: i32,
    },
    /// A zygote has finished its imports and can fork.
    ZygoteReady {
        /// Which zygote.
        zygote: u32,
        /// Its process id.
        pid: i32,
    },
    /// A zygote is gone, or never came. Its workers live on.
    ZygoteLost {
        /// Which zygote.
        zygote: u32,
        /// How it ended.
        end: ZygoteEnd,
        /// Its last lines of standard error, or why it could not be started.
        stderr_tail: Vec<u8>,
    },
    /// A worker lives.
    Born(Birth),
    /// A worker did not come to life.
    SpawnFailed {
        /// Which worker.
        worker: WorkerKey,
        /// Why, for a person.
        text: Vec<u8>,
    },
    /// A worker is dead and reaped.
    Exited(Exit),
    /// A message from the client was no valid command and had no effect.
    Refused {
        /// Why, for a person.
        text: Vec<u8>,
    },
}

impl Event {
    /// The number of this message and its body; the descriptor of a birth travels beside it.
    #[must_use]
    pub fn encode(&self) -> (u16, Vec<u8>) {
        let mut body = Writer::default();
        let kind = match self {
            Self::Up { pid } => {
                body.i32(*pid);
                1
            }
            Self::ZygoteReady { zygote, pid } => {
                body.u32(*zygote);
                body.i32(*pid);
                2
            }
            Self::ZygoteLost { zygote, end, stderr_tail } => {
                body.u32(*zygote);
                write_end(&mut body, *end);
                body.bytes(stderr_tail);
                3
            }
            Self::Born(birth) => {
                birth.worker.write(&mut body);
                body.i32(birth.pid);
                4
            }
            Self::SpawnFailed { worker, text } => {
                worker.write(&mut body);
                body.bytes(text);
                5
            }
            Self::Exited(exit) => {
                write_exit(&mut body, exit);
                6
            }
            Self::Refused { text } => {
                body.bytes(text);
                7
            }
        };
        (kind, body.0)
    }

    /// Reads a body; `descriptors` are those that came with the packet, the pidfd of a birth among
    /// them.
    ///
    /// # Errors
    /// The bytes are no such message, or the descriptors do not fit it.
    pub fn decode(kind: u16, body: &[u8], descriptors: Vec<OwnedFd>) -> Result<Self, MessageError> {
        let limit = usize::from(kind == 4);
        if descriptors.len() > limit {
            return Err(MessageError::Descriptors { needed: limit, found: descriptors.len() });
        }
        let mut fields = Reader::new(body);
        let event = match kind {
            1 => Self::Up { pid: fields.i32()? },
            2 => Self::ZygoteReady { zygote: fields.u32()?, pid: fields.i32()? },
            3 => Self::ZygoteLost {
                zygote: fields.u32()?,
                end: read_end(&mut fields)?,
                stderr_tail: fields.bytes()?.to_vec(),
            },
            4 => Self::Born(Birth {
                worker: WorkerKey::read(&mut fields)?,
                pid: fields.i32()?,
                pidfd: descriptors.into_iter().next(),
            }),
            5 => Self::SpawnFailed {
                worker: WorkerKey::read(&mut fields)?,
                text: fields.bytes()?.to_vec(),
            },
            6 => Self::Exited(read_exit(&mut fields)?),
            7 => Self::Refused { text: fields.bytes()?.to_vec() },
            other => return Err(MessageError::UnknownKind(other)),
        };
        fields.end()?;
        Ok(event)
    }
}

fn write_exit(body: &mut Writer, exit: &Exit) {
    exit.worker.write(body);
    body.i32(exit.pid);
    write_status(body, exit.status);
    body.u16(u16::from(exit.oom));
    body.u64(exit.usage.user_ms);
    body.u64(exit.usage.sys_ms);
    body.u64(exit.usage.max_rss_kib);
    body.bytes(&exit.stderr_tail);
}

fn read_exit(fields: &mut Reader<'_>) -> Result<Exit, MessageError> {
    Ok(Exit {
        worker: WorkerKey::read(fields)?,
        pid: fields.i32()?,
        status: read_status(fields)?,
        oom: read_flag(fields, "oom")?,
        usage: Usage { user_ms: fields.u64()?, sys_ms: fields.u64()?, max_rss_kib: fields.u64()? },
        stderr_tail: fields.bytes()?.to_vec(),
    })
}

fn write_end(body: &mut Writer, end: ZygoteEnd) {
    match end {
        ZygoteEnd::NotStarted { errno } => {
            body.u16(1);
            body.i32(errno);
        }
        ZygoteEnd::Exited(status) => {
            body.u16(0);
            write_status(body, status);
        }
    }
}

fn read_end(fields: &mut Reader<'_>) -> Result<ZygoteEnd, MessageError> {
    if read_flag(fields, "zygote end")? {
        Ok(ZygoteEnd::NotStarted { errno: fields.i32()? })
    } else {
        Ok(ZygoteEnd::Exited(read_status(fields)?))
    }
}

fn write_status(body: &mut Writer, status: ExitStatus) {
    let (kind, number) = match status {
        ExitStatus::Code(code) => (0, code),
        ExitStatus::Signal { signal, core: false } => (1, signal),
        ExitStatus::Signal { signal, core: true } => (2, signal),
        ExitStatus::Unknown => (3, 0),
    };
    body.u16(kind);
    body.i32(number);
}

fn read_status(fields: &mut Reader<'_>) -> Result<ExitStatus, MessageError> {
    let kind = fields.u16()?;
    let number = fields.i32()?;
    match kind {
        0 => Ok(ExitStatus::Code(number)),
        1 | 2 => Ok(ExitStatus::Signal { signal: number, core: kind == 2 }),
        3 => Ok(ExitStatus::Unknown),
        other => Err(MessageError::BadField { field: "status", value: other.into() }),
    }
}

fn read_flag(fields: &mut Reader<'_>, field: &'static str) -> Result<bool, MessageError> {
    match fields.u16()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(MessageError::BadField { field, value: other.into() }),
    }
}
