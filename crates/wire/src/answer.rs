//! The frame of an answer: a worker's report on one task record.

use crate::{Attempt, FrameError, PayloadKind, Span, TaskId, WorkerState};

/// Words of an [`AnswerFrame`].
pub const ANSWER_WORDS: usize = 5;

/// A worker's verdict on a task record. Every task record gets exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// The function returned; the payload is the value.
    Returned = 1,
    /// The function raised; the payload is the exception.
    Raised = 2,
    /// The worker must not start the task: it was revoked before the worker claimed it, the lease is over, or a priority
    /// floor forbids it. The task, or the batch, has not started.
    Skipped = 3,
    /// The worker could not take the task now, because its running task waits for others; the task has not started.
    Declined = 4,
    /// An interrupt stopped the task; the payload is the exception that it raised.
    Interrupted = 5,
    /// The task's deadline had passed when its turn came; it has not started.
    Expired = 6,
    /// A parent in the same ring gave no value; the task has not started. Reserved.
    NotRun = 7,
}

impl Verdict {
    pub(crate) const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Returned,
            2 => Self::Raised,
            3 => Self::Skipped,
            4 => Self::Declined,
            5 => Self::Interrupted,
            6 => Self::Expired,
            7 => Self::NotRun,
            other => return Err(FrameError::UnknownVerdict(other)),
        })
    }

    /// Returns true if the user's code had begun.
    #[must_use]
    pub const fn has_started(self) -> bool {
        matches!(self, Self::Returned | Self::Raised | Self::Interrupted)
    }
}

/// The fixed part of an answer record; `payload_size` bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerFrame {
    /// The task that this frame answers.
    pub task: TaskId,
    /// The low half of the task record's sequence in its ring.
    pub sequence: u32,
    /// The attempt that this frame answers.
    pub attempt: Attempt,
    /// The outcome of the attempt.
    pub verdict: Verdict,
    /// The location of the payload's bytes.
    pub payload: PayloadKind,
    /// The readiness of the worker: hot, warm or cold.
    pub worker_state: WorkerState,
    /// The time at which the user's code began, in clock ticks. If it did not begin, the time of the claim; for a batch, the
    /// time at which the batch began.
    pub started_ticks: u64,
    /// The time from the claim to the start.
    pub claimed_before: Span,
    /// The time from the start to the end.
    pub ran: Span,
    /// The time from the end to the publication of this answer. A worker publishes each answer at once and leaves this 0.
    pub published_after: Span,
    /// Payload bytes that follow the frame.
    pub payload_size: u32,
}

impl AnswerFrame {
    /// The index of the word that holds `published_after` in its low half.
    pub const PUBLISHED_WORD: usize = 4;

    /// Returns the frame in wire format.
    #[must_use]
    pub const fn words(&self) -> [u64; ANSWER_WORDS] {
        [
            self.task.word(),
            self.sequence as u64
                | ((self.attempt.0 as u64) << 32)
                | ((self.verdict as u64) << 40)
                | ((self.payload as u64) << 48)
                | ((self.worker_state as u64) << 56),
            self.started_ticks,
            self.claimed_before.bits() as u64 | ((self.ran.bits() as u64) << 32),
            self.published_after.bits() as u64 | ((self.payload_size as u64) << 32),
        ]
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`FrameError::UnknownVerdict`] and [`FrameError::UnknownPayload`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn from_words(words: [u64; ANSWER_WORDS]) -> Result<Self, FrameError> {
        Ok(Self {
            task: TaskId::from_word(words[0]),
            sequence: words[1] as u32,
            attempt: Attempt((words[1] >> 32) as u8),
            verdict: Verdict::from_byte((words[1] >> 40) as u8)?,
            payload: PayloadKind::from_byte((words[1] >> 48) as u8)?,
            worker_state: WorkerState::from_byte((words[1] >> 56) as u8),
            started_ticks: words[2],
            claimed_before: Span::from_bits(words[3] as u32),
            ran: Span::from_bits((words[3] >> 32) as u32),
            published_after: Span::from_bits(words[4] as u32),
            payload_size: (words[4] >> 32) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_frame() {
        let frame = AnswerFrame {
            task: TaskId::new(1, 2),
            sequence: 3,
            attempt: Attempt(4),
            verdict: Verdict::Raised,
            payload: PayloadKind::Inline,
            worker_state: WorkerState::Warm,
            started_ticks: 5,
            claimed_before: Span::from_ticks(6),
            ran: Span::from_ticks(7),
            published_after: Span::from_ticks(8),
            payload_size: 9,
        };
        let bytes: Vec<u8> = frame.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let golden = [
            1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 2, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 7,
            0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0,
        ];
        assert_eq!(bytes, golden);
        assert_eq!(AnswerFrame::from_words(frame.words()), Ok(frame));
    }

    proptest! {
        #[test]
        fn any_words_decode_or_are_refused(words: [u64; ANSWER_WORDS]) {
            if let Ok(frame) = AnswerFrame::from_words(words) {
                prop_assert_eq!(AnswerFrame::from_words(frame.words()), Ok(frame));
            }
        }
    }
}
