//! All that an engine has for blobs, for one that is not a client's: it has no rings and no threads.

use gristmill_core::{Payload, PayloadRef};
use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_store::{BlobLimits, Spread, SpreadOptions, Store, digest_of};
use gristmill_wire::BlobName;

use super::depot::{Gate, Warden};
use super::giving::Giving;
use super::homing::Homing;
use super::options::BlobSizes;
use super::parts::{BlobLook, BlobParts};
use super::taking::Taking;
use crate::bundle::Bundles;
use crate::peers::PayloadStore;

/// What an engine has for blobs.
#[derive(Debug)]
pub struct BlobTables {
    arena: ClientArena,
    bundles: Bundles,
    giving: Giving,
    homing: Homing,
    taking: Option<Taking>,
}

impl BlobTables {
    /// Of a program's engine, which gives.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of_client(spread: SpreadOptions) -> Result<Self, ArenaError> {
        let mut giving = Giving::default();
        giving.spread = Spread::new(spread);
        let (bundles, homing) = (Bundles::default(), Homing::default());
        Ok(Self { arena: ClientArena::create(0)?, bundles, giving, homing, taking: None })
    }

    /// Of a lease's engine, which takes; and what its depot's thread would have. Other nodes are said to find that at a port.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of_lease<G: Gate>(
        limits: BlobLimits,
        sizes: BlobSizes,
        door: (G, u16),
    ) -> Result<(Self, Warden<G>), ArenaError> {
        let tables = Self::of_client(SpreadOptions::default())?;
        let store = Store::new(tables.arena.clone(), limits);
        let (taking, warden) = Taking::unmanned(store, sizes, door);
        Ok((Self { taking: Some(taking), ..tables }, warden))
    }

    /// What the engine's work needs of it.
    pub const fn parts(&mut self) -> BlobParts<'_> {
        let Self { arena, bundles, giving, homing, taking } = self;
        BlobParts { arena, bundles, giving, homing, taking: taking.as_mut() }
    }

    /// The same, to be looked at.
    #[must_use]
    pub const fn look(&self) -> BlobLook<'_> {
        let Self { bundles, giving, homing, taking, .. } = self;
        BlobLook { bundles, giving, homing, taking: taking.as_ref() }
    }

    /// A result of these bytes and parts, as a worker here answers it.
    ///
    /// # Errors
    /// There is no memory.
    pub fn store(&mut self, bytes: &[u8], parts: &[Vec<u8>]) -> Result<Payload, ArenaError> {
        let parts = parts.iter().map(|part| self.arena.store(part));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(self.bundles.insert(bytes, parts))
    }

    /// The arguments of a call of the program, all of whose parts travel by name.
    ///
    /// # Errors
    /// There is no memory.
    pub fn name(&mut self, bytes: &[u8], parts: &[Vec<u8>]) -> Result<Payload, ArenaError> {
        let parts = parts.iter().map(|part| self.arena.store(part));
        let parts: Vec<BlockPart> = parts.collect::<Result<_, _>>()?;
        let name = |part: &BlockPart| BlobName { digest: digest_of(part), size: part.range().size };
        let names = parts.iter().map(|part| Some(name(part))).collect();
        Ok(self.parts().take_arguments(bytes, parts, names))
    }

    /// The bytes of a payload, without its parts.
    #[must_use]
    pub fn bytes<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match payload.get() {
            PayloadRef::Bytes(bytes) => bytes,
            PayloadRef::Block(block) => self.bundles.get(block).bytes(),
        }
    }

    /// The bytes of a payload's parts, as they are here.
    #[must_use]
    pub fn contents(&self, payload: &Payload) -> Vec<Vec<u8>> {
        let Some(block) = payload.block() else { return Vec::new() };
        self.bundles.get(block).parts().iter().map(BlockPart::to_vec).collect()
    }

    /// How many payloads there are.
    #[must_use]
    pub fn payload_count(&self) -> usize {
        self.bundles.count()
    }

    /// Blocks that are in use.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.arena.live_count()
    }

    /// What is kept although no payload is left, in words; none: nothing.
    #[must_use]
    pub fn leftovers(&self) -> Option<String> {
        let Self { arena, giving, homing, .. } = self;
        match &self.taking {
            Some(taking) => taking.leftovers(arena.live_count()),
            None => {
                let held = (giving.held_count(), arena.live_count());
                let is_left = held != (0, 0) || !homing.is_empty();
                is_left.then(|| format!("blobs held, blocks: {held:?}; on their way: {homing:?}"))
            }
        }
    }

    /// Asserts what must hold between calls.
    ///
    /// # Panics
    /// It does not.
    pub fn audit(&self) {
        self.giving.spread.audit();
    }
}

impl PayloadStore for BlobTables {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        self.bundles.put(payload, out);
    }

    fn put_result(&self, payload: &Payload, names: &[Option<BlobName>], out: &mut Vec<u8>) {
        self.bundles.put_result(payload, names, out);
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        self.bundles.named_size(payload)
    }
}
