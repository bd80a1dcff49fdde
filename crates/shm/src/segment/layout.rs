//! The layout of a segment.
//!
//! ```text
//! 0      Header                            a page; written once by the client
//! 4096   client page                       the client's bell
//! 8192   slot 0: SlotPage                  the worker's bell, progress, control, table of rings, note
//!          + 4096   task ring              control lines, data; rounded up to pages
//!          + ...    result ring            control lines, data; rounded up to pages
//!        slot 1 ...
//! ```

use super::note::Note;
use super::{SegmentError, SegmentOptions};
use crate::batch::StopWord;
use crate::bell::Bell;
use crate::floor::FloorWord;
use crate::progress::ProgressLine;
use crate::ring::{CONTROL_SIZE, RingLayout};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_wire::{Epoch, RECORD_HEADER_SIZE};
use std::mem::{offset_of, size_of};

/// Number of ring pairs in a slot's table. The first is the client's; the others are reserved for further writers, such
/// as a relay or a remote client.
pub const RINGS_PER_SLOT: usize = 8;
/// The unit of mappings, independent of the processor's page size.
pub(super) const PAGE_SIZE: u64 = 4096;
/// "GRSTMILL" in memory.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"GRSTMILL");
pub(super) const CLIENT_PAGE: u64 = PAGE_SIZE;
const FIRST_SLOT: u64 = 2 * PAGE_SIZE;
const SMALLEST_RING: u32 = 4096;

/// The first page of a segment.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    /// The wire version.
    pub(super) versions: AtomicU64,
    pub(super) layout_hash: AtomicU64,
    pub(super) barrier_mode: AtomicU64,
    pub(super) tick_source: AtomicU64,
    pub(super) tick_scale: AtomicU64,
    pub(super) slot_count: AtomicU64,
    pub(super) task_ring_size: AtomicU64,
    pub(super) result_ring_size: AtomicU64,
    pub(super) segment_size: AtomicU64,
}

/// A value on a cache line of its own (two lines, since processors fetch them in pairs).
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

/// The first page of a slot. Each line has one writer.
#[derive(Debug)]
#[repr(C)]
pub(super) struct SlotPage {
    /// The worker sleeps on it; the client rings it.
    pub(super) bell: Line<Bell>,
    /// Written by the worker.
    pub(super) progress: ProgressLine,
    /// Written by the client.
    pub(super) control: ControlLine,
    /// Written by the client before the worker attaches.
    pub(super) rings: RingTable,
    /// The worker's current activity; written by the worker.
    pub(super) loading: Note,
}

/// The commands of the client to a worker outside its ring.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct ControlLine {
    /// The record to interrupt, its sequence + 1; 0 is none.
    pub(super) interrupt: AtomicU64,
    /// The time until which the worker may start tasks, clock ticks. Ticks do not drift from the engine's time, as
    /// another clock would.
    pub(super) valid_until: AtomicU64,
    /// The epoch of the worker in this slot.
    pub(super) epoch: AtomicU64,
    /// 1: start no further task and exit.
    pub(super) stop: AtomicU64,
    /// The batch of which no further call may begin.
    pub(super) batch_stop: StopWord,
    /// The least priority that may begin.
    pub(super) floor: FloorWord,
}

impl ControlLine {
    /// Resets the line for the next worker, which may start tasks without a time limit until one is set.
    pub(super) fn reset(&self, epoch: Epoch) {
        self.interrupt.store(0, Ordering::Relaxed);
        self.stop.store(0, Ordering::Relaxed);
        self.batch_stop.reset();
        self.floor.set(i32::MIN);
        self.valid_until.store(u64::MAX, Ordering::Relaxed);
        self.epoch.store(u64::from(epoch.0), Ordering::Relaxed);
    }
}

/// Offsets of a slot's rings, bytes from the start of the segment; 0 means none.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct RingTable([[AtomicU64; 2]; RINGS_PER_SLOT]);

impl RingTable {
    pub(super) fn write(&self, layout: &SegmentLayout, slot: u16) {
        let (tasks, results) = layout.ring_offsets(slot);
        self.0[0][0].store(tasks, Ordering::Relaxed);
        self.0[0][1].store(results, Ordering::Relaxed);
    }

    /// Returns the offsets of the client's pair: to the worker and from it.
    pub(super) fn first(&self) -> (u64, u64) {
        (self.0[0][0].load(Ordering::Relaxed), self.0[0][1].load(Ordering::Relaxed))
    }
}

const _: () = assert!(size_of::<Header>() == 80 && size_of::<ControlLine>() == 128);
const _: () = assert!(size_of::<Bell>() == 4 && size_of::<ProgressLine>() == 128);
const _: () = assert!(size_of::<SlotPage>() == 768 && size_of::<RingTable>() == 128);

/// A hash that changes with everything that two processes must agree on.
pub(super) const LAYOUT_HASH: u64 = hash(&[
    size_of::<Header>(),
    offset_of!(Header, segment_size),
    offset_of!(SlotPage, progress),
    offset_of!(SlotPage, control),
    offset_of!(SlotPage, rings),
    offset_of!(SlotPage, loading),
    size_of::<SlotPage>(),
    RINGS_PER_SLOT,
    CONTROL_SIZE as usize,
    RECORD_HEADER_SIZE as usize,
    3, // the version of the layout: increment it when fields swap their meaning
]);

/// Hashes the layout's numbers.
///
/// Source: Fowler, Noll & Vo, FNV-1a, 64 bits; over words instead of bytes.
const fn hash(values: &[usize]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut index = 0;
    while index < values.len() {
        state = (state ^ values[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    state
}

/// The offsets and sizes that follow from the options.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentLayout {
    options: SegmentOptions,
    task_region: u64,
    slot_size: u64,
    segment_size: u64,
}

impl SegmentLayout {
    pub(super) fn new(options: SegmentOptions) -> Result<Self, SegmentError> {
        let region = |capacity| {
            let layout = RingLayout::new(capacity)?;
            if capacity < SMALLEST_RING {
                let largest = RingLayout::LARGEST;
                return Err(crate::LayoutError { capacity, smallest: SMALLEST_RING, largest });
            }
            Ok(u64::from(layout.region_size()).next_multiple_of(PAGE_SIZE))
        };
        let task_region = region(options.task_ring_size)?;
        let slot_size = PAGE_SIZE + task_region + region(options.result_ring_size)?;
        let segment_size = FIRST_SLOT + slot_size * u64::from(options.slot_count);
        if options.slot_count == 0 || isize::try_from(segment_size).is_err() {
            return Err(SegmentError::BadSize { slot_count: options.slot_count, slot_size });
        }
        Ok(Self { options, task_region, slot_size, segment_size })
    }

    pub(super) fn options(&self) -> SegmentOptions {
        self.options
    }

    pub(super) fn segment_size(&self) -> u64 {
        self.segment_size
    }

    pub(super) fn slot_offset(&self, slot: u16) -> u64 {
        FIRST_SLOT + self.slot_size * u64::from(slot)
    }

    fn ring_offsets(&self, slot: u16) -> (u64, u64) {
        let tasks = self.slot_offset(slot) + PAGE_SIZE;
        (tasks, tasks + self.task_region)
    }
}
