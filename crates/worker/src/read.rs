//! Copies of the records of the task ring. Reading a record checks that its parts lie where its frame says.

use gristmill_shm::{RingRecord, Words, WorkerArena};
use gristmill_sync::clock::monotonic_ns;
use gristmill_wire::{
    BlockRange, EXTENSION_WORDS, FrameError, FunctionId, PARENT_WORDS, ParentEntry, SlotId,
    TASK_WORDS, TaskExtension, TaskFlags, TaskFrame, WorkerState, padded_size,
};

use crate::callee::split_parent;
use crate::end::WorkerEnd;
use crate::places::read_places;

/// A task record, copied out of the ring.
pub(crate) struct TaskRecord {
    pub frame: TaskFrame,
    pub extension: TaskExtension,
    /// Slots of the CPU slots that it holds, if it is wide.
    pub places: Vec<SlotId>,
    pub sequence: u64,
    /// Time of the claim, clock ticks.
    pub claimed: u64,
    /// The worker's state (hot or warm) when the record came.
    pub worker_state: WorkerState,
    /// Offset of the payload in the body, behind the parents.
    pub payload_at: usize,
}

impl TaskRecord {
    /// Returns the time at which the time of the task is over if it starts now, monotonic nanoseconds; `u64::MAX` if it has
    /// no limit.
    #[inline]
    pub fn deadline_ns(&self) -> u64 {
        match self.extension.timeout_ns {
            0 => u64::MAX,
            timeout_ns => monotonic_ns().saturating_add(timeout_ns),
        }
    }
}

/// Copies a part of a reply into `body`. Returns the word in front of it.
pub(crate) fn read_reply<W: Words>(
    record: &RingRecord<'_, W>,
    body: &mut Vec<u8>,
) -> Result<u64, FrameError> {
    let [word] = record.words(0)?;
    body.clear();
    #[expect(clippy::cast_possible_truncation, reason = "the size is in the low half")]
    record.append_to(8, word as u32, body)?;
    Ok(word)
}

/// Reads the id of a function that no task names any more.
pub(crate) fn read_forgotten<W: Words>(
    record: &RingRecord<'_, W>,
) -> Result<FunctionId, WorkerEnd> {
    let [word] = record.words(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the high half is reserved")]
    let function = FunctionId(word as u32);
    Ok(function)
}

pub(crate) fn read_definition<W: Words>(
    record: &RingRecord<'_, W>,
    arena: &WorkerArena,
    body: &mut Vec<u8>,
) -> Result<FunctionId, WorkerEnd> {
    let [word] = record.words(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    let (function, size) = (word as u32, (word >> 32) as u32);
    body.clear();
    if record.header().flags == 0 {
        record.append_to(8, size, body)?;
    } else {
        let [offset, size] = record.words(1)?;
        arena.append_to(BlockRange { offset, size }, body)?;
    }
    Ok(FunctionId(function))
}

/// Copies parents and payload into `body`, and checks that they lie where the frame says.
#[inline]
pub(crate) fn read_task<W: Words>(
    record: &RingRecord<'_, W>,
    (claimed, worker_state): (u64, WorkerState),
    arena: &WorkerArena,
    body: &mut Vec<u8>,
) -> Result<TaskRecord, WorkerEnd> {
    #[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
    const FIXED: (u32, u32) = (TASK_WORDS as u32, EXTENSION_WORDS as u32);
    let frame = TaskFrame::from_words(record.words(0)?)?;
    let has_extension = frame.flags.has(TaskFlags::EXTENDED);
    let mut start = FIXED.0 * 8;
    let mut extension = TaskExtension::default();
    if has_extension {
        extension = TaskExtension::from_words(record.words(FIXED.0)?);
        start += FIXED.1 * 8;
    }
    let places = match extension.grant.named_places() {
        0 => Vec::new(),
        _ => read_places(record, &mut start, &extension.grant)?,
    };
    body.clear();
    let payload_at = if frame.flags.has(TaskFlags::SPILLED) {
        let [offset, size] = record.words(start / 8)?;
        arena.append_to(BlockRange { offset, size }, body)?;
        check_spilled(&frame, body)?
    } else {
        let parents_size = match frame.parent_count {
            0 => 0,
            _ => parents_size(record, &frame, start)?,
        };
        record.append_to(start, parents_size.saturating_add(frame.payload_size), body)?;
        parents_size as usize
    };
    let sequence = record.sequence();
    Ok(TaskRecord { frame, extension, places, sequence, claimed, worker_state, payload_at })
}

/// Returns the size of a record's parents, which begin at byte `start`.
fn parents_size<W: Words>(
    record: &RingRecord<'_, W>,
    frame: &TaskFrame,
    start: u32,
) -> Result<u32, FrameError> {
    let mut end = start;
    for _ in 0..frame.parent_count {
        let entry = ParentEntry::from_words(record.words::<PARENT_WORDS>(end / 8)?);
        let size = u32::try_from(padded_size(entry.size as usize)).unwrap_or(u32::MAX);
        end = end.saturating_add(16).saturating_add(size);
        if end > record.body_size() {
            let (needed, found) = (end as usize, record.body_size() as usize);
            return Err(FrameError::Truncated { needed, found });
        }
    }
    Ok(end - start)
}

/// Checks that a spilled body matches its frame. Returns the offset of the payload.
fn check_spilled(frame: &TaskFrame, body: &[u8]) -> Result<usize, FrameError> {
    let mut rest = body;
    for _ in 0..frame.parent_count {
        let needed = body.len() + 16;
        let short = FrameError::Truncated { needed, found: body.len() };
        rest = split_parent(rest).ok_or(short)?.2;
    }
    if rest.len() != frame.payload_size as usize {
        let (needed, found) = (frame.payload_size as usize, rest.len());
        return Err(FrameError::Truncated { needed, found });
    }
    Ok(body.len() - rest.len())
}
