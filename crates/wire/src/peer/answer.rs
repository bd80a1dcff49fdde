//! The report of one engine to another that a task has ended.

use super::{MessageKind, Parted, Reader, put_bytes, put_words, write_message};
use crate::{Attempt, Epoch, FrameError, SlotId, Span, TaskId, WorkerState};

/// The end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EndKind {
    /// The task returned: the value follows.
    Returned = 1,
    /// The task raised: the exception follows.
    Raised = 2,
    /// The task was stopped on request while it ran.
    Stopped = 3,
    /// The deadline passed before the task started.
    Expired = 4,
    /// The task ran out of time and was stopped: the exception that it raised follows.
    TimedOut = 5,
    /// The task ran out of time and was killed.
    Killed = 6,
    /// The task has not started and will not start: its sender has it again.
    Unstarted = 7,
    /// The worker died while the task ran: a [`LossFrame`] follows.
    Lost = 8,
    /// The task cannot get a worker, because too many tasks that wait for their own tasks hold all workers.
    TooDeep = 9,
    /// No worker there can have the task's context: text follows.
    ContextFailed = 10,
}

impl EndKind {
    const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Returned,
            2 => Self::Raised,
            3 => Self::Stopped,
            4 => Self::Expired,
            5 => Self::TimedOut,
            6 => Self::Killed,
            7 => Self::Unstarted,
            8 => Self::Lost,
            9 => Self::TooDeep,
            10 => Self::ContextFailed,
            other => return Err(FrameError::UnknownVerdict(other)),
        })
    }

    /// Returns true if a payload follows: a value, an exception or text.
    #[must_use]
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Returned | Self::Raised | Self::TimedOut | Self::ContextFailed)
    }
}

/// The end of one task, borrowed from the message. Times are nanoseconds of the clock of the engine that ran the task; spans
/// are in nanoseconds too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerMessage<'a> {
    /// The id that the sender of the task gave it.
    pub task: TaskId,
    /// The placement of the task that this answer belongs to.
    pub attempt: Attempt,
    /// The kind of end.
    pub end: EndKind,
    /// The time at which user code began; 0 if it did not begin.
    pub started_ns: u64,
    /// The time from the claim to the start.
    pub claimed_before: Span,
    /// The time that user code ran.
    pub ran: Span,
    /// The time from the end of the run until its node knew of it.
    pub published_after: Span,
    /// The readiness of the worker: hot, warm or cold.
    pub worker_state: WorkerState,
    /// The value, exception or text, if [`EndKind::has_payload`].
    pub payload: Parted<'a>,
    /// The loss of the worker, if the end is [`EndKind::Lost`].
    pub loss: Option<LossFrame>,
}

/// A report on the death of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossFrame {
    /// The code of the cause; the layer above defines the codes.
    pub cause: u8,
    /// The signal or the exit code that belongs to the cause.
    pub number: i32,
    /// The process id of the worker.
    pub pid: u32,
    /// The slot of the worker.
    pub slot: SlotId,
    /// The number of the process in that slot.
    pub epoch: Epoch,
    /// True if the system killed the worker because memory ran out.
    pub oom: bool,
    /// True if the worker was killed because of another task.
    pub is_bystander: bool,
    /// The last lines of the worker's standard error.
    pub detail: String,
    /// The import that was in progress, as "importing module numpy"; empty if there was none.
    pub loading: String,
}

impl<'a> AnswerMessage<'a> {
    /// Appends an answer. If the end has a payload, `fill` appends it with [`Parted::put_head`].
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        write_message(out, MessageKind::Answer, |out| {
            put_words(
                out,
                [
                    self.task.word(),
                    u64::from(self.attempt.0)
                        | ((self.end as u64) << 8)
                        | ((self.worker_state as u64) << 16)
                        | (u64::from(self.published_after.bits()) << 32),
                    self.started_ns,
                    u64::from(self.claimed_before.bits()) | (u64::from(self.ran.bits()) << 32),
                ],
            );
            if self.end.has_payload() {
                fill(out);
            } else if let Some(loss) = &self.loss {
                loss.write(out);
            }
        })
    }

    /// Reads an answer of which only the beginning is there: without its payload, and without a loss.
    ///
    /// # Errors
    /// The beginning is too short, or has an unknown end.
    pub fn head_of(body: &[u8]) -> Result<Self, FrameError> {
        let words = Reader::new(body).words()?;
        Ok(Self::of_words(words, end_of(words)?, Parted::default(), None))
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The answer is shorter than it states, or has an unknown end.
    #[inline]
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let words = reader.words()?;
        let end = end_of(words)?;
        let is_loss = end == EndKind::Lost;
        let loss = if is_loss { Some(LossFrame::read(&mut reader)?) } else { None };
        let payload =
            if end.has_payload() { Parted::read(&mut reader)? } else { Parted::default() };
        Ok(Self::of_words(words, end, payload, loss))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    fn of_words(
        [task, word, started_ns, spans]: [u64; 4],
        end: EndKind,
        payload: Parted<'a>,
        loss: Option<LossFrame>,
    ) -> Self {
        Self {
            task: TaskId::from_word(task),
            attempt: Attempt(word as u8),
            end,
            started_ns,
            claimed_before: Span::from_bits(spans as u32),
            ran: Span::from_bits((spans >> 32) as u32),
            published_after: Span::from_bits((word >> 32) as u32),
            worker_state: WorkerState::from_byte((word >> 16) as u8),
            payload,
            loss,
        }
    }
}

