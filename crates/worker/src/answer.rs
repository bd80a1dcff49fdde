//! Answers on their way out.
//!
//! Each is published as soon as it is written, before the next call begins: a call may last for hours. The results of a
//! batch are written one by one too, but into one record, which is published at the end: a client that will not wait for
//! that, or whose worker has died, reads as far as the worker has come.

use gristmill_shm::{BeginError, WorkerLane};
use gristmill_wire::{
    ANSWER_WORDS, AnswerFrame, Kind, PayloadKind, Span, TaskFrame, Temperature, Verdict,
};

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
    pub temperature: Temperature,
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
        temperature: answer.temperature,
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
                record.commit();
                lane.control.peer_bell().ring(lane.control.mode());
                return Ok(());
            }
            Err(BeginError::Full { .. }) => wait_for_room(lane, body),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Writes what came of a call of a batch, a frame and its payload, where its client can find it; waits while the ring is
/// full. It is published with those after it: by the next other record, or when [`publish_results`] is called.
#[inline]
pub(crate) fn write_result(lane: &mut WorkerLane, result: &[u8]) -> Result<(), WorkerEnd> {
    loop {
        if let Some(position) = lane.results.grow(result) {
            lane.control.progress().written(position);
            return Ok(());
        }
        begin_results(lane, result.len().max(RESULTS_ROOM))?;
    }
}

/// Bytes for results in one record: those of a batch of small ones.
const RESULTS_ROOM: usize = 1 << 10;

#[cold]
fn begin_results(lane: &mut WorkerLane, room: usize) -> Result<(), WorkerEnd> {
    loop {
        match lane.results.begin_growing(Kind::Results, room) {
            Ok(()) => return Ok(()),
            Err(BeginError::Full { .. }) => wait_for_room(lane, room + 8),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Publishes the results that were written, and wakes the client if it sleeps.
#[cold]
pub(crate) fn publish_results(lane: &mut WorkerLane) {
    lane.results.end_growing();
    lane.control.peer_bell().ring(lane.control.mode());
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
                    record.commit();
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
    record.commit();
    lane.control.peer_bell().ring(lane.control.mode());
    Ok(())
}
