//! Messages between a running task and its client about the tasks that the task submits itself.
//!
//! A message is a sequence of bytes, cut into as many records as it needs. The body of each record begins with a word. Its low
//! half holds the size of the part in this record; its high half is 1 if the message goes on in the next record of that kind.

use crate::peer::{ContextTerms, MessageKind, Messages};
use crate::{ContextId, FrameError, ResourceRequest, TaskId};

/// Options of a nested task, besides its call. Times are nanoseconds; `u64::MAX` means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedOptions {
    /// The longest time that the task may run, from its start.
    pub timeout_ns: u64,
    /// The monotonic time after which the task must not start.
    pub deadline_ns: u64,
    /// The time from an interrupt to the kill.
    pub grace_ns: u64,
    /// Numbers of further attempts: after the function raised, after the worker was lost, after a timeout.
    pub budgets: [u16; 3],
    /// The priority; tasks of higher priority are placed earlier.
    pub priority: i32,
    /// Resources that the task needs besides a worker.
    pub demand: ResourceRequest,
    /// The number of the context that the task runs in; 0 means none.
    pub context: ContextId,
}

/// The number that a definition of a worker defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// That of a function.
    Function(u32),
    /// That of a context.
    Context(ContextId),
}

/// A request of the running task. The worker chooses the numbers of tickets, functions and contexts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedRequest<'a> {
    /// The definition of `function`, valid from now on.
    Define {
        /// The number of the function.
        function: u32,
        /// The name of the function, for messages.
        name: &'a str,
        /// The definition that workers receive.
        definition: &'a [u8],
    },
    /// The worker will not use the number of a function any more.
    Forget {
        /// The number of the function.
        function: u32,
    },
    /// The definition of a context's number, valid from now on. If the context was set up elsewhere, the worker may know only
    /// its key, the first bytes of the setup.
    DefineContext(ContextTerms<'a>),
    /// The worker will not use the number of a context any more.
    ForgetContext {
        /// The number of the context.
        context: ContextId,
    },
    /// A call to run.
    Submit {
        /// The ticket that names the task from now on.
        ticket: u32,
        /// The task that submits.
        parent: TaskId,
        /// The function to call.
        function: u32,
        /// Further options; `None` means all defaults.
        options: Option<NestedOptions>,
        /// Tickets whose results the arguments name.
        arguments: Vec<u32>,
        /// Encoded arguments, or a descriptor of them.
        payload: &'a [u8],
        /// True if the arguments are in the arena: the payload is an `ArenaDescriptor`.
        is_arena: bool,
    },
    /// The worker will not ask for the results of these tickets any more.
    Release {
        /// The released tickets.
        tickets: Vec<u32>,
    },
    /// A request to cancel a task. [`ReplyKind::CancelAnswer`] answers it.
    Cancel {
        /// The ticket of the task.
        ticket: u32,
        /// `Some` also cancels a task that runs, with this time from the interrupt to the kill.
        grace_ns: Option<u64>,
    },
}

/// The kind of a message to a task about a task that it submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplyKind {
    /// The task returned. The bytes are the encoded value.
    Value = 1,
    /// The task raised. The bytes are the encoded exception.
    Raised = 2,
    /// The task was cancelled.
    Cancelled = 3,
    /// The task ran out of time. The bytes are text.
    TimedOut = 4,
    /// The task's worker was lost. The bytes are text.
    Lost = 5,
    /// No worker can be started. The bytes are text.
    StartFailed = 6,
    /// The task cannot be run. The bytes are text.
    Refused = 7,
    /// A task among the arguments gave no value. The bytes are the size of a text in 4 bytes, the text, then that task's kind
    /// and bytes.
    DependencyFailed = 8,
    /// The task was not accepted. The bytes are a [`Refusal`].
    NotAccepted = 9,
    /// The lease of the client's workers has expired, so none is left. The bytes are text.
    Expired = 10,
    /// No worker can have the task's context. The bytes are text.
    ContextFailed = 11,
    /// The answer to a request to cancel, which is no outcome. It is one byte: 1 if the task is cancelled or was asked to stop.
    CancelAnswer = 16,
}

impl ReplyKind {
    /// Reads a reply kind.
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
            9 => Self::NotAccepted,
            10 => Self::Expired,
            11 => Self::ContextFailed,
            16 => Self::CancelAnswer,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// The reason why a nested task was not accepted: the content of [`ReplyKind::NotAccepted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The code of the error, at most 255 bytes.
    pub code: &'a str,
    /// The message of the error.
    pub text: &'a str,
}

impl<'a> Refusal<'a> {
    /// Appends the size of the code as one byte, the code, and the text. Cuts a longer code.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let size = self.code.len().min(usize::from(u8::MAX));
        out.push(u8::try_from(size).unwrap_or(u8::MAX));
        out.extend_from_slice(&self.code.as_bytes()[..size]);
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Reads a refusal.
    ///
    /// # Errors
    /// [`FrameError::Truncated`]; [`FrameError::NoText`] for bytes that are not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let truncated = |needed| FrameError::Truncated { needed, found: bytes.len() };
        let (&size, rest) = bytes.split_first().ok_or_else(|| truncated(1))?;
        let size = usize::from(size);
        let (code, text) = rest.split_at_checked(size).ok_or_else(|| truncated(1 + size))?;
        let read = |part| std::str::from_utf8(part).map_err(|_| FrameError::NoText);
        Ok(Self { code: read(code)?, text: read(text)? })
    }
}

