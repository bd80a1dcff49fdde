//! What a running task asks of its client about tasks of its own, and what it is told of them.
//!
//! A message is bytes, cut into as many records as it needs: a record's body begins with a word that holds the size of
//! its part in the low half and, in the high half, 1 if the message goes on in the next record of that kind.

use crate::peer::{ContextTerms, MessageKind, Messages};
use crate::{ContextId, Demand, FrameError, TaskId};

/// What a task asks for, besides its call. Times are nanoseconds; `u64::MAX` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedOptions {
    /// Longest run, from its start.
    pub timeout_ns: u64,
    /// Monotonic time after which it must not start any more.
    pub deadline_ns: u64,
    /// From an interrupt to the kill.
    pub grace_ns: u64,
    /// Attempts after the function raised, after its worker was lost, after its timeout.
    pub budgets: [u16; 3],
    /// Higher is placed earlier.
    pub priority: i32,
    /// What it needs besides a worker.
    pub demand: Demand,
    /// The number of the context that it runs in; 0 is none.
    pub context: ContextId,
}

/// Something that the running task asks for. Tickets, functions and contexts are numbers of the worker's own choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedRequest<'a> {
    /// From now on `function` stands for this.
    Define {
        /// The number.
        function: u32,
        /// For messages.
        name: &'a str,
        /// What workers are told.
        definition: &'a [u8],
    },
    /// The number of a function will not be used any more.
    Forget {
        /// The number.
        function: u32,
    },
    /// From now on a context's number stands for this; of a context that was set up elsewhere the worker may know the key
    /// alone, which the setup begins with.
    DefineContext(ContextTerms<'a>),
    /// The number of a context will not be used any more.
    ForgetContext {
        /// The number.
        context: ContextId,
    },
    /// A call to be run.
    Submit {
        /// Names the task from now on.
        ticket: u32,
        /// The task that submits.
        parent: TaskId,
        /// What to call.
        function: u32,
        /// What else it asks for.
        options: Option<NestedOptions>,
        /// Tickets whose results the arguments name.
        arguments: Vec<u32>,
        /// Encoded arguments.
        payload: &'a [u8],
    },
    /// Nobody will ask for these any more.
    Release {
        /// Which.
        tickets: Vec<u32>,
    },
    /// Cancel a task; answered by [`ReplyKind::CancelAnswer`].
    Cancel {
        /// Which.
        ticket: u32,
        /// Also if it runs, with this time from the interrupt to the kill.
        grace_ns: Option<u64>,
    },
}

/// What a task is told of one that it submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplyKind {
    /// It returned: the encoded value.
    Value = 1,
    /// It raised: the encoded exception.
    Raised = 2,
    /// It was cancelled.
    Cancelled = 3,
    /// It ran out of time: text.
    TimedOut = 4,
    /// Its worker was lost: text.
    Lost = 5,
    /// No worker can be started: text.
    StartFailed = 6,
    /// It cannot be run: text.
    Refused = 7,
    /// A task among its arguments gave no value: the size of a text in 4 bytes, the text, then that task's kind and bytes.
    DependencyFailed = 8,
    /// It was not accepted, too many are outstanding: text.
    LimitReached = 9,
    /// It was not accepted, the executor was shut down: text.
    ShutDown = 10,
    /// No worker can have its context: text.
    ContextFailed = 11,
    /// Not an outcome: a byte, 1 if it is cancelled, or asked to stop.
    CancelAnswer = 16,
}

impl ReplyKind {
    /// Takes a kind off the wire.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`].
    pub const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Value,
            2 => Self::Raised,
            3 => Self::Cancelled,
            4 => Self::TimedOut,
            5 => Self::Lost,
            6 => Self::StartFailed,
            7 => Self::Refused,
            8 => Self::DependencyFailed,
            9 => Self::LimitReached,
            10 => Self::ShutDown,
            11 => Self::ContextFailed,
            16 => Self::CancelAnswer,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// News of one ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedReply<'a> {
    /// Which.
    pub ticket: u32,
    /// What.
    pub kind: ReplyKind,
    /// With which details.
    pub bytes: &'a [u8],
}

