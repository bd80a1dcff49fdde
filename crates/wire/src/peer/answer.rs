//! How a task ended on another node.

use super::{MessageKind, Parted, Reader, put_bytes, put_words, write_message};
use crate::{Attempt, Epoch, FrameError, SlotId, Span, TaskId, Temperature};

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EndKind {
    /// It returned: the value follows.
    Returned = 1,
    /// It raised: the exception follows.
    Raised = 2,
    /// It was stopped on request while it ran.
    Stopped = 3,
    /// Its deadline passed before it started.
    Expired = 4,
    /// It ran out of time and was stopped: what it raised follows.
    TimedOut = 5,
    /// It ran out of time and was killed.
    Killed = 6,
    /// It has not started and will not: it comes back.
    Unstarted = 7,
    /// Its worker died while it ran: a [`LossFrame`] follows.
    Lost = 8,
    /// It waits for a place below too many tasks that wait themselves.
    TooDeep = 9,
    /// Nobody there can have its context: text follows.
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

    /// Whether bytes of the user's, or a text, follow.
    #[must_use]
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Returned | Self::Raised | Self::TimedOut | Self::ContextFailed)
    }
}

/// The end of one task, read where it lies. Times are nanoseconds of the clock of whoever ran it; spans are of
/// nanoseconds too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerMessage<'a> {
    /// Its id with whoever sent it.
    pub task: TaskId,
    /// Which placement of it.
    pub attempt: Attempt,
    /// How it ended.
    pub end: EndKind,
    /// When user code began; 0 if it did not.
    pub started_ns: u64,
    /// From the claim to the start.
    pub claimed_before: Span,
    /// How long user code ran.
    pub ran: Span,
    /// From the end of the run until its node knew.
    pub published_after: Span,
    /// How ready its worker was.
    pub temperature: Temperature,
    /// What it gave, by [`EndKind::has_payload`].
    pub payload: Parted<'a>,
    /// How its worker died, by [`EndKind::Lost`].
    pub loss: Option<LossFrame>,
}

/// How a worker died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossFrame {
    /// Which kind of end, and the number that goes with it: the layer above names them.
    pub cause: u8,
    /// A signal, or an exit code.
    pub number: i32,
    /// The process.
    pub pid: u32,
    /// Its place.
    pub slot: SlotId,
    /// Which process of that place.
    pub epoch: Epoch,
    /// Whether for want of memory.
    pub oom: bool,
    /// Whether it was killed because of another task.
    pub is_bystander: bool,
    /// The last lines of its standard error.
    pub detail: String,
}

impl<'a> AnswerMessage<'a> {
    /// Appends an answer; `fill` appends the payload with [`Parted::put_head`], if the end has one.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        write_message(out, MessageKind::Answer, |out| {
            put_words(
                out,
                [
                    self.task.word(),
                    u64::from(self.attempt.0)
                        | ((self.end as u64) << 8)
                        | ((self.temperature as u64) << 16)
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

    /// Reads an answer.
    ///
    /// # Errors
    /// It is shorter than it says, or has an unknown end.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let [task, word, started_ns, spans] = reader.words()?;
        let end = EndKind::from_byte((word >> 8) as u8)?;
        let is_loss = end == EndKind::Lost;
        Ok(Self {
            task: TaskId::from_word(task),
            attempt: Attempt(word as u8),
            end,
            started_ns,
            claimed_before: Span::from_bits(spans as u32),
            ran: Span::from_bits((spans >> 32) as u32),
            published_after: Span::from_bits((word >> 32) as u32),
            temperature: Temperature::from_byte((word >> 16) as u8),
            loss: if is_loss { Some(LossFrame::read(&mut reader)?) } else { None },
            payload: if end.has_payload() { Parted::read(&mut reader)? } else { Parted::default() },
        })
    }
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
            temperature: Temperature::Cold,
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
