//! The two ends of a slot: what the client holds of a worker, and what a worker holds.

use super::mapping::SlotHandle;
use super::{ClientBell, Event, MappedWords, Segment, SegmentError};
use crate::batch::BatchProgress;
use crate::bell::Bell;
use crate::progress::{ProgressReader, ProgressWriter};
use crate::ring::{Consumer, Producer, Sequence};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::BarrierMode;
use gristmill_wire::{Epoch, SlotId};

/// The client's end of a slot.
#[derive(Debug)]
pub struct ClientLane {
    /// To the worker.
    pub tasks: Producer<MappedWords>,
    /// From the worker.
    pub results: Consumer<MappedWords>,
    /// Beside the rings.
    pub control: ClientControl,
}

/// The worker's end of a slot.
#[derive(Debug)]
pub struct WorkerLane {
    /// From the client.
    pub tasks: Consumer<MappedWords>,
    /// To the client.
    pub results: Producer<MappedWords>,
    /// Beside the rings.
    pub control: WorkerControl,
}

impl ClientLane {
    pub(super) fn new(segment: &Segment, slot: SlotId) -> Result<Self, SegmentError> {
        let [tasks, results] = segment.rings(slot)?;
        let control = ClientControl(Control::new(segment, slot)?);
        Ok(Self { tasks: Producer::new(tasks), results: Consumer::new(results), control })
    }
}

impl WorkerLane {
    pub(super) fn new(segment: &Segment, slot: SlotId) -> Result<Self, SegmentError> {
        let [tasks, results] = segment.rings(slot)?;
        let control = WorkerControl(Control::new(segment, slot)?, segment.event.clone());
        Ok(Self { tasks: Consumer::new(tasks), results: Producer::new(results), control })
    }
}

/// What both ends know of a slot.
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
        Epoch(self.page.orders.epoch.load(Ordering::Relaxed) as u32)
    }
}

/// What a client reads and writes beside a slot's rings.
#[derive(Debug, Clone)]
pub struct ClientControl(Control);

impl ClientControl {
    /// How barriers are made.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.0.mode
    }

    /// The bell that the client sleeps on.
    #[inline]
    #[must_use]
    pub fn own_bell(&self) -> &Bell {
        self.0.page.client_bell()
    }

    /// The bell that the worker sleeps on.
    #[inline]
    #[must_use]
    pub fn peer_bell(&self) -> &Bell {
        &self.0.page.bell.0
    }

    /// How far the worker has come.
    #[inline]
    #[must_use]
    pub fn progress(&self) -> ProgressReader<'_> {
        self.0.page.progress.reader()
    }

    /// Asks for an interrupt of one record, or of none any more. A signal tells the worker to look.
    pub fn interrupt(&self, sequence: Option<Sequence>) {
        let word = sequence.map_or(0, |sequence| sequence.wrapping_add(1));
        self.0.page.orders.interrupt.store(word, Ordering::Release); // PAIRS: interrupt (worker)
    }

    /// Lets no further call of a batch begin; gives how far the worker had come in that batch or another. A heavy barrier.
    pub fn stop_batch(&self, sequence: Sequence) -> Option<BatchProgress> {
        self.progress().stop_batch(sequence, &self.0.page.orders.batch_stop, self.mode())
    }

    /// Sets until when the worker may start tasks, clock ticks.
    pub fn set_valid_until(&self, until_ticks: u64) {
        // PAIRS: lease (worker): nothing else goes with it.
        self.0.page.orders.valid_until.store(until_ticks, Ordering::Relaxed);
    }

    /// Tells the worker to start nothing more and to leave; then ring its bell.
    pub fn stop(&self) {
        self.0.page.orders.stop.store(1, Ordering::Release); // PAIRS: stop (worker)
    }

    /// Which process sits in the slot.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch()
    }
}

/// What a worker reads and writes beside its rings.
#[derive(Debug, Clone)]
pub struct WorkerControl(Control, Option<Event>);

impl WorkerControl {
    /// How barriers are made.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.0.mode
    }

    /// The bell that the worker sleeps on.
    #[inline]
    #[must_use]
    pub fn own_bell(&self) -> &Bell {
        &self.0.page.bell.0
    }

    /// The bell that wakes the client.
    #[inline]
    #[must_use]
    pub fn peer_bell(&self) -> ClientBell<'_> {
        ClientBell { bell: self.0.page.client_bell(), event: self.1.as_ref() }
    }

    /// Where the worker notes how far it has come.
    #[inline]
    #[must_use]
    pub fn progress(&self) -> ProgressWriter<'_> {
        self.0.page.progress.writer()
    }

    /// Claims the next call of a claimed batch, of which `started` have run; false when the client took the rest back.
    #[inline]
    #[must_use = "a call that was taken back must not run"]
    pub fn begin_call(&self, sequence: Sequence, started: u32) -> bool {
        let stop = &self.0.page.orders.batch_stop;
        self.progress().begin_call(sequence, started, stop, self.mode())
    }

    /// The record that the client wants interrupted, if any. Safe to call in a signal handler.
    #[inline]
    #[must_use]
    pub fn interrupt_requested(&self) -> Option<Sequence> {
        // PAIRS: interrupt (client)
        self.0.page.orders.interrupt.load(Ordering::Acquire).checked_sub(1)
    }

    /// Until when the worker may start tasks, clock ticks; `u64::MAX` is for ever.
    #[inline]
    #[must_use]
    pub fn valid_until(&self) -> u64 {
        self.0.page.orders.valid_until.load(Ordering::Relaxed) // PAIRS: lease (client)
    }

    /// Whether the worker is to start nothing more and to leave.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.page.orders.stop.load(Ordering::Acquire) != 0 // PAIRS: stop (client)
    }

    /// Which process sits in the slot.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch()
    }
}
