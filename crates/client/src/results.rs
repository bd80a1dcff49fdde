//! The results of batches: collected as they arrive, taken by who asked for them.

use std::collections::{HashMap, VecDeque};

use gristmill_core::Payload;
use gristmill_shm::{Record, Words};
use gristmill_wire::{
    FrameError, FunctionId, PayloadKind, RESULT_WORDS, ResultFrame, TaskId, Verdict,
};

use crate::bundle::{Bundles, Encoded};

/// Results of calls, in order, one behind the other.
#[derive(Debug, Default)]
pub struct Results {
    /// For each: the low half of its frame, and its bytes unless they are in the arena.
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

const HEAD: usize = 4;
/// Where a result's bytes begin in its record.
#[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
const RESULTS_AT: u32 = RESULT_WORDS as u32 * 8;

/// The low half of a frame.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is kept")]
const fn head(frame: &ResultFrame) -> [u8; HEAD] {
    (frame.words()[0] as u32).to_le_bytes()
}

impl Results {
    /// The next result.
    #[inline]
    pub fn take(&mut self) -> Option<CallResult<'_>> {
        let head = self.bytes.get(self.at..)?.first_chunk::<HEAD>()?;
        let word = u32::from_le_bytes(*head);
        let frame = ResultFrame::from_words([u64::from(word)]).expect("it was read before");
        let start = self.at + HEAD;
        let value = if frame.payload == PayloadKind::Inline {
            self.at = start + frame.payload_size as usize;
            CallValue::Inline(&self.bytes[start..self.at])
        } else {
            self.at = start;
            CallValue::Blocks(self.bundles.pop_front().expect("one for each such result"))
        };
        self.count -= 1;
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

    /// Copies a result out of its record.
    #[inline]
    fn push_inline<W: Words>(
        &mut self,
        frame: &ResultFrame,
        record: &Record<'_, W>,
    ) -> Result<(), FrameError> {
        if frame.payload_size <= 8 && record.body_size() > RESULTS_AT {
            return self.push_word(frame, record);
        }
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&head(frame));
        let outcome = record.append_to(RESULTS_AT, frame.payload_size, &mut self.bytes);
        match outcome {
            Ok(()) => self.count += 1,
            Err(_) => self.bytes.truncate(before),
        }
        outcome
    }

    /// As [`Self::push_inline`], for the bytes of one word: most results.
    #[inline]
    fn push_word<W: Words>(
        &mut self,
        frame: &ResultFrame,
        record: &Record<'_, W>,
    ) -> Result<(), FrameError> {
        let mut bytes = [0; HEAD + 8];
        bytes[..HEAD].copy_from_slice(&head(frame));
        bytes[HEAD..].copy_from_slice(&record.word(RESULTS_AT / 8)?.to_le_bytes());
        self.bytes.extend_from_slice(&bytes[..HEAD + frame.payload_size as usize]);
        self.count += 1;
        Ok(())
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

impl Collected {
    /// Takes a result in; `adopt` takes over the blocks of one in the arena. False when it is damaged, or one too many.
    #[inline]
    pub fn take_in<W: Words>(
        &mut self,
        record: &Record<'_, W>,
        bundles: &mut Bundles,
        adopt: impl FnOnce(&mut Bundles, &[u8]) -> Option<Payload>,
    ) -> bool {
        if self.count >= self.calls {
            return false;
        }
        let Ok(frame) = record.words(0).and_then(ResultFrame::from_words) else { return false };
        let is_sound = match (frame.payload, self.is_released) {
            (PayloadKind::Inline, false) => self.ready.push_inline(&frame, record).is_ok(),
            (PayloadKind::Inline, true) => true,
            _ => self.take_in_blocks(&frame, record, bundles, adopt),
        };
        self.count += u32::from(is_sound);
        is_sound
    }

    #[cold]
    fn take_in_blocks<W: Words>(
        &mut self,
        frame: &ResultFrame,
        record: &Record<'_, W>,
        bundles: &mut Bundles,
        adopt: impl FnOnce(&mut Bundles, &[u8]) -> Option<Payload>,
    ) -> bool {
        let mut descriptor = Vec::new();
        if record.append_to(RESULTS_AT, frame.payload_size, &mut descriptor).is_err() {
            return false;
        }
        let Some(payload) = adopt(bundles, &descriptor) else { return false };
        let encoded = Encoded::new(&payload, bundles, false);
        if let Some(block) = payload.block() {
            // The blocks are the result's now.
            bundles.remove(block);
        }
        if !self.is_released {
            self.ready.bytes.extend_from_slice(&head(frame));
            self.ready.count += 1;
            self.ready.bundles.push_back(encoded);
        }
        true
    }
}
