//! The messages from a keeper to its client.

use super::MessageError;
use super::command::WorkerKey;
use super::field::{Reader, Writer};
use crate::status::{ExitStatus, Usage};

use std::os::fd::OwnedFd;

/// The start of a worker.
#[derive(Debug)]
pub struct WorkerStart {
    /// The worker.
    pub worker: WorkerKey,
    /// The worker's process id.
    pub pid: i32,
    /// The worker's handle. It is readable once the process is dead, and signals through it can reach no other process.
    /// `None` if the keeper could not open one (no descriptors left).
    pub pidfd: Option<OwnedFd>,
}

/// The exit of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The worker.
    pub worker: WorkerKey,
    /// The worker's process id.
    pub pid: i32,
    /// The exit status.
    pub status: ExitStatus,
    /// True if the kernel's out-of-memory killer probably ended the worker: it died of a SIGKILL that the keeper did
    /// not send, and the kernel's count of such kills increased. If the client itself killed the worker through the
    /// pidfd, this may be true although no out-of-memory kill hit the worker.
    pub oom: bool,
    /// The resource usage.
    pub usage: Usage,
    /// The last whole lines of the worker's standard error, at most 4 KiB; the end of the last line if that line alone
    /// is longer.
    pub stderr_tail: Vec<u8>,
}

/// The end of a zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteEnd {
    /// The zygote's program was never executed.
    NotStarted {
        /// The error number of the call that failed.
        errno: i32,
    },
    /// The zygote ran and ended.
    Exited(ExitStatus),
}

/// A message from the keeper to the client.
#[derive(Debug)]
pub enum KeeperEvent {
    /// The keeper runs.
    Up {
        /// The keeper's process id.
        pid: i32,
    },
    /// A zygote has finished its imports and can fork.
    ZygoteReady {
        /// The zygote.
        zygote: u32,
        /// The zygote's process id.
        pid: i32,
    },
    /// A zygote has ended or was never started. Its workers live on.
    ZygoteLost {
        /// The zygote.
        zygote: u32,
        /// The way in which it ended.
        end: ZygoteEnd,
        /// The end of its standard error, limited like [`Exit::stderr_tail`], and the reason if the keeper killed it.
        /// If its program was never executed, only the error.
        stderr_tail: Vec<u8>,
    },
    /// A worker has started.
    Started(WorkerStart),
    /// A worker could not be started.
    SpawnFailed {
        /// The worker.
        worker: WorkerKey,
        /// The reason, in readable text.
        text: Vec<u8>,
    },
    /// A worker is dead and reaped.
    Exited(Exit),
    /// A message of the client was malformed, or its command could not be obeyed, for example because the zygote id is in
    /// use. It had no effect.
    Refused {
        /// The reason, in readable text.
        text: Vec<u8>,
    },
}

impl KeeperEvent {
    /// Returns the kind of this message, as a number, and its body. The descriptor of a start is sent with the packet.
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
            Self::Started(start) => {
                start.worker.write(&mut body);
                body.i32(start.pid);
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

    /// Decodes a body. `descriptors` came with the packet and include the pidfd of a start.
    ///
    /// # Errors
    /// The bytes are not a message of this kind, or the descriptors do not fit it.
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
            4 => Self::Started(WorkerStart {
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
