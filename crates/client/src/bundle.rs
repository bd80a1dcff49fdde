//! Bundles: payloads with blocks of the arena, and large payloads without blocks. The task graph holds a bundle's number.

mod body;
mod recent;

use std::borrow::Cow;
use std::sync::Arc;

use gristmill_core::{Block, Payload, PayloadRef};
use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_wire::{
    ArenaDescriptor, Attempt, BlobName, Epoch, FrameError, PeerId, SlotId, TaskId,
};

use body::{Bodies, Body};
pub(crate) use body::{KEPT_MIN, ResultMemoryError};
use recent::Recent;

/// Encoded bytes, and the blocks that they name by index.
#[derive(Debug)]
pub struct Bundle {
    body: Body,
    parts: Vec<BlockPart>,
    /// Names of the blocks that travel by name, in the order of the blocks; empty if none does.
    names: Vec<Option<BlobName>>,
    /// Origin of a deferred result, whose named blocks are only placeholders here.
    remote: Option<DeferredPayload>,
}

/// Origin of a result whose large parts stayed where they were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeferredPayload {
    pub task: TaskId,
    pub attempt: Attempt,
    /// Node that has the large parts.
    pub peer: PeerId,
    pub epoch: Epoch,
}

impl Bundle {
    /// Returns the bytes. Bytes in a block are copied.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        self.body.read()
    }

    /// Returns the number of bytes.
    pub(crate) fn body_size(&self) -> usize {
        self.body.size()
    }

    /// Returns the blocks that the bytes name by index.
    pub(crate) fn parts(&self) -> &[BlockPart] {
        &self.parts
    }

    /// Returns the blocks, each with its name if it travels by name.
    pub(crate) fn named_parts(&self) -> impl Iterator<Item = (&BlockPart, Option<BlobName>)> {
        self.parts.iter().enumerate().map(|(place, part)| (part, self.name(place)))
    }

    /// Returns the name of the block at an index, if it travels by name.
    pub(crate) fn name(&self, place: usize) -> Option<BlobName> {
        self.names.get(place).copied().flatten()
    }

    /// Returns the origin of a result that stayed where it was made.
    pub(crate) const fn remote(&self) -> Option<DeferredPayload> {
        self.remote
    }

    /// Returns the size of the descriptor that travels.
    pub(crate) fn descriptor_size(&self) -> usize {
        ArenaDescriptor::size(self.parts.len(), self.body.size())
    }

    /// Appends the descriptor.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let blocks: Vec<_> = self.parts.iter().map(BlockPart::range).collect();
        ArenaDescriptor::write(&blocks, false, &self.bytes(), out);
    }
}

/// Bundles by number.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    entries: Vec<Option<Arc<Bundle>>>,
    free: Vec<usize>,
    bodies: Bodies,
    recent: Recent,
}

/// Blocks that a worker's descriptor names, checked and held.
#[derive(Debug)]
pub(crate) struct PinnedBlocks<'a> {
    bytes: &'a [u8],
    body: Option<BlockPart>,
    parts: Vec<BlockPart>,
}

impl<'a> PinnedBlocks<'a> {
    /// Checks and holds all blocks that a worker names.
    pub fn new(
        arena: &ClientArena,
        slot: SlotId,
        descriptor: &'a [u8],
    ) -> Result<Self, ReceiveError> {
        let ArenaDescriptor { blocks, body_in_first, bytes } = ArenaDescriptor::read(descriptor)?;
        let parts = blocks.into_iter().map(|block| arena.adopt(slot, block));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        let body = body_in_first.then(|| parts.remove(0));
        Ok(Self { bytes, body, parts })
    }
}

impl Bundles {
    /// Creates a table whose bytes on the heap are limited by the arena's memory. Bytes beyond the limit go to its disk.
    pub fn within(arena: ClientArena) -> Self {
        Self { bodies: Bodies::within(arena), ..Self::default() }
    }

    /// Stores bytes and blocks, and returns the payload that stands for them. [`Self::remove`] drops them.
    pub fn insert(&mut self, bytes: &[u8], parts: Vec<BlockPart>) -> Payload {
        self.insert_named(bytes, parts, Vec::new())
    }

    /// Stores bytes and blocks, of which some travel by name. The bytes are on the heap if no other place has room for them.
    pub fn insert_named(
        &mut self,
        bytes: &[u8],
        parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
    ) -> Payload {
        let body = self.bodies.place_or_hold(bytes);
        self.put(Bundle { body, parts, names, remote: None })
    }

    /// Stores a result that stayed where it was made: the blocks with names are not here.
    pub fn insert_remote(
        &mut self,
        bytes: &[u8],
        parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
        far: DeferredPayload,
    ) -> Payload {
        let body = self.bodies.place_or_hold(bytes);
        self.put(Bundle { body, parts, names, remote: Some(far) })
    }

    /// Stores a result, and returns the payload that stands for it. A few bytes without blocks are the payload themselves.
    ///
    /// # Errors
    /// There is no room for it, in memory or on disk.
    pub fn keep<B>(&mut self, bytes: B, parts: Vec<BlockPart>) -> Result<Payload, ResultMemoryError>
    where
        B: AsRef<[u8]> + Into<Box<[u8]>>,
    {
        if parts.is_empty() && bytes.as_ref().len() < KEPT_MIN {
            return Ok(Payload::copy_from(bytes.as_ref()));
        }
        self.keep_named(bytes, parts, Vec::new())
    }

