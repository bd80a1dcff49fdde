//! The two ends of a slot: the client's and the worker's.

use super::mapping::SlotHandle;
use super::{ClientBell, EventFd, MappedWords, Segment, SegmentError};
use crate::batch::BatchProgress;
use crate::bell::Bell;
use crate::progress::{ProgressReader, ProgressWriter};
use crate::ring::{Consumer, Producer, Sequence};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::{Epoch, SlotId};

/// The client's ends of a slot's rings.
#[derive(Debug)]
pub struct ClientEnds {
    /// The ring to the worker.
    pub tasks: Producer<MappedWords>,
    /// The ring from the worker.
    pub results: Consumer<MappedWords>,
    /// The state beside the rings.
    pub control: ClientControl,
}

/// The worker's ends of a slot's rings.
#[derive(Debug)]
pub struct WorkerEnds {
    /// The ring from the client.
    pub tasks: Consumer<MappedWords>,
    /// The ring to the client.
    pub results: Producer<MappedWords>,
    /// The state beside the rings.
    pub control: WorkerControl,
}

impl ClientEnds {
    pub(super) fn new(segment: &Segment, slot: SlotId) -> Result<Self, SegmentError> {
        let [tasks, results] = segment.rings(slot)?;
        let control = ClientControl(Control::new(segment, slot)?);
        Ok(Self { tasks: Producer::new(tasks), results: Consumer::new(results), control })
    }
}

impl WorkerEnds {
    pub(super) fn new(segment: &Segment, slot: SlotId) -> Result<Self, SegmentError> {
        let [tasks, results] = segment.rings(slot)?;
        let control = WorkerControl(Control::new(segment, slot)?, segment.event.clone());
        Ok(Self { tasks: Consumer::new(tasks), results: Producer::new(results), control })
    }
}

/// The part of the control state that both ends have.
#[derive(Debug, Clone)]
struct Control {
    page: SlotHandle,
    mode: BarrierMode,
}

impl Control {
    fn new(segment: &Segment, slot: SlotId) -> Result<Self, SegmentError> {
        Ok(Self { page: segment.slot(slot)?, mode: segment.mode })
    }

    #[expect(clippy::cast_possible_truncation, reason = "an epoch was stored; others mismatch")]
    fn epoch(&self) -> Epoch {
        Epoch(self.page.control.epoch.load(Ordering::Relaxed) as u32)
    }
}

/// The state that a client reads and writes beside a slot's rings.
#[derive(Debug, Clone)]
pub struct ClientControl(Control);

impl ClientControl {
    /// Returns the barrier mode.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.0.mode
    }

    /// Returns the bell that the client sleeps on.
    #[inline]
    #[must_use]
    pub fn own_bell(&self) -> &Bell {
        self.0.page.client_bell()
    }

    /// Returns the bell that the worker sleeps on.
    #[inline]
    #[must_use]
    pub fn peer_bell(&self) -> &Bell {
        &self.0.page.bell.0
    }

    /// Returns the worker's progress.
    #[inline]
    #[must_use]
    pub fn progress(&self) -> ProgressReader<'_> {
        self.0.page.progress.reader()
    }

    /// Requests an interrupt of one record, or withdraws the request with `None`. The caller sends a signal to make the
    /// worker check.
    pub fn interrupt(&self, sequence: Option<Sequence>) {
        let word = sequence.map_or(0, |sequence| sequence.wrapping_add(1));
        self.0.page.control.interrupt.store(word, Ordering::Release); // PAIRS: interrupt (worker)
    }

    /// Stops a batch, so that no further call of it begins. Returns the worker's progress in that batch or another.
    /// Runs a heavy barrier.
    pub fn stop_batch(&self, sequence: Sequence) -> Option<BatchProgress> {
        self.progress().stop_batch(sequence, &self.0.page.control.batch_stop, self.mode())
    }

    /// Sets the time until which the worker may start tasks, clock ticks.
    pub fn set_valid_until(&self, until_ticks: u64) {
        // PAIRS: lease (worker): no other data depends on it.
        self.0.page.control.valid_until.store(until_ticks, Ordering::Relaxed);
    }

    /// Sets the least priority that may begin; `i32::MIN` admits every task. Lower it before writing a record below it.
    pub fn set_floor(&self, priority: i32) {
        self.0.page.control.floor.set(priority);
    }

    /// Tells the worker to start no further task and to exit. The caller rings its bell afterwards.
    pub fn stop(&self) {
        self.0.page.control.stop.store(1, Ordering::Release); // PAIRS: stop (worker)
    }

    /// Returns the worker's current activity, or that at its death, such as "importing module numpy".
    #[must_use]
    pub fn loading(&self) -> Option<String> {
        self.0.page.loading.read()
    }

    /// Returns the epoch of the worker in the slot.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch()
    }
}

/// The state that a worker reads and writes beside its rings.
#[derive(Debug, Clone)]
pub struct WorkerControl(Control, Option<EventFd>);

impl WorkerControl {
    /// Returns the barrier mode.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.0.mode
    }

    /// Returns the bell that the worker sleeps on.
    #[inline]
    #[must_use]
    pub fn own_bell(&self) -> &Bell {
        &self.0.page.bell.0
    }

    /// Returns the bell that wakes the client.
    #[inline]
    #[must_use]
    pub fn peer_bell(&self) -> ClientBell<'_> {
        ClientBell { bell: self.0.page.client_bell(), event: self.1.as_ref() }
    }

    /// Returns the writer of the worker's progress.
    #[inline]
    #[must_use]
    pub fn progress(&self) -> ProgressWriter<'_> {
        self.0.page.progress.writer()
    }

    /// Returns true if a task of this priority may begin: no task of a higher priority waits for this worker.
    #[inline]
    #[must_use = "a task below the floor must not run"]
    pub fn admits(&self, priority: i32) -> bool {
        self.0.page.control.floor.admits(priority)
    }

    /// Claims the next call of a claimed batch after `started` others. Returns false if the client has stopped the
    /// batch.
    #[inline]
    #[must_use = "a call that was taken back must not run"]
    pub fn begin_call(&self, sequence: Sequence, started: u32) -> bool {
        let stop = &self.0.page.control.batch_stop;
        self.progress().begin_call(sequence, started, stop, self.mode())
    }

    /// Publishes the worker's current activity, such as "importing module numpy"; an empty text clears it.
    pub fn note_loading(&self, text: &str) {
        self.0.page.loading.write(text);
    }

    /// Returns the record that the client wants interrupted, if any. Safe to call in a signal handler.
    #[inline]
    #[must_use]
    pub fn interrupt_requested(&self) -> Option<Sequence> {
        // PAIRS: interrupt (client)
        self.0.page.control.interrupt.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns the time until which the worker may start tasks, clock ticks; `u64::MAX` means no limit.
    #[inline]
    #[must_use]
    pub fn valid_until(&self) -> u64 {
        self.0.page.control.valid_until.load(Ordering::Relaxed) // PAIRS: lease (client)
    }

    /// Returns true if the worker must start no further task and exit.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.page.control.stop.load(Ordering::Acquire) != 0 // PAIRS: stop (client)
    }

    /// Returns the epoch of the worker in the slot.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch()
    }
}
