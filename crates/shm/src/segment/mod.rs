//! One executor's shared memory: a header, the client's bell, and a slot of two rings for each worker.

mod error;
mod event;
mod lane;
mod layout;
mod mapping;

pub use error::SegmentError;
pub use event::{ClientBell, Event};
pub use lane::{ClientControl, ClientLane, WorkerControl, WorkerLane};
pub use layout::RINGS_PER_SLOT;
pub use mapping::MappedWords;

use crate::ring::RingLayout;
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{self, BarrierMode};
use gristmill_sync::clock::{self, TickScale};
use gristmill_wire::{Epoch, SlotId, WIRE_VERSION};
use layout::{Header, LAYOUT_HASH, MAGIC, SegmentLayout};
use mapping::{Mapping, SlotHandle};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How large a segment is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOptions {
    /// How many workers it has room for. An unused slot costs addresses, no memory.
    pub slot_count: u16,
    /// Bytes of each ring to a worker, a power of two from 4 KiB on.
    pub task_ring_size: u32,
    /// Bytes of each ring from a worker, a power of two from 4 KiB on.
    pub result_ring_size: u32,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { slot_count: 64, task_ring_size: 256 << 10, result_ring_size: 256 << 10 }
    }
}

/// A mapped segment. Clones and lanes share the mapping; the last of them unmaps it.
#[derive(Debug, Clone)]
pub struct Segment {
    mapping: Arc<Mapping>,
    layout: SegmentLayout,
    mode: BarrierMode,
    tick_scale: TickScale,
    descriptor: Arc<OwnedFd>,
    /// Where the client sleeps, as its workers know it.
    event: Option<Event>,
}

impl Segment {
    /// Creates a segment as its client. Children of this process do not inherit the mapping.
    ///
    /// # Errors
    /// [`SegmentError`] with the size asked for, when memory, addresses or descriptors run out.
    pub fn create(options: &SegmentOptions) -> Result<Self, SegmentError> {
        Self::create_with_mode(options, barrier::register())
    }

