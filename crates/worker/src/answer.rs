//! Answers on their way out.
//!
//! Each is published as soon as it is written, before the next call begins: a call may last for hours, and nobody else
//! could publish what is withheld meanwhile. What batching would save, the client saves by looking less often while
//! answers stream in.

use gristmill_shm::{BeginError, WorkerLane};
use gristmill_wire::{
    ANSWER_WORDS, AnswerFrame, Kind, PayloadKind, RESULT_WORDS, ResultFrame, Span, TaskFrame,
    Verdict,
};

use crate::callee::Reply;
use crate::run::WorkerEnd;

/// When the task at hand crossed which border, clock ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub claimed: u64,
    /// When its user code began; when it was decided, if it did not begin.
    pub started: u64,
    /// When it ended; if it did not begin, as `started`.
    pub ended: u64,
}

/// An answer to be written.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub frame: &'a TaskFrame,
    pub sequence: u64,
    pub times: Times,
    pub verdict: Verdict,
    pub payload: &'a [u8],
    pub is_arena: bool,
}

/// How long the worker sleeps at a time while the result ring is full.
const ROOM_SLEEP: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes and publishes an answer and wakes the client if it sleeps; waits while the ring is full.
pub(crate) fn write(lane: &mut WorkerLane, answer: &Answer<'_>) -> Result<(), WorkerEnd> {
    let Times { claimed, started, ended } = answer.times;
    let size = u32::try_from(answer.payload.len()).map_err(|_| WorkerEnd::Results)?;
    let frame = AnswerFrame {
        task: answer.frame.task,
        #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
        sequence: answer.sequence as u32,
        attempt: answer.frame.attempt,
        verdict: answer.verdict,
        payload: if answer.is_arena { PayloadKind::Arena } else { PayloadKind::Inline },
        started_ticks: started,
        claimed_before: Span::from_ticks(started.saturating_sub(claimed)),
        ran: Span::from_ticks(ended.saturating_sub(started)),
        published_after: Span::default(),
        payload_size: size,
    };
    let body = ANSWER_WORDS * 8 + answer.payload.len();
    loop {
        match lane.results.begin(Kind::Answer, 0, body) {
            Ok(mut record) => {
                record.words(0, &frame.words());
                #[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
                record.bytes(ANSWER_WORDS as u32 * 8, answer.payload);
                let written = record.commit() + 1;
                lane.control.progress().written(written);
                lane.control.peer_bell().ring(lane.control.mode());
                return Ok(());
            }
            Err(BeginError::Full { .. }) => wait_for_room(lane, body),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Writes and publishes what came of a call of a batch; waits while the ring is full. Nobody is woken: the caller sees to
/// it.
pub(crate) fn write_result(
    lane: &mut WorkerLane,
    reply: Reply,
    payload: &[u8],
    ran: Span,
) -> Result<(), WorkerEnd> {
    let frame = ResultFrame {
        verdict: reply.verdict,
        payload: if reply.arena { PayloadKind::Arena } else { PayloadKind::Inline },
        payload_size: u32::try_from(payload.len()).map_err(|_| WorkerEnd::Results)?,
        ran,
    };
    let body = RESULT_WORDS * 8 + payload.len();
    loop {
        match lane.results.begin(Kind::Result, 0, body) {
            Ok(mut record) => {
                record.words(0, &frame.words());
                #[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
                record.bytes(RESULT_WORDS as u32 * 8, payload);
                let written = record.commit() + 1;
                lane.control.progress().written(written);
                return Ok(());
            }
            Err(BeginError::Full { .. }) => wait_for_room(lane, body),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Writes words behind their count; waits while the ring is full.
pub(crate) fn write_words(
    lane: &mut WorkerLane,
    kind: Kind,
    words: &[u64],
) -> Result<(), WorkerEnd> {
    for part in words.chunks(WORDS_MAX) {
        let body = (part.len() + 1) * 8;
        loop {
            match lane.results.begin(kind, 0, body) {
                Ok(mut record) => {
                    record.word(0, part.len() as u64);
                    record.words(1, part);
                    let written = record.commit() + 1;
                    lane.control.progress().written(written);
                    break;
                }
                Err(BeginError::Full { .. }) => wait_for_room(lane, body),
                Err(_) => return Err(WorkerEnd::Results),
            }
        }
    }
    Ok(())
}

/// Words in one record of them.
const WORDS_MAX: usize = 512;

/// Sleeps until the client has read something.
#[cold]
pub(crate) fn wait_for_room(lane: &mut WorkerLane, body: usize) {
    let WorkerLane { results, control, .. } = lane;
    control.peer_bell().ring(control.mode());
    results.want_room(true);
    let _ = control.own_bell().sleep(control.mode(), || !results.has_room(body), Some(ROOM_SLEEP));
    results.want_room(false);
}

/// Says that the worker is ready, or why not.
pub(crate) fn announce(lane: &mut WorkerLane, failure: Option<&str>) -> Result<(), WorkerEnd> {
    let text = failure.unwrap_or_default().as_bytes();
    let text = &text[..text.len().min(lane.results.max_body() as usize - 8)];
    let record = lane.results.begin(Kind::Ready, u8::from(failure.is_some()), 8 + text.len());
    let mut record = record.map_err(|_| WorkerEnd::Results)?;
    record.word(0, text.len() as u64);
    record.bytes(8, text);
    let written = record.commit() + 1;
    lane.control.progress().written(written);
    lane.control.peer_bell().ring(lane.control.mode());
    Ok(())
}
