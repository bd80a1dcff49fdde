//! Bytes of bundles: on the heap up to a share of memory, then on disk.
//!
//! Guarantees: bytes on the heap count only while a bundle has them. Bytes that a reader of a bundle holds beyond the
//! bundle's life are not counted.

use std::borrow::Cow;

use gristmill_core::Payload;
use gristmill_shm::{ArenaError, BLOCK_MIN, BlockPart, ClientArena, SpillLog};
use gristmill_wire::{FailureKind, TaskFailure};

/// Minimum size of a result that is stored by itself, bytes. Smaller ones without blocks count as part of a task's record.
pub(crate) const KEPT_MIN: usize = 1 << 10;

/// Location of the bytes of a bundle.
#[derive(Debug)]
pub(super) enum Body {
    /// On the heap.
    Heap(Box<[u8]>),
    /// In a block: its worker's, or one on disk. No writable view of it was given out.
    Block(BlockPart),
}

impl Body {
    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Block(part) => part.size(),
        }
    }

    /// Returns the bytes. Those of a block are copied: its worker can write to the block, but checked bytes must not change.
    pub fn read(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Heap(bytes) => Cow::Borrowed(bytes),
            Self::Block(part) => Cow::Owned(part.to_vec()),
        }
    }
}

/// Result that there is no room for.
#[derive(Debug, thiserror::Error)]
#[error(
    "{size} bytes of a result do not fit into memory: results that the program has not fetched take {held} bytes of their limit of {limit}; \
     nor on disk: {disk}; fetch results, or drop their futures; see `gristmill doctor` and GRISTMILL_SPILL_DIR"
)]
pub(crate) struct ResultMemoryError {
    size: usize,
    held: u64,
    limit: u64,
    disk: ArenaError,
}

impl ResultMemoryError {
    /// Encodes the error that the task raises in place of its result.
    pub fn raised(&self) -> Payload {
        let text = self.to_string();
        Payload::from(TaskFailure::of_text(FailureKind::NoMemory, &text).encode())
    }
}

/// Account of all bodies of one client.
#[derive(Debug)]
pub(super) struct Bodies {
    /// Arena for bytes beyond the limit; `None` if all bytes are on the heap, without a limit.
    arena: Option<ClientArena>,
    log: SpillLog,
    /// Bytes on the heap, and their maximum.
    held: u64,
    limit: u64,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { arena: None, log: SpillLog::default(), held: 0, limit: u64::MAX }
    }
}

impl Bodies {
    /// Creates an account with a share of the memory that the arena may take. The arena's limit is half of memory as a rule,
    /// so a quarter of it is an eighth of memory. Without a disk the share is larger: half of the arena's limit.
    pub fn within(arena: ClientArena) -> Self {
        let divisor = if arena.has_disk() { 4 } else { 2 };
        Self { limit: arena.memory_limit() / divisor, arena: Some(arena), ..Self::default() }
    }

    /// Places bytes: large ones in the arena, others on the heap, or on disk if the heap is at its limit.
    pub fn place<B: AsRef<[u8]> + Into<Box<[u8]>>>(
        &mut self,
        bytes: B,
    ) -> Result<Body, ResultMemoryError> {
        let size = bytes.as_ref().len();
        let Some(arena) = self.arena.as_ref().filter(|_| size >= KEPT_MIN) else {
            return Ok(self.hold(bytes));
        };
        let (held, limit) = (self.held, self.limit);
        let stored = if size >= BLOCK_MIN {
            arena.store(bytes.as_ref())
        } else if held + size as u64 <= limit {
            return Ok(self.hold(bytes));
        } else {
            self.log.append(arena, bytes.as_ref())
        };
        stored.map(Body::Block).map_err(|disk| ResultMemoryError { size, held, limit, disk })
    }

    /// Places bytes, on the heap if no other place has room for them.
    pub fn place_or_hold(&mut self, bytes: &[u8]) -> Body {
        self.place(bytes).unwrap_or_else(|_| self.hold(bytes))
    }

    fn hold(&mut self, bytes: impl Into<Box<[u8]>>) -> Body {
        let bytes = bytes.into();
        self.held += bytes.len() as u64;
        Body::Heap(bytes)
    }

    /// Notes that a bundle with `size` bytes on the heap is gone.
    pub const fn release(&mut self, size: usize) {
        self.held -= size as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ArenaOptions;

    fn bodies(spill: Vec<std::path::PathBuf>) -> Bodies {
        let options = ArenaOptions { memory: Some(400_000), spill };
        Bodies::within(ClientArena::create_with(1, &options).expect("there is memory"))
    }

    #[test]
    fn bytes_beyond_the_share_go_to_disk_and_what_was_released_counts_no_more() {
        let root = option_env!("CARGO_TARGET_TMPDIR").unwrap_or("/var/tmp");
        let mut bodies = bodies(vec![root.into()]);
        if !bodies.arena.as_ref().is_some_and(ClientArena::has_disk) {
            return;
        }
        let first = bodies.place(vec![1; 60_000]).expect("there is room");
        let second = bodies.place(vec![2; 60_000]).expect("there is room");
        assert!(matches!((&first, &second), (Body::Heap(_), Body::Block(_))));
        assert_eq!(*second.read(), [2; 60_000]);
        bodies.release(first.size());
        let third = bodies.place(vec![3; 60_000]).expect("there is room");
        assert!(matches!(third, Body::Heap(_)));
    }

    #[test]
    fn without_a_disk_what_is_beyond_the_share_has_no_room() {
        let mut bodies = bodies(Vec::new());
        let held: Vec<_> = (0..4).map(|seed| bodies.place(vec![seed; 60_000])).collect();
        assert_eq!(held.iter().filter(|one| one.is_ok()).count(), 3);
        let error = held[3].as_ref().expect_err("it is beyond").to_string();
        assert!(error.starts_with("60000 bytes of a result do not fit"), "{error}");
        assert!(error.contains("180000 bytes of their limit of 200000"), "{error}");
        assert!(matches!(bodies.place_or_hold(&[9; 60_000]), Body::Heap(_)));
        assert!(bodies.place(vec![1; 10]).is_ok(), "a small result counts and has room");
    }
}
