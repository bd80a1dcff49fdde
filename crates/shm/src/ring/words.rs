//! The memory of a ring's words: one algorithm over the heap and over mapped memory.

use super::RingLayout;
use gristmill_sync::atomic::AtomicU64;
use std::sync::Arc;

/// The memory of one ring. A clone is another handle to the same memory.
pub trait Words: Clone {
    /// Returns the ring's dimensions.
    fn layout(&self) -> RingLayout;

    /// Returns the data word at `index`, counted from the reset of the ring and wrapped to its size: every index is
    /// valid.
    fn data(&self, index: u64) -> &AtomicU64;

    /// Returns the reader's line: the position up to which it has read, bytes.
    fn tail(&self) -> &AtomicU64;

    /// Returns the writer's line: 1 while the writer waits for room.
    fn room(&self) -> &AtomicU64;
}

/// A ring on the heap, for two threads of one process and for models.
#[derive(Debug, Clone)]
pub struct HeapWords {
    layout: RingLayout,
    memory: Arc<HeapRing>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Debug)]
struct HeapRing {
    tail: Line,
    room: Line,
    data: Box<[AtomicU64]>,
}

impl HeapWords {
    /// Creates a zeroed ring.
    #[must_use]
    pub fn new(layout: RingLayout) -> Self {
        let data = (0..layout.word_count()).map(|_| AtomicU64::new(0)).collect();
        let memory = HeapRing { tail: Line::default(), room: Line::default(), data };
        Self { layout, memory: Arc::new(memory) }
    }
}

impl Words for HeapWords {
    #[inline]
    fn layout(&self) -> RingLayout {
        self.layout
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the length right away")]
    fn data(&self, index: u64) -> &AtomicU64 {
        &self.memory.data[index as usize & (self.memory.data.len() - 1)]
    }

    #[inline]
    fn tail(&self) -> &AtomicU64 {
        &self.memory.tail.0
    }

    #[inline]
    fn room(&self) -> &AtomicU64 {
        &self.memory.room.0
    }
}