impl<'a> NestedReply<'a> {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ticket.to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, 0, 0, 0]);
        out.extend_from_slice(self.bytes);
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader(bytes);
        let ticket = reader.u32()?;
        let [kind, ..] = reader.u32()?.to_le_bytes();
        Ok(Self { ticket, kind: ReplyKind::from_byte(kind)?, bytes: reader.0 })
    }
}

mod request {
    pub const DEFINE: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const SUBMIT: u32 = 3;
    pub const RELEASE: u32 = 4;
    pub const CANCEL: u32 = 5;
    pub const DEFINE_CONTEXT: u32 = 6;
    pub const FORGET_CONTEXT: u32 = 7;
}

impl<'a> NestedRequest<'a> {
    /// Appends the message.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a program has no 4 GB names or 2^32 futures"
    )]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut word = |value: u32| out.extend_from_slice(&value.to_le_bytes());
        match self {
            Self::Define { function, name, definition } => {
                [request::DEFINE, *function, name.len() as u32].into_iter().for_each(word);
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(definition);
            }
            Self::Forget { function } => {
                [request::FORGET, *function].into_iter().for_each(word);
            }
            Self::DefineContext(terms) => {
                word(request::DEFINE_CONTEXT);
                // Padded by its own size.
                let mut message = Vec::with_capacity(64 + terms.setup.len());
                terms.write(&mut message);
                out.append(&mut message);
            }
            Self::ForgetContext { context } => {
                [request::FORGET_CONTEXT, context.0].into_iter().for_each(word);
            }
            Self::Submit { ticket, parent, function, options, arguments, payload } => {
                [request::SUBMIT, *ticket, *function, arguments.len() as u32]
                    .into_iter()
                    .for_each(&mut word);
                arguments.iter().copied().for_each(word);
                out.extend_from_slice(&parent.word().to_le_bytes());
                out.push(u8::from(options.is_some()));
                options.iter().for_each(|options| options.encode(out));
                out.extend_from_slice(payload);
            }
            Self::Release { tickets } => {
                [request::RELEASE, tickets.len() as u32].into_iter().for_each(&mut word);
                tickets.iter().copied().for_each(word);
            }
            Self::Cancel { ticket, grace_ns } => {
                [request::CANCEL, *ticket].into_iter().for_each(word);
                out.push(u8::from(grace_ns.is_some()));
                out.extend_from_slice(&grace_ns.unwrap_or(0).to_le_bytes());
            }
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader(bytes);
        let kind = reader.u32()?;
        Ok(match kind {
            request::DEFINE => {
                let (function, size) = (reader.u32()?, reader.u32()?);
                let name = std::str::from_utf8(reader.take(size as usize)?).unwrap_or("?");
                Self::Define { function, name, definition: reader.0 }
            }
            request::FORGET => Self::Forget { function: reader.u32()? },
            request::DEFINE_CONTEXT => Self::DefineContext(read_terms(reader.0)?),
            request::FORGET_CONTEXT => Self::ForgetContext { context: ContextId(reader.u32()?) },
            request::SUBMIT => {
                let (ticket, function) = (reader.u32()?, reader.u32()?);
                let arguments = reader.numbers()?;
                let parent = TaskId::from_word(reader.u64()?);
                let has_options = reader.flag()?;
                let options =
                    has_options.then(|| NestedOptions::decode(&mut reader)).transpose()?;
                Self::Submit { ticket, parent, function, options, arguments, payload: reader.0 }
            }
            request::RELEASE => Self::Release { tickets: reader.numbers()? },
            request::CANCEL => {
                let (ticket, is_forced, grace) = (reader.u32()?, reader.flag()?, reader.u64()?);
                Self::Cancel { ticket, grace_ns: is_forced.then_some(grace) }
            }
            other => return Err(FrameError::UnknownKind(other.to_le_bytes()[0])),
        })
    }
}

