//! Short messages: heartbeats, definitions, requests about tasks and leases.

use super::reader::{TEXT_SIZE_MAX, text_of};
use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{Attempt, ContextId, FrameError, FunctionId, TaskId};

/// A heartbeat. Times are nanoseconds: `echo_ns` of the receiver's clock, all others of the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heartbeat {
    /// The time at which the heartbeat was sent.
    pub sent_ns: u64,
    /// The `sent_ns` of the last heartbeat from the other side; 0 if none has come.
    pub echo_ns: u64,
    /// The time since that heartbeat came.
    pub held_ns: u64,
    /// Tasks of the sender that wait for a worker.
    pub waiting: u32,
    /// Tasks that workers of the sender have.
    pub running: u32,
    /// Workers of the sender that are up.
    pub workers: u32,
    /// The time of all tasks that ran at the sender together, nanoseconds.
    pub busy_ns: u64,
}

impl Heartbeat {
    /// Returns a heartbeat with the times of `self` and the load (all other fields) of `own`.
    #[must_use]
    pub const fn with(self, own: Self) -> Self {
        Self { sent_ns: self.sent_ns, echo_ns: self.echo_ns, held_ns: self.held_ns, ..own }
    }

    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Heartbeat, |out| {
            put_words(
                out,
                [
                    self.sent_ns,
                    self.echo_ns,
                    self.held_ns,
                    u64::from(self.waiting) | (u64::from(self.running) << 32),
                    u64::from(self.workers),
                    self.busy_ns,
                ],
            );
        })
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let [sent_ns, echo_ns, held_ns, tasks, workers, busy_ns] = Reader::new(body).words()?;
        Ok(Self {
            sent_ns,
            echo_ns,
            held_ns,
            waiting: tasks as u32,
            running: (tasks >> 32) as u32,
            workers: workers as u32,
            busy_ns,
        })
    }
}

/// The definition of a function id of the sender, valid from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The id.
    pub function: FunctionId,
    /// The definition that workers receive.
    pub definition: &'a [u8],
    /// The name, for messages.
    pub name: &'a [u8],
}

impl<'a> Definition<'a> {
    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Define, |out| {
            put_words(out, [u64::from(self.function.0)]);
            put_bytes(out, self.definition);
            put_bytes(out, self.name);
        })
    }

    /// Reads the id from the beginning of the body.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "the high half is reserved")]
    pub fn function_of(body: &[u8]) -> Result<FunctionId, FrameError> {
        Ok(FunctionId(Reader::new(body).word()? as u32))
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        #[expect(clippy::cast_possible_truncation, reason = "the high half is reserved")]
        let function = FunctionId(reader.word()? as u32);
        Ok(Self { function, definition: reader.sized_bytes()?, name: reader.sized_bytes()? })
    }
}

/// A short request or notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// The receiver is to stop a task, or not to start it.
    Stop {
        /// The id that the sender of the task gave it.
        task: TaskId,
        /// The placement of the task.
        attempt: Attempt,
        /// The time from the interrupt to the kill.
        grace_ns: u64,
    },
    /// The receiver is not to start a task.
    Withdraw {
        /// The id that the sender of the task gave it.
        task: TaskId,
        /// The placement of the task.
        attempt: Attempt,
    },
    /// A task that was to be withdrawn has started, or has ended.
    Kept {
        /// The id that the sender of the task gave it.
        task: TaskId,
        /// The placement of the task.
        attempt: Attempt,
    },
    /// The receiver is to give back tasks that have not started.
    Recall {
        /// The largest number of tasks to give back.
        count: u32,
    },
    /// The answer to a recall: all tasks that the sender could give back were given back before it.
    Recalled,
    /// The sender would take nested tasks of the receiver, because workers of the sender or of its other peers are idle.
    Want {
        /// The largest number of tasks at a time; 0 ends the request.
        count: u32,
    },
    /// A priority floor. No task of the context (with context 0, no task without a context) may begin below this priority,
    /// except while another task waits for it.
    Floor {
        /// The context; 0 means none.
        context: ContextId,
        /// The lowest priority that may begin; `i32::MIN` admits every task.
        priority: i32,
        /// A higher floor for the sake of a task that needs several CPU slots; `i32::MIN` if there is none.
        wide: i32,
        /// The number of CPU slots that this task needs. If the node cannot free as many, `wide` does not apply.
        places: u32,
        /// The mark: the value of a counter on this link. Each later task of the context increments the counter, and
        /// [`Control::Vacant`] names a value of it.
        mark: u32,
    },
    /// Workers are idle because of a floor: all tasks up to `mark` that the floor admits have begun.
    Vacant {
        /// The context of the floor; 0 means none.
        context: ContextId,
        /// The number of workers.
        count: u32,
        /// The mark (see [`Control::Floor`]) of the last task of the context that has come, or of the floor if none has come.
        mark: u32,
    },
    /// The client asks that the lease last this long from now on. The node may refuse.
    Extend {
        /// Nanoseconds; `u64::MAX` means until it is given back.
        duration_ns: u64,
    },
    /// The lease lasts this long from now on. The client may send tasks until the node sends another [`Control::Drain`].
    Lasts {
        /// Nanoseconds; `u64::MAX` means until it is given back.
        duration_ns: u64,
    },
    /// The receiver is to send no more tasks, unless a later message extends the lease.
    Drain {
        /// The reason.
        text: String,
    },
    /// The answer to one drain: the sender of this message sends no more tasks there, and has sent all earlier ones.
    Drained,
    /// The sender has sent its last message.
    End {
        /// The reason.
        text: String,
    },
    /// No task will name a function id of the sender any more.
    ForgetFunction {
        /// The id.
        function: FunctionId,
    },
    /// No task will name a context any more.
    ForgetContext {
        /// The id that the engine that defined the context gave it.
        context: ContextId,
    },
    /// The sender refuses the handshake or the lease, or has ended the lease.
    Refuse {
        /// The reason.
        text: String,
        /// True if the sender will also refuse the next request of the receiver, for any lease, unless one of the two
        /// changes.
        is_final: bool,
    },
}

