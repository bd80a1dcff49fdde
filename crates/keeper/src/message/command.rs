//! The messages from a client to its keeper.

use std::fmt;

use gristmill_wire::{Epoch, SlotId};

use super::field::{Reader, Writer};
use super::{DESCRIPTOR_LIMIT, MessageError};
use crate::token::TreeToken;

/// The identity of a worker process: a slot and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerKey {
    /// The slot in the client's segment.
    pub slot: SlotId,
    /// The epoch of the process in that slot.
    pub epoch: Epoch,
}

impl WorkerKey {
    /// Creates the key of the worker in `slot` with that `epoch`.
    #[must_use]
    pub fn new(slot: u16, epoch: u32) -> Self {
        Self { slot: SlotId(slot), epoch: Epoch(epoch) }
    }
}

impl fmt::Display for WorkerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}.{}", self.slot.0, self.epoch.0)
    }
}

/// The destination of a program's standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// The client's own stream. The last lines of standard error are kept for the exit notice as well.
    #[default]
    Forward,
    /// Discarded; the last lines of standard error are kept for the exit notice.
    Discard,
}

/// A program and its execution environment. All strings are bytes without zeros, as the kernel has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The path of the executable (it holds a slash: `PATH` is not searched) and its arguments, `argv[0]` first.
    pub arguments: Vec<Vec<u8>>,
    /// `NAME=value` strings: the whole environment. The keeper replaces its own variables in it.
    pub environment: Vec<Vec<u8>>,
    /// The working directory; empty means `/`.
    pub directory: Vec<u8>,
    /// The file mode creation mask.
    pub umask: u32,
    /// The destination of standard output.
    pub stdout: Output,
    /// The destination of standard error.
    pub stderr: Output,
}

/// A stopped task, described by the data that identify the processes it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// The low half of the sequence of the task's record.
    pub sequence: u32,
    /// Time at which the task began, monotonic nanoseconds.
    pub began_ns: u64,
    /// Time at which the task ended, monotonic nanoseconds.
    pub ended_ns: u64,
}

/// A message from the client to the keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The first message: the token of the tree.
    Begin {
        /// The token that marks every process of the tree.
        token: TreeToken,
    },
    /// Starts a zygote. The message's descriptors become its descriptors from 4 up; 3 is its control socket.
    StartZygote {
        /// The client's number for the zygote, not in use by a living one.
        zygote: u32,
        /// The program to execute.
        program: Program,
    },
    /// Makes a zygote fork a worker. The message's descriptors go to the zygote after the stderr pipe.
    Spawn {
        /// The zygote.
        zygote: u32,
        /// The key of the new worker, not in use by a living one.
        worker: WorkerKey,
    },
    /// Executes a program as a worker. The message's descriptors become its descriptors from 3 up.
    SpawnFresh {
        /// The key of the new worker, not in use by a living one.
        worker: WorkerKey,
        /// The program to execute.
        program: Program,
    },
    /// Sends a signal to a worker and all its descendants; SIGKILL is repeated until none of them is left.
    Kill {
        /// The worker.
        worker: WorkerKey,
        /// The signal.
        signal: i32,
    },
    /// Kills the processes that one task of a worker started, repeatedly until none is left.
    EndStarted {
        /// The worker.
        worker: WorkerKey,
        /// The task, which has ended.
        by: Stopped,
    },
    /// Sends a signal to a worker alone.
    Signal {
        /// The worker.
        worker: WorkerKey,
        /// The signal.
        signal: i32,
    },
    /// Shuts down a zygote's control socket, so that it exits; its workers live on.
    StopZygote {
        /// The zygote.
        zygote: u32,
    },
    /// Stops the zygotes and waits until no worker and no ready zygote is left. Kills the remaining processes after the
    /// grace time, and exits with 0.
    Shutdown {
        /// Time that the processes may take to end by themselves, milliseconds.
        grace_ms: u32,
    },
}

