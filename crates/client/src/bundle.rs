//! Payloads with blocks of the arena: what the task graph holds a number of.

use std::sync::Arc;

use gristmill_core::{Block, Payload, PayloadRef};
use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_wire::{
    ArenaDescriptor, Attempt, BlobName, Epoch, FrameError, PeerId, SlotId, TaskId,
};

/// Encoded bytes, and the blocks that they name by index.
#[derive(Debug)]
pub struct Bundle {
    bytes: Box<[u8]>,
    parts: Vec<BlockPart>,
    /// What those are called that travel by name, in the same order; empty where none is.
    names: Vec<Option<BlobName>>,
    /// Whose result it is, where its named blocks are no more than places for it.
    far: Option<Far>,
}

/// A result whose large parts stayed where they were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Far {
    pub task: TaskId,
    pub attempt: Attempt,
    /// Where that is.
    pub peer: PeerId,
    pub epoch: Epoch,
}

impl Bundle {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The blocks that they name by index.
    pub(crate) fn parts(&self) -> &[BlockPart] {
        &self.parts
    }

    /// The blocks, and what those are called that travel by name.
    pub(crate) fn named_parts(&self) -> impl Iterator<Item = (&BlockPart, Option<BlobName>)> {
        self.parts.iter().enumerate().map(|(place, part)| (part, self.name(place)))
    }

    /// What the block in a place is called, if it travels by name.
    pub(crate) fn name(&self, place: usize) -> Option<BlobName> {
        self.names.get(place).copied().flatten()
    }

    /// Whose result it is, if that stayed where it was made.
    pub(crate) const fn far(&self) -> Option<Far> {
        self.far
    }

    /// The size of the descriptor that travels.
    pub(crate) fn descriptor_size(&self) -> usize {
        ArenaDescriptor::size(self.parts.len(), self.bytes.len())
    }

    /// Appends the descriptor.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let blocks: Vec<_> = self.parts.iter().map(BlockPart::range).collect();
        ArenaDescriptor::write(&blocks, false, &self.bytes, out);
    }
}

/// Bundles by number.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    entries: Vec<Option<Arc<Bundle>>>,
    free: Vec<usize>,
}

impl Bundles {
    /// The payload that stands for bytes and blocks; it is dropped by [`Self::remove`].
    pub fn insert(&mut self, bytes: &[u8], parts: Vec<BlockPart>) -> Payload {
        self.insert_named(bytes, parts, Vec::new())
    }

    /// The same, where some blocks travel by name.
    pub fn insert_named(
        &mut self,
        bytes: &[u8],
        parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
    ) -> Payload {
        self.put(Bundle { bytes: bytes.into(), parts, names, far: None })
    }

    /// The same for a result that stayed where it was made: the blocks with names are not here.
    pub fn insert_far(
        &mut self,
        bytes: &[u8],
        parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
        far: Far,
    ) -> Payload {
        self.put(Bundle { bytes: bytes.into(), parts, names, far: Some(far) })
    }

    fn put(&mut self, bundle: Bundle) -> Payload {
        let size = |(part, name): (&BlockPart, Option<BlobName>)| {
            name.map_or(part.range().size, |name| name.size)
        };
        // What is only named may be any number of bytes.
        let sizes = bundle.named_parts().map(size);
        let size = sizes.fold(bundle.bytes.len() as u64, u64::saturating_add);
        let bundle = Some(Arc::new(bundle));
        let place = if let Some(place) = self.free.pop() {
            self.entries[place] = bundle;
            place
        } else {
            self.entries.push(bundle);
            self.entries.len() - 1
        };
        Payload::in_arena(Block { offset: place as u64, size })
    }

    /// Takes in what a worker answered: all blocks that it names are checked and held from now on.
    pub fn receive(
        &mut self,
        arena: &ClientArena,
        slot: SlotId,
        descriptor: &[u8],
    ) -> Result<Payload, ReceiveError> {
        let ArenaDescriptor { blocks, body_in_first, bytes } = ArenaDescriptor::read(descriptor)?;
        let parts = blocks.into_iter().map(|block| arena.adopt(slot, block));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        if body_in_first {
            let body = parts.remove(0).to_vec();
            if parts.is_empty() {
                return Ok(Payload::from(body));
            }
            return Ok(self.insert(&body, parts));
        }
        Ok(self.insert(bytes, parts))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The bundle that a payload stands for.
    pub fn get(&self, block: Block) -> &Arc<Bundle> {
        let place = usize::try_from(block.offset).unwrap_or(usize::MAX);
        self.entries[place].as_ref().expect("a payload's bundle lives as long as the payload")
    }

    /// Drops the bundle of a payload that is gone; gives it back if blocks of it travelled by name.
    pub fn remove(&mut self, block: Block) -> Option<Arc<Bundle>> {
        let place = usize::try_from(block.offset).unwrap_or(usize::MAX);
        let bundle = self.entries[place].take();
        self.free.push(place);
        bundle.filter(|bundle| !bundle.names.is_empty())
    }
}

/// Why an answer's payload is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// An outcome's encoded bytes, with the blocks that they name.
#[derive(Debug, Clone)]
pub struct Encoded {
    payload: Payload,
    bundle: Option<Arc<Bundle>>,
    /// Arrays in it are to be given out as read-only views.
    pub views: bool,
}

impl Encoded {
    pub(crate) fn new(payload: &Payload, bundles: &Bundles, views: bool) -> Self {
        let bundle = payload.block().map(|block| Arc::clone(bundles.get(block)));
        // Only a payload without a bundle is cloned: the number of a bundle has one owner.
        let payload = if bundle.is_some() { Payload::EMPTY } else { payload.clone() };
        Self { payload, bundle, views }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match (&self.bundle, self.payload.get()) {
            (Some(bundle), _) => &bundle.bytes,
            (None, PayloadRef::Bytes(bytes)) => bytes,
            (None, PayloadRef::Block(_)) => &[],
        }
    }

    /// The blocks that they name by index.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> &[BlockPart] {
        self.bundle.as_ref().map_or(&[], |bundle| &bundle.parts)
    }
}