impl Control {
    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Stop { task, attempt, grace_ns } => {
                write_message(out, MessageKind::Stop, |out| {
                    put_words(out, [task.word(), u64::from(attempt.0), *grace_ns]);
                })
            }
            Self::Withdraw { task, attempt } => {
                Self::write_task(out, MessageKind::Withdraw, *task, *attempt)
            }
            Self::Kept { task, attempt } => {
                Self::write_task(out, MessageKind::Kept, *task, *attempt)
            }
            Self::Recall { count } => Self::write_count(out, MessageKind::Recall, *count),
            Self::Want { count } => Self::write_count(out, MessageKind::Want, *count),
            Self::Floor { context, priority, wide, places, mark } => {
                let floor = pair(priority.cast_unsigned(), wide.cast_unsigned());
                let words = [floor, pair(*places, *mark), u64::from(context.0)];
                write_message(out, MessageKind::Floor, |out| put_words(out, words))
            }
            Self::Vacant { context, count, mark } => {
                let words = [pair(*count, *mark), u64::from(context.0)];
                write_message(out, MessageKind::Vacant, |out| put_words(out, words))
            }
            Self::Extend { duration_ns } => {
                Self::write_time(out, MessageKind::Extend, *duration_ns)
            }
            Self::Lasts { duration_ns } => Self::write_time(out, MessageKind::Lasts, *duration_ns),
            Self::ForgetFunction { function } => {
                Self::write_count(out, MessageKind::ForgetFunction, function.0)
            }
            Self::ForgetContext { context } => {
                Self::write_count(out, MessageKind::ForgetContext, context.0)
            }
            Self::Recalled => write_message(out, MessageKind::Recalled, |_| {}),
            Self::Drained => write_message(out, MessageKind::Drained, |_| {}),
            Self::Drain { text } => Self::write_text(out, MessageKind::Drain, text),
            Self::End { text } => Self::write_text(out, MessageKind::End, text),
            Self::Refuse { text, is_final } => write_message(out, MessageKind::Refuse, |out| {
                put_words(out, [u64::from(*is_final)]);
                out.extend_from_slice(text.as_bytes());
            }),
        }
    }

    /// Appends a message whose body is one 32-bit number: a count, or the id of a function or context.
    fn write_count(out: &mut Vec<u8>, kind: MessageKind, count: u32) -> usize {
        write_message(out, kind, |out| put_words(out, [u64::from(count)]))
    }

    fn write_time(out: &mut Vec<u8>, kind: MessageKind, ns: u64) -> usize {
        write_message(out, kind, |out| put_words(out, [ns]))
    }

    fn write_task(out: &mut Vec<u8>, kind: MessageKind, task: TaskId, attempt: Attempt) -> usize {
        write_message(out, kind, |out| put_words(out, [task.word(), u64::from(attempt.0)]))
    }

    fn write_text(out: &mut Vec<u8>, kind: MessageKind, text: &str) -> usize {
        write_message(out, kind, |out| out.extend_from_slice(text.as_bytes()))
    }

    /// Reads a control message; returns `None` for other kinds.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(kind: MessageKind, body: &[u8]) -> Result<Option<Self>, FrameError> {
        let mut reader = Reader::new(body);
        let text = || text_of(body, TEXT_SIZE_MAX);
        Ok(Some(match kind {
            MessageKind::Stop => {
                let [task, attempt, grace_ns] = reader.words()?;
                let (task, attempt) = (TaskId::from_word(task), Attempt(attempt as u8));
                Self::Stop { task, attempt, grace_ns }
            }
            MessageKind::Withdraw | MessageKind::Kept => {
                let [task, attempt] = reader.words()?;
                let (task, attempt) = (TaskId::from_word(task), Attempt(attempt as u8));
                if kind == MessageKind::Kept {
                    Self::Kept { task, attempt }
                } else {
                    Self::Withdraw { task, attempt }
                }
            }
            MessageKind::Recall => Self::Recall { count: reader.word()? as u32 },
            MessageKind::Want => Self::Want { count: reader.word()? as u32 },
            MessageKind::Floor => {
                let [floor, counts, context] = reader.words()?;
                let [priority, wide] = [floor, floor >> 32].map(|half| (half as u32).cast_signed());
                let (places, mark) = (counts as u32, (counts >> 32) as u32);
                Self::Floor { context: ContextId(context as u32), priority, wide, places, mark }
            }
            MessageKind::Vacant => {
                let [counts, context] = reader.words()?;
                let (count, mark) = (counts as u32, (counts >> 32) as u32);
                Self::Vacant { context: ContextId(context as u32), count, mark }
            }
            MessageKind::Extend => Self::Extend { duration_ns: reader.word()? },
            MessageKind::Lasts => Self::Lasts { duration_ns: reader.word()? },
            MessageKind::ForgetFunction => {
                Self::ForgetFunction { function: FunctionId(reader.word()? as u32) }
            }
            MessageKind::ForgetContext => {
                Self::ForgetContext { context: ContextId(reader.word()? as u32) }
            }
            MessageKind::Recalled => Self::Recalled,
            MessageKind::Drained => Self::Drained,
            MessageKind::Drain => Self::Drain { text: text() },
            MessageKind::End => Self::End { text: text() },
            MessageKind::Refuse => {
                let is_final = reader.word()? & 1 != 0;
                let text = text_of(reader.rest(), TEXT_SIZE_MAX);
                Self::Refuse { text, is_final }
            }
            _ => return Ok(None),
        }))
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_control_message_comes_back() {
        let task = TaskId::new(1, 2);
        let text = || "why".to_owned();
        for message in [
            Control::Stop { task, attempt: Attempt(3), grace_ns: 4 },
            Control::Withdraw { task, attempt: Attempt(5) },
            Control::Kept { task, attempt: Attempt(6) },
            Control::Recall { count: 5 },
            Control::Recalled,
            Control::Want { count: 7 },
            Control::Floor {
                context: ContextId(4),
                priority: -3,
                wide: i32::MIN,
                places: 2,
                mark: u32::MAX,
            },
            Control::Vacant { context: ContextId(4), count: 2, mark: 7 },
            Control::Extend { duration_ns: 8 },
            Control::Lasts { duration_ns: u64::MAX },
            Control::Drained,
            Control::ForgetFunction { function: FunctionId(8) },
            Control::ForgetContext { context: ContextId(9) },
            Control::Drain { text: text() },
            Control::End { text: text() },
            Control::Refuse { text: text(), is_final: false },
            Control::Refuse { text: text(), is_final: true },
        ] {
            let mut chunk = Vec::new();
            message.write(&mut chunk);
            let (kind, body) = Messages::new(&chunk).next().expect("one").expect("whole");
            assert_eq!(Control::read(kind, body), Ok(Some(message)));
        }
    }

    #[test]
    fn a_text_without_end_is_cut() {
        let text = || "y".repeat(TEXT_SIZE_MAX + 1);
        for message in [
            Control::Drain { text: text() },
            Control::End { text: text() },
            Control::Refuse { text: text(), is_final: true },
        ] {
            let mut chunk = Vec::new();
            message.write(&mut chunk);
            let (kind, body) = Messages::new(&chunk).next().expect("one").expect("whole");
            let Ok(Some(
                Control::Drain { text } | Control::End { text } | Control::Refuse { text, .. },
            )) = Control::read(kind, body)
            else {
                panic!("it has a text")
            };
            assert_eq!(text.len(), TEXT_SIZE_MAX);
        }
    }

    #[test]
    fn golden_refusal() {
        let mut chunk = Vec::new();
        Control::Refuse { text: "no".to_owned(), is_final: true }.write(&mut chunk);
        let golden =
            [10, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'n', b'o', 0, 0, 0, 0, 0, 0];
        assert_eq!(chunk, golden);
    }

    #[test]
    fn beats_and_definitions_come_back() {
        let beat = Heartbeat {
            sent_ns: 1,
            echo_ns: 2,
            held_ns: 3,
            waiting: 4,
            running: 5,
            workers: 6,
            busy_ns: 7,
        };
        let definition = Definition { function: FunctionId(7), definition: b"code", name: b"name" };
        let mut chunk = Vec::new();
        beat.write(&mut chunk);
        definition.write(&mut chunk);
        let bodies: Vec<_> = Messages::new(&chunk).map(|one| one.expect("whole").1).collect();
        assert_eq!(Heartbeat::read(bodies[0]), Ok(beat));
        assert_eq!(Definition::read(bodies[1]), Ok(definition));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = (Heartbeat::read(&bytes), Definition::read(&bytes));
            for kind in [
                MessageKind::Stop,
                MessageKind::Recall,
                MessageKind::End,
                MessageKind::Refuse,
            ] {
                let _ = Control::read(kind, &bytes);
            }
        }
    }
}