impl NestedOptions {
    fn encode(&self, out: &mut Vec<u8>) {
        for time in [self.timeout_ns, self.deadline_ns, self.grace_ns] {
            out.extend_from_slice(&time.to_le_bytes());
        }
        for budget in self.budgets {
            out.extend_from_slice(&budget.to_le_bytes());
        }
        out.extend_from_slice(&self.priority.to_le_bytes());
        for word in self.demand.words() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.context.0.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FrameError> {
        Ok(Self {
            timeout_ns: reader.u64()?,
            deadline_ns: reader.u64()?,
            grace_ns: reader.u64()?,
            budgets: [reader.u16()?, reader.u16()?, reader.u16()?],
            priority: reader.u32()?.cast_signed(),
            demand: Demand::from_words([reader.u64()?, reader.u64()?]),
            context: ContextId(reader.u32()?),
        })
    }
}

/// What a context is: told as engines tell each other.
fn read_terms(bytes: &[u8]) -> Result<ContextTerms<'_>, FrameError> {
    let truncated = FrameError::Truncated { needed: 8, found: bytes.len() };
    let (kind, body) = Messages::new(bytes).next().ok_or(truncated)??;
    if kind != MessageKind::DefineContext {
        return Err(FrameError::UnknownKind(kind as u8));
    }
    ContextTerms::read(body)
}

/// Reads values off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let found = self.0.len();
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(FrameError::Truncated { needed: count, found })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn flag(&mut self) -> Result<bool, FrameError> {
        Ok(self.array::<1>()? != [0])
    }

    fn u16(&mut self) -> Result<u16, FrameError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count and that many numbers: no count makes us allocate more than the bytes that are there.
    fn numbers(&mut self) -> Result<Vec<u32>, FrameError> {
        let count = self.u32()? as usize;
        let bytes = self.take(count.saturating_mul(4))?;
        let number = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        Ok(bytes.chunks_exact(4).map(number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Files;
    use proptest::prelude::*;

    fn encoded(request: &NestedRequest<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        bytes
    }

    #[test]
    fn golden_submit() {
        let options = NestedOptions {
            timeout_ns: 1,
            deadline_ns: 2,
            grace_ns: 3,
            budgets: [4, 5, 6],
            priority: -1,
            demand: Demand { cores: 2, gpus: 1000, memory: 9 },
            context: ContextId(12),
        };
        let request = NestedRequest::Submit {
            ticket: 7,
            parent: TaskId::new(8, 9),
            function: 10,
            options: Some(options),
            arguments: vec![11],
            payload: b"xy",
        };
        let golden = [
            3, 0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 11, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0,
            1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 5, 0,
            6, 0, 255, 255, 255, 255, 2, 0, 0, 0, 0xe8, 3, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0,
            0, b'x', b'y',
        ];
        assert_eq!(encoded(&request), golden);
        assert_eq!(NestedRequest::decode(&golden), Ok(request));
    }

    #[test]
    fn every_request_and_reply_decodes_to_itself() {
        let terms = ContextTerms {
            context: ContextId(9),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            demand: Demand { cores: 2, gpus: 500, memory: 1 },
            name: b"model",
            setup: b"sixteen bytes of a key, and what it stands for",
            files: Files::default(),
        };
        let requests = [
            NestedRequest::Define { function: 1, name: "f", definition: b"N" },
            NestedRequest::Forget { function: 1 },
            NestedRequest::DefineContext(terms),
            NestedRequest::ForgetContext { context: ContextId(9) },
            NestedRequest::Release { tickets: vec![1, 2, 3] },
            NestedRequest::Cancel { ticket: 4, grace_ns: Some(5) },
            NestedRequest::Cancel { ticket: 4, grace_ns: None },
        ];
        for request in requests {
            let bytes = encoded(&request);
            assert_eq!(NestedRequest::decode(&bytes), Ok(request));
        }
        let reply = NestedReply { ticket: 3, kind: ReplyKind::Lost, bytes: b"why" };
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        assert_eq!(bytes, [3, 0, 0, 0, 5, 0, 0, 0, b'w', b'h', b'y']);
        assert_eq!(NestedReply::decode(&bytes), Ok(reply));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>, kind in 0u8..9, message: bool) {
            let mut bytes = bytes;
            if bytes.len() > 4 {
                bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
            }
            if message && bytes.len() > 12 {
                bytes[4..12].copy_from_slice(&[40, 0, 0, 0, MessageKind::DefineContext as u8, 0, 0, 0]);
            }
            let _ = NestedReply::decode(&bytes);
            if let Ok(request) = NestedRequest::decode(&bytes) {
                let again = encoded(&request);
                prop_assert_eq!(NestedRequest::decode(&again), Ok(request));
            }
        }
    }
}
