//! Answers that the worker writes to its result ring.
//!
//! The worker publishes each answer as soon as it is written, before the next call begins: a call may last for hours.
//! The results of a batch are also written one by one, but into one record that is published at the end. If the client
//! does not wait for the end, or the worker has died, the client reads the results written so far from the unfinished
//! record.

use gristmill_shm::{BeginError, WorkerEnds};
use gristmill_wire::{
    ANSWER_WORDS, AnswerFrame, PayloadKind, RecordKind, Span, TaskFrame, Verdict, WorkerState,
};

use crate::end::WorkerEnd;

/// Times at which a task passed the stages of its run, clock ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub claimed: u64,
    /// Start of its user code; if that did not begin, the time of the claim, or for a batch the start of the batch.
    pub started: u64,
    /// End of its user code; equal to `started` if that did not begin.
    pub ended: u64,
}

/// A task's answer before it is written to the ring.
#[derive(Debug)]
pub(crate) struct OutboundAnswer<'a> {
    pub frame: &'a TaskFrame,
    pub sequence: u64,
    pub times: Times,
    pub verdict: Verdict,
    pub payload: &'a [u8],
    pub is_arena: bool,
    pub worker_state: WorkerState,
}

/// Longest single sleep of the worker while the result ring is full.
const ROOM_SLEEP: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes and publishes an answer, and wakes the client if it sleeps. Waits while the ring is full.
pub(crate) fn write(ends: &mut WorkerEnds, answer: &OutboundAnswer<'_>) -> Result<(), WorkerEnd> {
    let Times { claimed, started, ended } = answer.times;
    let size = u32::try_from(answer.payload.len()).map_err(|_| WorkerEnd::Results)?;
    let frame = AnswerFrame {
        task: answer.frame.task,
        #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
        sequence: answer.sequence as u32,
        attempt: answer.frame.attempt,
        verdict: answer.verdict,
        payload: if answer.is_arena { PayloadKind::Arena } else { PayloadKind::Inline },
        worker_state: answer.worker_state,
        started_ticks: started,
        claimed_before: Span::from_ticks(started.saturating_sub(claimed)),
        ran: Span::from_ticks(ended.saturating_sub(started)),
        published_after: Span::default(),
        payload_size: size,
    };
    let body = ANSWER_WORDS * 8 + answer.payload.len();
    loop {
        match ends.results.begin(RecordKind::Answer, 0, body) {
            Ok(mut record) => {
                record.words(0, &frame.words());
                #[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
                record.bytes(ANSWER_WORDS as u32 * 8, answer.payload);
                record.commit();
                ends.control.peer_bell().ring(ends.control.mode());
                return Ok(());
            }
            Err(BeginError::Full { .. }) => wait_for_room(ends, body),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Writes the result of one call of a batch (a frame and its payload) where the client can find it. Waits while the
/// ring is full. The result becomes visible when the growing record ends: when the next record begins, for example
/// because this one is full, or in [`publish_results`].
pub(crate) fn write_result(ends: &mut WorkerEnds, result: &[u8]) -> Result<(), WorkerEnd> {
    while !add_result(ends, result) {
        begin_results(ends, result.len().max(RESULTS_ROOM))?;
    }
    Ok(())
}

/// Adds a result to the growing record. Returns false if no record is growing or the record has no room.
#[inline]
pub(crate) fn add_result(ends: &mut WorkerEnds, result: &[u8]) -> bool {
    let position = ends.results.grow(result);
    if let Some(position) = position {
        ends.control.progress().written(position);
    }
    position.is_some()
}

/// Bytes for results in one record: enough for a batch of small ones.
const RESULTS_ROOM: usize = 1 << 10;

#[cold]
fn begin_results(ends: &mut WorkerEnds, room: usize) -> Result<(), WorkerEnd> {
    loop {
        match ends.results.begin_growing(RecordKind::Results, room) {
            Ok(()) => return Ok(()),
            Err(BeginError::Full { .. }) => wait_for_room(ends, room + 8),
            Err(_) => return Err(WorkerEnd::Results),
        }
    }
}

/// Publishes the results written so far, and wakes the client if it sleeps.
#[cold]
pub(crate) fn publish_results(ends: &mut WorkerEnds) {
    ends.results.end_growing();
    ends.control.peer_bell().ring(ends.control.mode());
}

/// Writes records of words, each with the count of its words in front. Waits while the ring is full.
pub(crate) fn write_words(
    ends: &mut WorkerEnds,
    kind: RecordKind,
    words: &[u64],
) -> Result<(), WorkerEnd> {
    for part in words.chunks(WORDS_MAX) {
        let body = (part.len() + 1) * 8;
        loop {
            match ends.results.begin(kind, 0, body) {
                Ok(mut record) => {
                    record.word(0, part.len() as u64);
                    record.words(1, part);
                    record.commit();
                    break;
                }
                Err(BeginError::Full { .. }) => wait_for_room(ends, body),
                Err(_) => return Err(WorkerEnd::Results),
            }
        }
    }
    Ok(())
}

/// Maximum number of words in one record of [`write_words`].
const WORDS_MAX: usize = 512;

/// Sleeps until the result ring has room for `body` bytes, or for [`ROOM_SLEEP`].
#[cold]
pub(crate) fn wait_for_room(ends: &mut WorkerEnds, body: usize) {
    let WorkerEnds { results, control, .. } = ends;
    control.peer_bell().ring(control.mode());
    results.want_room(true);
    let _ = control.own_bell().sleep(control.mode(), || !results.has_room(body), Some(ROOM_SLEEP));
    results.want_room(false);
}

/// Tells the client that the worker no longer uses its rings. Returns false if the ring has no room for the record.
pub(crate) fn tell_left(ends: &mut WorkerEnds) -> bool {
    let Ok(record) = ends.results.begin(RecordKind::Left, 0, 0) else { return false };
    record.commit();
    ends.control.peer_bell().ring(ends.control.mode());
    true
}

/// Tells the client that the worker is ready, or why it failed to start.
pub(crate) fn announce(ends: &mut WorkerEnds, failure: Option<&str>) -> Result<(), WorkerEnd> {
    let text = failure.unwrap_or_default().as_bytes();
    let text = &text[..text.len().min(ends.results.max_body() as usize - 8)];
    let record = ends.results.begin(RecordKind::Ready, u8::from(failure.is_some()), 8 + text.len());
    let mut record = record.map_err(|_| WorkerEnd::Results)?;
    record.word(0, text.len() as u64);
    record.bytes(8, text);
    record.commit();
    ends.control.peer_bell().ring(ends.control.mode());
    Ok(())
}
