//! The shared memory of one client and its workers: a header, the client's bell, and a slot with two rings for each worker.

mod ends;
mod error;
mod event;
mod layout;
mod mapping;
mod note;

pub use ends::{ClientControl, ClientEnds, WorkerControl, WorkerEnds};
pub use error::SegmentError;
pub use event::{ClientBell, EventFd};
pub use layout::RINGS_PER_SLOT;
pub use mapping::MappedWords;

use crate::ring::RingLayout;
use crate::shared::SharedMemory;
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{self, BarrierMode};
use gristmill_sync::clock::{self, TickScale};
use gristmill_wire::{Epoch, SlotId, WIRE_VERSION};
use layout::{Header, LAYOUT_HASH, MAGIC, SegmentLayout};
use mapping::{Mapping, SlotHandle};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The dimensions of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Maximum number of workers. An unused slot costs addresses and one page of memory.
    pub slot_count: u16,
    /// Capacity of each ring to a worker, bytes: a power of two of at least 4 KiB.
    pub task_ring_size: u32,
    /// Capacity of each ring from a worker, bytes: a power of two of at least 4 KiB.
    pub result_ring_size: u32,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { slot_count: 64, task_ring_size: 256 << 10, result_ring_size: 256 << 10 }
    }
}

/// A mapped segment. Clones and ends of slots share the mapping; the last of them unmaps it.
#[derive(Debug, Clone)]
pub struct Segment {
    mapping: Arc<Mapping>,
    layout: SegmentLayout,
    mode: BarrierMode,
    tick_scale: TickScale,
    memory: Arc<SharedMemory>,
    /// The event with which this process, a worker, wakes a client that sleeps on a descriptor.
    event: Option<EventFd>,
}

impl Segment {
    /// Creates a segment as its client. Children of this process do not inherit the mapping.
    ///
    /// # Errors
    /// [`SegmentError`] with the requested size if memory, addresses or descriptors run out.
    pub fn create(options: &SegmentOptions) -> Result<Self, SegmentError> {
        Self::create_with_mode(options, barrier::register())
    }

    /// Creates a segment like [`Self::create`], with the given barriers: fences work everywhere.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with_mode(
        options: &SegmentOptions,
        mode: BarrierMode,
    ) -> Result<Self, SegmentError> {
        let layout = SegmentLayout::new(*options)?;
        let memory = mapping::create_memory(layout.segment_size())?;
        let mapping = Mapping::new(&memory)?;
        mapping.keep_from_children()?;
        let tick_scale = clock::scale();
        let segment = Self {
            mapping: Arc::new(mapping),
            layout,
            mode,
            tick_scale,
            memory: Arc::new(memory),
            event: None,
        };
        for slot in 0..options.slot_count {
            let page = segment.slot(SlotId(slot))?;
            page.rings.write(&layout, slot);
            page.control.reset(Epoch(0));
        }
        segment.write_header();
        Ok(segment)
    }

    /// Opens a segment that another process of this installation created.
    ///
    /// If the client uses `membarrier`, registers this process for heavy barriers. Children of a later fork share the
    /// mapping. `event` wakes a client that does not sleep on its bell.
    ///
    /// # Errors
    /// [`SegmentError`]: the descriptor is not a segment that this process can use. A retry with the same descriptor can
    /// succeed only after [`SegmentError::Map`], if addresses have become free.
    pub fn open(descriptor: OwnedFd, event: Option<EventFd>) -> Result<Self, SegmentError> {
        let memory = mapping::open_memory(descriptor)?;
        let mapping = Mapping::new(&memory)?;
        let (layout, mode, tick_scale) = read_header(mapping.header()?, memory.size())?;
        if mode == BarrierMode::Membarrier && barrier::register() != BarrierMode::Membarrier {
            return Err(SegmentError::NoMembarrier);
        }
        let (mapping, memory) = (Arc::new(mapping), Arc::new(memory));
        Ok(Self { mapping, layout, mode, tick_scale, memory, event })
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

    /// Returns the client's end of a slot that was just created or reset. At most one client's end of each slot may
    /// exist at a time: two would overwrite each other's records.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`].
    pub fn client_ends(&self, slot: SlotId) -> Result<ClientEnds, SegmentError> {
        ClientEnds::new(self, slot)
    }

    /// Returns the worker's end of a slot that was just created or reset. At most one worker's end of each slot may
    /// exist at a time.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`], [`SegmentError::BadRing`].
    pub fn worker_ends(&self, slot: SlotId) -> Result<WorkerEnds, SegmentError> {
        WorkerEnds::new(self, slot)
    }

    /// Resets a slot for its next worker. Only the client calls this, once each former end is drained or known to be dead,
    /// and the client has dropped its own ends of it.
    ///
    /// # Errors
    /// [`SegmentError::NoSuchSlot`].
    pub fn reset_slot(&self, slot: SlotId, epoch: Epoch) -> Result<(), SegmentError> {
        let page = self.slot(slot)?;
        page.bell.0.reset();
        page.progress.reset();
        page.control.reset(epoch);
        page.loading.reset();
        for words in self.rings(slot)? {
            words.reset();
        }
        Ok(())
    }

    /// Returns the barrier mode.
    #[must_use]
    pub fn mode(&self) -> BarrierMode {
        self.mode
    }

    /// Returns the scale of all ticks in the segment's records.
    #[must_use]
    pub fn tick_scale(&self) -> TickScale {
        self.tick_scale
    }

    /// Returns the options of its creation.
    #[must_use]
    pub fn options(&self) -> SegmentOptions {
        self.layout.options()
    }

    /// Returns the bell that all workers ring and that the client's leader sleeps on.
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

    /// Returns the two rings of a slot, to the worker and from it, at the offsets in the slot's table.
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
        self.memory.as_fd()
    }
}

/// Validates a header that another process wrote.
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
