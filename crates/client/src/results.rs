//! The results of batches: collected as they arrive, until the caller takes them.

use std::collections::{HashMap, VecDeque};

use gristmill_core::Payload;
use gristmill_shm::{RingRecord, Words};
use gristmill_wire::{BatchResults, FunctionId, PayloadKind, TaskId, Verdict};

use crate::bundle::{Bundles, EncodedOutcome};

/// Results of calls, in order, one after the other.
#[derive(Debug, Default)]
pub struct Results {
    /// Results in the wire format, already checked.
    bytes: Vec<u8>,
    /// Offset of the next result.
    at: usize,
    /// Number of results that are left.
    count: usize,
    bundles: VecDeque<EncodedOutcome>,
}

/// The outcome of one call.
#[derive(Debug)]
pub struct CallResult<'a> {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// The encoded value or exception.
    pub value: CallValue<'a>,
}

/// The bytes of a result.
#[derive(Debug)]
pub enum CallValue<'a> {
    /// Bytes in this buffer.
    Inline(&'a [u8]),
    /// Bytes with blocks of the arena.
    Blocks(EncodedOutcome),
}

impl Results {
    /// Takes the next result.
    #[inline]
    pub fn take(&mut self) -> Option<CallResult<'_>> {
        let mut rest = BatchResults::new(self.bytes.get(self.at..)?);
        let (frame, bytes) = rest.take().expect("it was checked")?;
        self.at = self.bytes.len() - rest.remaining();
        self.count -= 1;
        let value = if frame.payload == PayloadKind::Inline {
            CallValue::Inline(bytes)
        } else {
            CallValue::Blocks(self.bundles.pop_front().expect("one for each such result"))
        };
        Some(CallResult { verdict: frame.verdict, value })
    }

    /// Takes the next result if its bytes are inline and `decode` returns a value for them.
    #[inline]
    pub fn take_if<T>(&mut self, decode: impl FnOnce(Verdict, &[u8]) -> Option<T>) -> Option<T> {
        let mut rest = BatchResults::new(self.bytes.get(self.at..)?);
        let (frame, bytes) = rest.take().expect("it was checked")?;
        if frame.payload != PayloadKind::Inline {
            return None;
        }
        let value = decode(frame.verdict, bytes)?;
        self.at = self.bytes.len() - rest.remaining();
        self.count -= 1;
        Some(value)
    }

    /// Returns the number of results that are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns true if no result is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The state of one batch.
#[derive(Debug)]
pub(crate) struct BatchState {
    function: FunctionId,
    /// Calls that are still part of the batch.
    calls: u32,
    /// Results taken in.
    count: u32,
    ready: Results,
    /// The tasks that the batch's last calls have become, in order.
    rest: Vec<TaskId>,
    is_released: bool,
}

/// Batches that are not final, or not released.
#[derive(Debug, Default)]
pub(crate) struct Batches(HashMap<TaskId, BatchState>);

