//! Messages of fixed meaning and few words: beats, definitions, requests about tasks.

use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{Attempt, ContextId, FrameError, FunctionId, TaskId};

/// A sign of life. Times are nanoseconds of the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat {
    /// When it was sent.
    pub sent_ns: u64,
    /// The other side's time in the last beat that came from there; 0 is none.
    pub echo_ns: u64,
    /// How long ago that one came.
    pub held_ns: u64,
    /// Tasks that wait here for a worker.
    pub waiting: u32,
    /// Tasks that workers have.
    pub running: u32,
    /// Workers that are up.
    pub workers: u32,
    /// How long tasks ran here so far, together, nanoseconds.
    pub busy_ns: u64,
}

impl Beat {
    /// The same sign, with what `own` says of load.
    #[must_use]
    pub const fn with(self, own: Self) -> Self {
        Self { sent_ns: self.sent_ns, echo_ns: self.echo_ns, held_ns: self.held_ns, ..own }
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Beat, |out| {
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

/// What a function id of the sender stands for from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The id.
    pub function: FunctionId,
    /// What workers are told.
    pub definition: &'a [u8],
    /// For messages.
    pub name: &'a [u8],
}

impl<'a> Definition<'a> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Define, |out| {
            put_words(out, [u64::from(self.function.0)]);
            put_bytes(out, self.definition);
            put_bytes(out, self.name);
        })
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

/// A request or a notice of a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// A task is to be stopped, or not started.
    Stop {
        /// Its id with whoever sent it.
        task: TaskId,
        /// Which placement of it.
        attempt: Attempt,
        /// From the interrupt to the kill.
        grace_ns: u64,
    },
    /// A task is not to be started.
    Withdraw {
        /// Its id with whoever sent it.
        task: TaskId,
        /// Which placement of it.
        attempt: Attempt,
    },
    /// A task that was to be withdrawn has started, or is over.
    Kept {
        /// Its id with whoever sent it.
        task: TaskId,
        /// Which placement of it.
        attempt: Attempt,
    },
    /// So many tasks that have not started are wanted back.
    Recall {
        /// How many at most.
        count: u32,
    },
    /// Those that could be given back were.
    Recalled,
    /// So many tasks that tasks submitted would be taken at a time: others have workers with nothing to do.
    Want {
        /// How many; 0 is none any more.
        count: u32,
    },
    /// The lease is to last for so long from now on, if the node does.
    Extend {
        /// Nanoseconds; `u64::MAX` is until it is given back.
        duration_ns: u64,
    },
    /// For how long the lease lasts from now on; until it drains again tasks may be sent here.
    Lasts {
        /// Nanoseconds; `u64::MAX` is until it is given back.
        duration_ns: u64,
    },
    /// Nothing more is to be sent here, unless the lease is said to last longer.
    Drain {
        /// Why.
        text: String,
    },
    /// Nothing more will be sent there because of one drain: all that was has been.
    Drained,
    /// Nothing more will come.
    End {
        /// Why.
        text: String,
    },
    /// No task will name this context any more.
    ForgetContext {
        /// Its id with whoever defined it.
        context: ContextId,
    },
    /// A lease is not given, or is over.
    Refuse {
        /// Why.
        text: String,
        /// It will be refused again, and another one too: nothing changes while both ends are as they are.
        is_final: bool,
    },
}

impl Control {
    /// Appends the message.
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
            Self::Extend { duration_ns } => {
                Self::write_time(out, MessageKind::Extend, *duration_ns)
            }
            Self::Lasts { duration_ns } => Self::write_time(out, MessageKind::Lasts, *duration_ns),
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

    /// Reads a message of this family; `None`: the kind is of another one.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(kind: MessageKind, body: &[u8]) -> Result<Option<Self>, FrameError> {
        let mut reader = Reader::new(body);
        let text = || String::from_utf8_lossy(body).into_owned();
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
            MessageKind::Extend => Self::Extend { duration_ns: reader.word()? },
            MessageKind::Lasts => Self::Lasts { duration_ns: reader.word()? },
            MessageKind::ForgetContext => {
                Self::ForgetContext { context: ContextId(reader.word()? as u32) }
            }
            MessageKind::Recalled => Self::Recalled,
            MessageKind::Drained => Self::Drained,
            MessageKind::Drain => Self::Drain { text: text() },
            MessageKind::End => Self::End { text: text() },
            MessageKind::Refuse => {
                let is_final = reader.word()? & 1 != 0;
                let text = String::from_utf8_lossy(reader.rest()).into_owned();
                Self::Refuse { text, is_final }
            }
            _ => return Ok(None),
        }))
    }
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
            Control::Extend { duration_ns: 8 },
            Control::Lasts { duration_ns: u64::MAX },
            Control::Drained,
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
    fn golden_refusal() {
        let mut chunk = Vec::new();
        Control::Refuse { text: "no".to_owned(), is_final: true }.write(&mut chunk);
        let golden =
            [10, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'n', b'o', 0, 0, 0, 0, 0, 0];
        assert_eq!(chunk, golden);
    }

    #[test]
    fn beats_and_definitions_come_back() {
        let beat = Beat {
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
        assert_eq!(Beat::read(bodies[0]), Ok(beat));
        assert_eq!(Definition::read(bodies[1]), Ok(definition));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = (Beat::read(&bytes), Definition::read(&bytes));
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