    /// Stores a result with blocks, of which some travel by name.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn keep_named<B>(
        &mut self,
        bytes: B,
        parts: Vec<BlockPart>,
        names: Vec<Option<BlobName>>,
    ) -> Result<Payload, ResultMemoryError>
    where
        B: AsRef<[u8]> + Into<Box<[u8]>>,
    {
        let body = self.bodies.place(bytes)?;
        Ok(self.put(Bundle { body, parts, names, remote: None }))
    }

    fn put(&mut self, bundle: Bundle) -> Payload {
        let size = |(part, name): (&BlockPart, Option<BlobName>)| {
            name.map_or(part.range().size, |name| name.size)
        };
        // A name may claim any number of bytes.
        let sizes = bundle.named_parts().map(size);
        let size = sizes.fold(bundle.body.size() as u64, u64::saturating_add);
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

    /// Stores a worker's answer. All blocks that it names are checked, and held from now on. A body in a block stays there,
    /// in the arena's share of memory or on disk, until it is read.
    pub fn receive(
        &mut self,
        arena: &ClientArena,
        slot: SlotId,
        descriptor: &[u8],
    ) -> Result<Payload, ReceiveError> {
        let PinnedBlocks { bytes, body, parts } = PinnedBlocks::new(arena, slot, descriptor)?;
        match body {
            Some(body) => {
                let body = Body::Block(body);
                Ok(self.put(Bundle { body, parts, names: Vec::new(), remote: None }))
            }
            None => Ok(self.keep(bytes, parts)?),
        }
    }

    /// Stores a call that a task submitted, and returns its payload. Waiting blocks with the same bytes are held as one.
    pub fn insert_opened(&mut self, opened: PinnedBlocks<'_>) -> Payload {
        let PinnedBlocks { bytes, body, parts } = opened;
        let parts = parts.into_iter().map(|part| self.recent.share(part)).collect();
        let body = match body {
            Some(body) => Body::Block(self.recent.share(body)),
            None => self.bodies.place_or_hold(bytes),
        };
        self.put(Bundle { body, parts, names: Vec::new(), remote: None })
    }

    /// Returns the number of bundles.
    pub fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns the bundle that a payload stands for.
    pub fn get(&self, block: Block) -> &Arc<Bundle> {
        let place = usize::try_from(block.offset).unwrap_or(usize::MAX);
        self.entries[place].as_ref().expect("a payload's bundle lives as long as the payload")
    }

    /// Drops the bundle of a payload that is gone. Returns the bundle if some of its blocks travelled by name.
    pub fn remove(&mut self, block: Block) -> Option<Arc<Bundle>> {
        let place = usize::try_from(block.offset).unwrap_or(usize::MAX);
        let bundle = self.entries[place].take();
        self.free.push(place);
        if let Some(Bundle { body: Body::Heap(bytes), .. }) = bundle.as_deref() {
            self.bodies.release(bytes.len());
        }
        bundle.filter(|bundle| !bundle.names.is_empty())
    }
}

/// Reason to refuse an answer's payload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Arena(#[from] ArenaError),
    #[error(transparent)]
    Unkept(#[from] ResultMemoryError),
}

/// Encoded bytes of an outcome, with the blocks that they name.
#[derive(Debug, Clone)]
pub struct EncodedOutcome {
    payload: Payload,
    bundle: Option<Arc<Bundle>>,
    /// True if arrays in it are given out as read-only views.
    pub views: bool,
}

impl EncodedOutcome {
    pub(crate) fn new(payload: &Payload, bundles: &Bundles, views: bool) -> Self {
        let bundle = payload.block().map(|block| Arc::clone(bundles.get(block)));
        // Only a payload without a bundle is cloned: the number of a bundle has one owner.
        let payload = if bundle.is_some() { Payload::EMPTY } else { payload.clone() };
        Self { payload, bundle, views }
    }

    /// Returns the bytes. Bytes in a block are copied.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match (&self.bundle, self.payload.get()) {
            (Some(bundle), _) => bundle.bytes(),
            (None, PayloadRef::Bytes(bytes)) => Cow::Borrowed(bytes),
            (None, PayloadRef::Block(_)) => Cow::Borrowed(&[]),
        }
    }

    /// Returns the bytes without a copy; `None` if they are in a bundle.
    #[inline]
    #[must_use]
    pub fn plain_bytes(&self) -> Option<&[u8]> {
        match (&self.bundle, self.payload.get()) {
            (None, PayloadRef::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the number of bytes, without those of the blocks.
    #[must_use]
    pub fn size(&self) -> usize {
        match (&self.bundle, self.payload.get()) {
            (Some(bundle), _) => bundle.body.size(),
            (None, PayloadRef::Bytes(bytes)) => bytes.len(),
            (None, PayloadRef::Block(_)) => 0,
        }
    }

    /// Returns the number of bytes, with those of the blocks.
    #[must_use]
    pub fn whole_size(&self) -> u64 {
        let blocks = self.parts().iter().map(|part| part.range().size);
        blocks.fold(self.size() as u64, u64::saturating_add)
    }

    /// Returns the blocks that the bytes name by index.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> &[BlockPart] {
        self.bundle.as_ref().map_or(&[], |bundle| &bundle.parts)
    }
}