impl Batches {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, batch: TaskId, function: FunctionId, calls: u32) {
        let collected = BatchState {
            function,
            calls,
            count: 0,
            ready: Results::default(),
            rest: Vec::new(),
            is_released: false,
        };
        self.0.insert(batch, collected);
    }

    pub fn get_mut(&mut self, batch: TaskId) -> Option<&mut BatchState> {
        self.0.get_mut(&batch)
    }

    /// Returns the number of results of a batch that were taken in.
    pub fn count(&self, batch: TaskId) -> u32 {
        self.0.get(&batch).map_or(0, |collected| collected.count)
    }

    /// Returns true if there are results of a batch to take.
    pub fn is_ready(&self, batch: TaskId) -> bool {
        self.0.get(&batch).is_some_and(|collected| !collected.ready.is_empty())
    }

    /// Returns true if the last calls of a batch have become tasks that were not taken over.
    pub fn has_rest(&self, batch: TaskId) -> bool {
        self.0.get(&batch).is_some_and(|collected| !collected.rest.is_empty())
    }

    /// Returns the tasks that the last calls of a batch have become and that were not taken over.
    pub fn rest_of(&self, batch: TaskId) -> Vec<TaskId> {
        self.0.get(&batch).map_or_else(Vec::new, |collected| collected.rest.clone())
    }

    /// Takes over the tasks that the last calls of a batch have become.
    pub fn take_rest(&mut self, batch: TaskId) -> Vec<TaskId> {
        self.0.get_mut(&batch).map_or_else(Vec::new, |found| std::mem::take(&mut found.rest))
    }

    /// Takes the results of a batch that have arrived.
    pub fn take_ready(&mut self, batch: TaskId) -> Option<Results> {
        let collected = self.0.get_mut(&batch)?;
        (!collected.ready.is_empty()).then(|| std::mem::take(&mut collected.ready))
    }

    /// Records that the last calls of a batch have become tasks, and returns their function.
    pub fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> FunctionId {
        let collected = self.0.get_mut(&batch).expect("a batch is known until it is final");
        collected.calls -= u32::try_from(rest.len()).unwrap_or(u32::MAX);
        // Calls that are split off later come before those that were split off earlier.
        collected.rest.splice(..0, rest.iter().copied());
        collected.function
    }

    /// Forgets a final batch if it was released.
    pub fn finished(&mut self, batch: TaskId) {
        if self.0.get(&batch).is_some_and(|collected| collected.is_released) {
            self.0.remove(&batch);
        }
    }

    /// Removes a final batch. Returns the number of calls without a result, and the tasks that its last calls have become.
    pub fn remove(&mut self, batch: TaskId) -> Option<(u32, Vec<TaskId>)> {
        let collected = self.0.remove(&batch)?;
        Some((collected.calls - collected.count, collected.rest))
    }

    /// Releases a batch, whose results are not needed any more. Returns the tasks that its last calls have become.
    pub fn release(&mut self, batch: TaskId, is_final: bool) -> Vec<TaskId> {
        let Some(collected) = self.0.get_mut(&batch) else { return Vec::new() };
        collected.is_released = true;
        collected.ready = Results::default();
        let rest = std::mem::take(&mut collected.rest);
        if is_final {
            self.0.remove(&batch);
        }
        rest
    }
}

/// The part of a record that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Intake {
    /// Number of results.
    pub count: usize,
    /// Size of the results, bytes.
    pub size: u32,
}

impl BatchState {
    /// Takes in the results of a record from its byte `from` on; `adopt` takes over the blocks of a result in the arena.
    /// Returns `None`, and takes nothing, if a result is damaged or there are too many results.
    pub fn take_in<W: Words>(
        &mut self,
        (record, from): (&RingRecord<'_, W>, u32),
        bundles: &mut Bundles,
        mut adopt: impl FnMut(&mut Bundles, &[u8]) -> Option<Payload>,
    ) -> Option<Intake> {
        let ready = &mut self.ready;
        let (start, bundles_before) = (ready.bytes.len(), ready.bundles.len());
        let mut read = || {
            record.append_parts(from, &mut ready.bytes).ok()?;
            let mut rest = BatchResults::new(&ready.bytes[start..]);
            let (size, mut count) = (rest.remaining(), 0);
            while let Some((frame, bytes)) = rest.take().ok()? {
                count += 1;
                if frame.payload != PayloadKind::Inline {
                    ready.bundles.push_back(receive(&adopt(bundles, bytes)?, bundles));
                }
            }
            Some(Intake { count, size: u32::try_from(size).ok()? })
        };
        let intake = read().filter(|intake| intake.count <= (self.calls - self.count) as usize);
        if intake.is_none() || self.is_released {
            ready.bytes.truncate(start);
            ready.bundles.truncate(bundles_before);
        }
        let intake = intake?;
        self.count += u32::try_from(intake.count).unwrap_or(u32::MAX);
        ready.count += if self.is_released { 0 } else { intake.count };
        Some(intake)
    }
}

/// Takes a result with blocks out of the bundles: the result owns its blocks from now on.
#[cold]
fn receive(payload: &Payload, bundles: &mut Bundles) -> EncodedOutcome {
    let encoded = EncodedOutcome::new(payload, bundles, false);
    if let Some(block) = payload.block() {
        let _unnamed = bundles.remove(block);
    }
    encoded
}