    /// As [`Self::create`], with barriers of the caller's choice: fences work everywhere.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with_mode(
        options: &SegmentOptions,
        mode: BarrierMode,
    ) -> Result<Self, SegmentError> {
        let layout = SegmentLayout::new(*options)?;
        let descriptor = mapping::create_memory(layout.segment_size())?;
        let mapping = Mapping::new(descriptor.as_fd(), layout.segment_size())?;
        mapping.keep_from_children()?;
        let tick_scale = clock::scale();
        let segment = Self {
            mapping: Arc::new(mapping),
            layout,
            mode,
            tick_scale,
            descriptor: Arc::new(descriptor),
            event: None,
        };
        for slot in 0..options.slot_count {
            let page = segment.slot(SlotId(slot))?;
            page.rings.write(&layout, slot);
            page.orders.reset(Epoch(0));
        }
        segment.write_header();
        Ok(segment)
    }

    /// Opens a segment that another process of this installation created.
    ///
    /// Registers this process for heavy barriers. Who forks after this shares the mapping. `event` is what a client is woken
    /// by that does not sleep on its bell.
    ///
    /// # Errors
    /// [`SegmentError`]: what the descriptor holds is not a segment that this process can use. Never
    /// worth a retry with the same descriptor.
    pub fn open(descriptor: OwnedFd, event: Option<Event>) -> Result<Self, SegmentError> {
        let size = mapping::checked_size(descriptor.as_fd())?;
        let mapping = Mapping::new(descriptor.as_fd(), size)?;
        let (layout, mode, tick_scale) = read_header(mapping.header()?, size)?;
        if mode == BarrierMode::Membarrier && barrier::register() != BarrierMode::Membarrier {
            return Err(SegmentError::NoMembarrier);
        }
        let descriptor = Arc::new(descriptor);
        Ok(Self { mapping: Arc::new(mapping), layout, mode, tick_scale, descriptor, event })
    }

    fn write_header(&self) {
        let header = self.mapping.header().expect("a new segment has a header page");
        let options = self.layout.options();
        let words = [
            (&header.versions, u64::from(WIRE_VERSION)),
            (&header.layout_hash, LAYOUT_HASH),
            (&header.barrier_mode, self.mode.word()),
            (&header.tick_source, clock::tick_source() as u64),
            (&header.tick_scale, self.tick_scale.word()),
            (&header.slot_count, u64::from(options.slot_count)),
            (&header.task_ring_size, u64::from(options.task_ring_size)),
            (&header.result_ring_size, u64::from(options.result_ring_size)),
            (&header.segment_size, self.layout.segment_size()),
        ];
        for (place, value) in words {
            place.store(value, Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release); // PAIRS: segment ready (`read_header`)
    }

    /// The client's end of a slot, for a slot that was just created or reset. At most one such end of
    /// each slot exists at a time: two would write over each other's records.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`].
    pub fn client_lane(&self, slot: SlotId) -> Result<ClientLane, SegmentError> {
        ClientLane::new(self, slot)
    }

    /// The worker's end of a slot, for a slot that was just created or reset. At most one such end of
    /// each slot exists at a time.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`], [`SegmentError::BadRing`].
    pub fn worker_lane(&self, slot: SlotId) -> Result<WorkerLane, SegmentError> {
        WorkerLane::new(self, slot)
    }

    /// Makes a slot ready for its next worker, as the client. Both former ends are drained or known to
    /// be dead, and the client's own lane is dropped.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`].
    pub fn reset_lane(&self, slot: SlotId, epoch: Epoch) -> Result<(), SegmentError> {
        let page = self.slot(slot)?;
        page.bell.0.reset();
        page.progress.reset();
        page.orders.reset(epoch);
        for words in self.rings(slot)? {
            words.reset();
        }
        Ok(())
    }

    /// How its barriers are made.
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.mode
    }

    /// The scale of every tick in its records.
    #[must_use]
    pub fn tick_scale(&self) -> TickScale {
        self.tick_scale
    }

    /// What it was created with.
    #[must_use]
    pub fn options(&self) -> SegmentOptions {
        self.layout.options()
    }

    /// The bell that all its workers ring, and that the client's leader sleeps on.
    #[must_use]
    pub fn client_bell(&self) -> &crate::Bell {
        self.mapping.client_bell()
    }

    fn slot(&self, slot: SlotId) -> Result<SlotHandle, SegmentError> {
        let options = self.layout.options();
        if slot.0 >= options.slot_count {
            return Err(SegmentError::NoSuchSlot { slot, slot_count: options.slot_count });
        }
        SlotHandle::new(&self.mapping, self.layout.slot_offset(slot.0))
    }

    /// The two rings of a slot, to the worker and from it, where its table says they are.
    fn rings(&self, slot: SlotId) -> Result<[MappedWords; 2], SegmentError> {
        let (tasks, results) = self.slot(slot)?.rings.first();
        let options = self.layout.options();
        let ring = |offset, size| {
            let layout = RingLayout::new(size).map_err(SegmentError::Ring)?;
            MappedWords::new(&self.mapping, offset, layout).ok_or(SegmentError::BadRing {
                slot,
                offset,
                size,
            })
        };
        Ok([ring(tasks, options.task_ring_size)?, ring(results, options.result_ring_size)?])
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Validates a header that somebody else wrote.
fn read_header(
    header: &Header,
    size: u64,
) -> Result<(SegmentLayout, BarrierMode, TickScale), SegmentError> {
    let magic = header.magic.load(Ordering::Acquire); // PAIRS: segment ready (`write_header`)
    if magic != MAGIC {
        return Err(SegmentError::NotASegment { magic });
    }
    let read = |word: &gristmill_sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
    let (version, hash) = (read(&header.versions), read(&header.layout_hash));
    if version != u64::from(WIRE_VERSION) || hash != LAYOUT_HASH {
        return Err(SegmentError::OtherVersion { version, hash });
    }
    let narrow = |field, word: u64| {
        u32::try_from(word).map_err(|_| SegmentError::BadField { field, value: word })
    };
    let slots = read(&header.slot_count);
    let bad_count = |_| SegmentError::BadField { field: "slot_count", value: slots };
    let layout = SegmentLayout::new(SegmentOptions {
        slot_count: u16::try_from(slots).map_err(bad_count)?,
        task_ring_size: narrow("task_ring_size", read(&header.task_ring_size))?,
        result_ring_size: narrow("result_ring_size", read(&header.result_ring_size))?,
    })?;
    if layout.segment_size() != size {
        return Err(SegmentError::WrongSize { found: size, needed: layout.segment_size() });
    }
    let source = read(&header.tick_source);
    if source != clock::tick_source() as u64 {
        return Err(SegmentError::BadField { field: "tick_source", value: source });
    }
    let (mode, scale) = (read(&header.barrier_mode), read(&header.tick_scale));
    let mode = BarrierMode::from_word(mode)
        .ok_or(SegmentError::BadField { field: "barrier_mode", value: mode })?;
    let scale = TickScale::from_word(scale)
        .ok_or(SegmentError::BadField { field: "tick_scale", value: scale })?;
    Ok((layout, mode, scale))
}
