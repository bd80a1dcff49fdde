//! Blob tables of an engine that is not a client's, such as a simulated one: it has no rings and no threads.

use std::borrow::Cow;

use gristmill_core::{Payload, PayloadRef};
use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_store::{BlobLimits, BroadcastOptions, BroadcastPlan, Store, digest_of};
use gristmill_wire::BlobName;

use super::inbound_results::InboundResults;
use super::options::BlobSizes;
use super::parts::{BlobParts, BlobPartsRef};
use super::provider::BlobProvider;
use super::receiver::BlobReceiver;
use super::server::{BlobServer, BlobTransport};
use crate::bundle::Bundles;
use crate::peers::PayloadStore;

/// Blob tables of an engine.
#[derive(Debug)]
pub struct BlobTables {
    arena: ClientArena,
    bundles: Bundles,
    provider: BlobProvider,
    inbound_results: InboundResults,
    receiver: Option<BlobReceiver>,
}

impl BlobTables {
    /// Creates the tables of a program's engine, which provides blobs.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of_client(broadcast: BroadcastOptions) -> Result<Self, ArenaError> {
        let mut provider = BlobProvider::default();
        provider.broadcast = BroadcastPlan::new(broadcast);
        let (bundles, inbound_results) = (Bundles::default(), InboundResults::default());
        Ok(Self {
            arena: ClientArena::create(0)?,
            bundles,
            provider,
            inbound_results,
            receiver: None,
        })
    }

    /// Creates the tables of a lease's engine, which receives blobs, and its blob server, which the caller runs. `endpoint` has
    /// the transport of the server, and the port where other nodes are told to find it.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of_lease<G: BlobTransport>(
        limits: BlobLimits,
        sizes: BlobSizes,
        endpoint: (G, u16),
    ) -> Result<(Self, BlobServer<G>), ArenaError> {
        let tables = Self::of_client(BroadcastOptions::default())?;
        let store = Store::new(tables.arena.clone(), limits);
        let (receiver, server) = BlobReceiver::unmanned(store, sizes, endpoint);
        Ok((Self { receiver: Some(receiver), ..tables }, server))
    }

    /// Returns the tables for the engine's work.
    pub const fn parts(&mut self) -> BlobParts<'_> {
        let Self { arena, bundles, provider, inbound_results, receiver } = self;
        BlobParts { arena, bundles, provider, inbound_results, receiver: receiver.as_mut() }
    }

    /// Returns a read-only view of the tables.
    #[must_use]
    pub const fn look(&self) -> BlobPartsRef<'_> {
        let Self { bundles, provider, inbound_results, receiver, .. } = self;
        BlobPartsRef { bundles, provider, inbound_results, receiver: receiver.as_ref() }
    }

    /// Stores a result of these bytes and parts, like the answer of a worker here.
    ///
    /// # Errors
    /// There is no memory.
    pub fn store(&mut self, bytes: &[u8], parts: &[Vec<u8>]) -> Result<Payload, ArenaError> {
        let parts = parts.iter().map(|part| self.arena.store(part));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(self.bundles.insert(bytes, parts))
    }

    /// Stores the arguments of a call of the program. All parts travel by name.
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

    /// Returns the bytes of a payload, without its parts.
    ///
    /// # Panics
    /// The bytes are in a block. Tables without a limit put no bytes in blocks.
    #[must_use]
    pub fn bytes<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match payload.get() {
            PayloadRef::Bytes(bytes) => bytes,
            PayloadRef::Block(block) => match self.bundles.get(block).bytes() {
                Cow::Borrowed(bytes) => bytes,
                Cow::Owned(_) => panic!("the bytes are in a block"),
            },
        }
    }

    /// Returns the bytes of a payload's parts, in their current state.
    #[must_use]
    pub fn contents(&self, payload: &Payload) -> Vec<Vec<u8>> {
        let Some(block) = payload.block() else { return Vec::new() };
        self.bundles.get(block).parts().iter().map(BlockPart::to_vec).collect()
    }

    /// Returns the number of payloads.
    #[must_use]
    pub fn payload_count(&self) -> usize {
        self.bundles.count()
    }

    /// Returns the number of blocks in use.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.arena.live_count()
    }

    /// Describes the entries that remain although no payload is left. Returns `None` if nothing remains, or only unused blobs
    /// of a receiver.
    #[must_use]
    pub fn leftovers(&self) -> Option<String> {
        let Self { arena, provider, inbound_results, .. } = self;
        match &self.receiver {
            Some(receiver) => receiver.leftovers(arena.live_count()),
            None => {
                let held = (provider.held_count(), arena.live_count());
                let is_left = held != (0, 0) || !inbound_results.is_empty();
                is_left.then(|| {
                    format!("blobs held, blocks: {held:?}; on their way: {inbound_results:?}")
                })
            }
        }
    }

    /// Asserts the invariants that hold between calls.
    pub fn audit(&self) {
        self.provider.broadcast.audit();
    }
}

impl PayloadStore for BlobTables {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        self.bundles.put(payload, out);
    }

    fn put_result(&self, payload: &Payload, names: &[Option<BlobName>], out: &mut Vec<u8>) {
        self.bundles.put_result(payload, names, out);
    }

    fn put_size(&self, payload: &Payload) -> usize {
        self.bundles.put_size(payload)
    }

    fn result_size(&self, payload: &Payload, names: &[Option<BlobName>]) -> usize {
        self.bundles.result_size(payload, names)
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        self.bundles.named_size(payload)
    }
}