impl Command {
    /// Returns the number of this message and its body.
    #[must_use]
    pub fn encode(&self) -> (u16, Vec<u8>) {
        let mut body = Writer::default();
        let kind = match self {
            Self::Begin { token } => {
                body.bytes(token.as_str().as_bytes());
                1
            }
            Self::StartZygote { zygote, program } => {
                body.u32(*zygote);
                program.write(&mut body);
                2
            }
            Self::Spawn { zygote, worker } => {
                body.u32(*zygote);
                worker.write(&mut body);
                3
            }
            Self::SpawnFresh { worker, program } => {
                worker.write(&mut body);
                program.write(&mut body);
                4
            }
            Self::Kill { worker, signal } => {
                worker.write(&mut body);
                body.i32(*signal);
                5
            }
            Self::EndStarted { worker, by } => {
                worker.write(&mut body);
                body.u32(by.sequence);
                body.u64(by.began_ns);
                body.u64(by.ended_ns);
                9
            }
            Self::Signal { worker, signal } => {
                worker.write(&mut body);
                body.i32(*signal);
                6
            }
            Self::StopZygote { zygote } => {
                body.u32(*zygote);
                7
            }
            Self::Shutdown { grace_ms } => {
                body.u32(*grace_ms);
                8
            }
        };
        (kind, body.0)
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// The bytes are not a message of this kind.
    pub fn decode(kind: u16, body: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Reader::new(body);
        let command = match kind {
            1 => Self::Begin { token: read_token(&mut fields)? },
            2 => Self::StartZygote { zygote: fields.u32()?, program: Program::read(&mut fields)? },
            3 => Self::Spawn { zygote: fields.u32()?, worker: WorkerKey::read(&mut fields)? },
            4 => {
                let worker = WorkerKey::read(&mut fields)?;
                Self::SpawnFresh { worker, program: Program::read(&mut fields)? }
            }
            5 => Self::Kill {
                worker: WorkerKey::read(&mut fields)?,
                signal: read_signal(&mut fields)?,
            },
            6 => Self::Signal {
                worker: WorkerKey::read(&mut fields)?,
                signal: read_signal(&mut fields)?,
            },
            7 => Self::StopZygote { zygote: fields.u32()? },
            8 => Self::Shutdown { grace_ms: fields.u32()? },
            9 => Self::EndStarted {
                worker: WorkerKey::read(&mut fields)?,
                by: Stopped {
                    sequence: fields.u32()?,
                    began_ns: fields.u64()?,
                    ended_ns: fields.u64()?,
                },
            },
            other => return Err(MessageError::UnknownKind(other)),
        };
        fields.end()?;
        Ok(command)
    }

    /// Checks the number of descriptors that came with this message.
    ///
    /// # Errors
    /// There are more than it can have.
    pub fn check_descriptors(&self, found: usize) -> Result<(), MessageError> {
        let limit = match self {
            Self::StartZygote { .. } | Self::Spawn { .. } | Self::SpawnFresh { .. } => {
                DESCRIPTOR_LIMIT - 1
            }
            _ => 0,
        };
        if found > limit {
            return Err(MessageError::Descriptors { needed: limit, found });
        }
        Ok(())
    }
}

impl WorkerKey {
    pub(super) fn write(self, body: &mut Writer) {
        body.u16(self.slot.0);
        body.u32(self.epoch.0);
    }

    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Self, MessageError> {
        Ok(Self { slot: SlotId(fields.u16()?), epoch: Epoch(fields.u32()?) })
    }
}

impl Program {
    fn write(&self, body: &mut Writer) {
        for list in [&self.arguments, &self.environment] {
            body.u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
            list.iter().for_each(|item| body.bytes(item));
        }
        body.bytes(&self.directory);
        body.u32(self.umask);
        body.u16(u16::from(self.stdout == Output::Discard));
        body.u16(u16::from(self.stderr == Output::Discard));
    }

    fn read(fields: &mut Reader<'_>) -> Result<Self, MessageError> {
        let program = Self {
            arguments: read_list(fields, "argument")?,
            environment: read_list(fields, "environment variable")?,
            directory: without_zero(fields.bytes()?, "directory")?,
            umask: fields.u32()?,
            stdout: read_output(fields)?,
            stderr: read_output(fields)?,
        };
        if program.arguments.is_empty() {
            return Err(MessageError::BadField { field: "argument count", value: 0 });
        }
        if program.umask > 0o777 {
            return Err(MessageError::BadField { field: "umask", value: program.umask.into() });
        }
        Ok(program)
    }
}

fn read_list(fields: &mut Reader<'_>, name: &'static str) -> Result<Vec<Vec<u8>>, MessageError> {
    let count = fields.count()?;
    (0..count).map(|_| without_zero(fields.bytes()?, name)).collect()
}

fn without_zero(bytes: &[u8], field: &'static str) -> Result<Vec<u8>, MessageError> {
    if bytes.contains(&0) { Err(MessageError::ZeroByte { field }) } else { Ok(bytes.to_vec()) }
}

fn read_output(fields: &mut Reader<'_>) -> Result<Output, MessageError> {
    match fields.u16()? {
        0 => Ok(Output::Forward),
        1 => Ok(Output::Discard),
        other => Err(MessageError::BadField { field: "output", value: other.into() }),
    }
}

fn read_signal(fields: &mut Reader<'_>) -> Result<i32, MessageError> {
    match fields.i32()? {
        signal @ 1..=64 => Ok(signal),
        other => Err(MessageError::BadField { field: "signal", value: other.into() }),
    }
}

fn read_token(fields: &mut Reader<'_>) -> Result<TreeToken, MessageError> {
    let text = fields.bytes()?;
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    TreeToken::parse(text).ok_or(MessageError::BadField { field: "token length", value: length })
}
