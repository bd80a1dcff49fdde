//! The results of batches: collected as they arrive, taken by who asked for them.

use std::collections::{HashMap, VecDeque};

use gristmill_core::Payload;
use gristmill_shm::{Record, Words};
use gristmill_wire::{BatchResults, FunctionId, PayloadKind, TaskId, Verdict};

use crate::bundle::{Bundles, Encoded};

/// Results of calls, in order, one behind the other.
#[derive(Debug, Default)]
pub struct Results {
    /// As they travel; they were checked.
    bytes: Vec<u8>,
    /// Where the next one is.
    at: usize,
    /// How many are left.
    count: usize,
    bundles: VecDeque<Encoded>,
}

/// What came of one call.
#[derive(Debug)]
pub struct CallResult<'a> {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// The encoded value or exception.
    pub value: CallValue<'a>,
}

/// Where the bytes of a result are.
#[derive(Debug)]
pub enum CallValue<'a> {
    /// Here.
    Inline(&'a [u8]),
    /// With blocks of the arena.
    Blocks(Encoded),
}

impl Results {
    /// The next result.
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

    /// How many are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether none is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What is known of one batch.
#[derive(Debug)]
pub(crate) struct Collected {
    function: FunctionId,
    /// Calls that are its own.
    calls: u32,
    /// Results taken in.
    count: u32,
    ready: Results,
    /// The tasks that its last calls have become, in order.
    rest: Vec<TaskId>,
    is_released: bool,
}

/// Batches that are not final, or not released.
#[derive(Debug, Default)]
pub(crate) struct Batches(HashMap<TaskId, Collected>);

impl Batches {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, batch: TaskId, function: FunctionId, calls: u32) {
        let collected = Collected {
            function,
            calls,
            count: 0,
            ready: Results::default(),
            rest: Vec::new(),
            is_released: false,
        };
        self.0.insert(batch, collected);
    }

    pub fn get_mut(&mut self, batch: TaskId) -> Option<&mut Collected> {
        self.0.get_mut(&batch)
    }

    /// Results of a batch that were taken in.
    pub fn count(&self, batch: TaskId) -> u32 {
        self.0.get(&batch).map_or(0, |collected| collected.count)
    }

    /// Whether somebody can take results of a batch.
    pub fn is_ready(&self, batch: TaskId) -> bool {
        self.0.get(&batch).is_some_and(|collected| !collected.ready.is_empty())
    }

    /// Whether the last calls of a batch have become tasks that nobody has taken over.
    pub fn has_rest(&self, batch: TaskId) -> bool {
        self.0.get(&batch).is_some_and(|collected| !collected.rest.is_empty())
    }

    /// Takes over the tasks that the last calls of a batch have become.
    pub fn take_rest(&mut self, batch: TaskId) -> Vec<TaskId> {
        self.0.get_mut(&batch).map_or_else(Vec::new, |found| std::mem::take(&mut found.rest))
    }

    /// Takes what arrived of a batch.
    pub fn take_ready(&mut self, batch: TaskId) -> Option<Results> {
        let collected = self.0.get_mut(&batch)?;
        (!collected.ready.is_empty()).then(|| std::mem::take(&mut collected.ready))
    }

    /// Notes that the last calls of a batch have become tasks; gives their function.
    pub fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> FunctionId {
        let collected = self.0.get_mut(&batch).expect("a batch is known until it is final");
        collected.calls -= u32::try_from(rest.len()).unwrap_or(u32::MAX);
        // What is split off later was in front of it.
        collected.rest.splice(..0, rest.iter().copied());
        collected.function
    }

    /// A batch is final: it is forgotten if nobody wants its results.
    pub fn finished(&mut self, batch: TaskId) {
        if self.0.get(&batch).is_some_and(|collected| collected.is_released) {
            self.0.remove(&batch);
        }
    }

    /// Takes a final batch out: calls that gave no result, and the tasks that came of its last ones.
    pub fn remove(&mut self, batch: TaskId) -> Option<(u32, Vec<TaskId>)> {
        let collected = self.0.remove(&batch)?;
        Some((collected.calls - collected.count, collected.rest))
    }

    /// Nobody wants the results of a batch any more; gives the tasks that came of its last calls.
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

/// What was taken in of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Intake {
    /// Results.
    pub count: usize,
    /// Their bytes.
    pub size: u32,
}

impl Collected {
    /// Takes in the results of a record from its byte `from` on; `adopt` takes over the blocks of one in the arena. `None`,
    /// and nothing taken, when one is damaged or there are too many.
    pub fn take_in<W: Words>(
        &mut self,
        (record, from): (&Record<'_, W>, u32),
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

/// A result with blocks, which are its own from now on.
#[cold]
fn receive(payload: &Payload, bundles: &mut Bundles) -> Encoded {
    let encoded = Encoded::new(payload, bundles, false);
    if let Some(block) = payload.block() {
        let _unnamed = bundles.remove(block);
    }
    encoded
}