/// Returns the kind of end in the first words of an answer.
#[inline]
const fn end_of([_, word, ..]: [u64; 4]) -> Result<EndKind, FrameError> {
    let [_, end, ..] = word.to_le_bytes();
    EndKind::from_byte(end)
}

impl LossFrame {
    fn write(&self, out: &mut Vec<u8>) {
        let flags = u64::from(self.oom) | (u64::from(self.is_bystander) << 1);
        put_words(
            out,
            [
                u64::from(self.cause)
                    | (flags << 8)
                    | (u64::from(self.number.cast_unsigned()) << 32),
                u64::from(self.pid) | (u64::from(self.slot.0) << 32),
                u64::from(self.epoch.0),
            ],
        );
        put_bytes(out, self.detail.as_bytes());
        put_bytes(out, self.loading.as_bytes());
    }

    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    fn read(reader: &mut Reader<'_>) -> Result<Self, FrameError> {
        let [what, whom, epoch] = reader.words()?;
        Ok(Self {
            cause: what as u8,
            number: ((what >> 32) as u32).cast_signed(),
            pid: whom as u32,
            slot: SlotId((whom >> 32) as u16),
            epoch: Epoch(epoch as u32),
            oom: what & (1 << 8) != 0,
            is_bystander: what & (1 << 9) != 0,
            detail: reader.text()?,
            loading: reader.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use proptest::prelude::*;

    fn answer(end: EndKind, loss: Option<LossFrame>) -> AnswerMessage<'static> {
        AnswerMessage {
            task: TaskId::new(1, 2),
            attempt: Attempt(3),
            end,
            started_ns: 4,
            claimed_before: Span::from_ticks(5),
            ran: Span::from_ticks(6),
            published_after: Span::from_ticks(7),
            worker_state: WorkerState::Cold,
            payload: Parted::default(),
            loss,
        }
    }

    fn read(chunk: &[u8]) -> AnswerMessage<'_> {
        let (_, body) = Messages::new(chunk).next().expect("one").expect("whole");
        AnswerMessage::read(body).expect("it decodes")
    }

    #[test]
    fn golden_answer() {
        let mut chunk = Vec::new();
        answer(EndKind::Returned, None).write(&mut chunk, |out| Parted::put_plain(out, b"v"));
        let golden = [
            48, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 0, 7, 0, 0, 0, 4, 0, 0, 0, 0,
            0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'v', 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(chunk, golden);
        let head = AnswerMessage::head_of(&chunk[8..40]);
        assert_eq!(head, Ok(answer(EndKind::Returned, None)), "of the beginning");
        let payload = Parted { bytes: b"v", parts: Vec::new() };
        assert_eq!(read(&chunk), AnswerMessage { payload, ..answer(EndKind::Returned, None) });
    }

    #[test]
    fn a_loss_comes_back() {
        let loss = LossFrame {
            cause: 1,
            number: -9,
            pid: 77,
            slot: SlotId(3),
            epoch: Epoch(4),
            oom: true,
            is_bystander: false,
            detail: "last words".to_owned(),
            loading: "importing module numpy".to_owned(),
        };
        let mut chunk = Vec::new();
        answer(EndKind::Lost, Some(loss.clone())).write(&mut chunk, |_| {});
        assert_eq!(read(&chunk), answer(EndKind::Lost, Some(loss)));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = AnswerMessage::read(&bytes);
        }
    }
}