/// A message to a task about one ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedReply<'a> {
    /// The ticket.
    pub ticket: u32,
    /// The kind of the message.
    pub kind: ReplyKind,
    /// The content of the message, as its kind describes it.
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
                // A buffer of its own, because a message is padded relative to the start of its buffer.
                let mut message = Vec::with_capacity(64 + terms.setup.len());
                terms.write(&mut message);
                out.append(&mut message);
            }
            Self::ForgetContext { context } => {
                [request::FORGET_CONTEXT, context.0].into_iter().for_each(word);
            }
            Self::Submit { ticket, parent, function, options, arguments, payload, is_arena } => {
                [request::SUBMIT, *ticket, *function, arguments.len() as u32]
                    .into_iter()
                    .for_each(&mut word);
                arguments.iter().copied().for_each(word);
                out.extend_from_slice(&parent.word().to_le_bytes());
                out.push(u8::from(options.is_some()) | (u8::from(*is_arena) << 1));
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

    /// Reads from the first 16 bytes of a message that is a definition what it defines.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`] for any other message, [`FrameError::Truncated`].
    pub fn definition_of(beginning: &[u8]) -> Result<Defined, FrameError> {
        let mut reader = Reader(beginning);
        match reader.u32()? {
            request::DEFINE => reader.u32().map(Defined::Function),
            request::DEFINE_CONTEXT => {
                let _ = reader.u64()?;
                reader.u32().map(|context| Defined::Context(ContextId(context)))
            }
            other => Err(FrameError::UnknownKind(other.to_le_bytes()[0])),
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
                let [flags] = reader.array()?;
                let (has_options, is_arena) = (flags & 1 != 0, flags & 2 != 0);
                let options =
                    has_options.then(|| NestedOptions::decode(&mut reader)).transpose()?;
                let payload = reader.0;
                Self::Submit { ticket, parent, function, options, arguments, payload, is_arena }
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
            demand: ResourceRequest::from_words([reader.u64()?, reader.u64()?]),
            context: ContextId(reader.u32()?),
        })
    }
}

/// Reads the terms of a context, in the format that engines use between each other.
fn read_terms(bytes: &[u8]) -> Result<ContextTerms<'_>, FrameError> {
    let truncated = FrameError::Truncated { needed: 8, found: bytes.len() };
    let (kind, body) = Messages::new(bytes).next().ok_or(truncated)??;
    if kind != MessageKind::DefineContext {
        return Err(FrameError::UnknownKind(kind as u8));
    }
    ContextTerms::read(body)
}

/// A reader that takes values from the front of a message.
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

    /// Reads a count and that many numbers. It allocates no more than the bytes that are present, however large the count is.
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
    fn a_refusal_has_its_code_and_text_and_hostile_bytes_are_refused() {
        let refusal = Refusal { code: "full", text: "too many" };
        let mut bytes = Vec::new();
        refusal.encode(&mut bytes);
        assert_eq!(bytes, b"\x04fulltoo many");
        assert_eq!(Refusal::decode(&bytes), Ok(refusal));
        assert_eq!(Refusal::decode(b""), Err(FrameError::Truncated { needed: 1, found: 0 }));
        assert_eq!(
            Refusal::decode(b"\x09full"),
            Err(FrameError::Truncated { needed: 10, found: 5 })
        );
        assert_eq!(Refusal::decode(b"\x01\xff"), Err(FrameError::NoText));
        assert_eq!(Refusal::decode(b"\x00\xff"), Err(FrameError::NoText));
    }

    #[test]
    fn golden_submit() {
        let options = NestedOptions {
            timeout_ns: 1,
            deadline_ns: 2,
            grace_ns: 3,
            budgets: [4, 5, 6],
            priority: -1,
            demand: ResourceRequest { cores: 2, gpus: 1000, memory: 9 },
            context: ContextId(12),
        };
        let request = NestedRequest::Submit {
            ticket: 7,
            parent: TaskId::new(8, 9),
            function: 10,
            options: Some(options),
            arguments: vec![11],
            payload: b"xy",
            is_arena: false,
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
            demand: ResourceRequest { cores: 2, gpus: 500, memory: 1 },
            name: b"model",
            setup: b"sixteen bytes of a key, and the definition",
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

    #[test]
    fn the_beginning_of_a_definition_says_what_it_defines() {
        let terms = ContextTerms {
            context: ContextId(9),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: 0,
            demand: ResourceRequest::NONE,
            name: b"model",
            setup: b"code",
            files: Files::default(),
        };
        let function = NestedRequest::Define { function: 7, name: "f", definition: b"code" };
        let defined = [function, NestedRequest::DefineContext(terms)]
            .map(|request| NestedRequest::definition_of(&encoded(&request)[..16]));
        assert_eq!(defined, [Ok(Defined::Function(7)), Ok(Defined::Context(ContextId(9)))]);
        let other = encoded(&NestedRequest::Forget { function: 1 });
        assert!(NestedRequest::definition_of(&other).is_err());
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
