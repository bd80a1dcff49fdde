//! Blobs that a lease's engine receives because its tasks name them.

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_store::{BlobAvailability, BlobLimits, Store};
use gristmill_transport::{Identity, Waker};
use gristmill_wire::{BlobName, Digest};

use super::awaited::AwaitedBlobs;
use super::options::BlobSizes;
use super::requested::RequestedResults;
use super::retained::RetainedResults;
use super::server::{
    BlobServer, BlobServerCommand, BlobServerEvent, BlobServerHandle, BlobTransport,
};
use crate::staging::StagingTable;

/// Receiving side of a lease's engine.
#[derive(Debug)]
pub(crate) struct BlobReceiver {
    pub store: Store,
    /// Blob server, which is started with the first blob.
    server: Option<BlobServerHandle>,
    sibling: Option<Identity>,
    /// Wakes the thread that takes the blob server's events; `None` if that thread never sleeps.
    waker: Option<Waker>,
    pub sizes: BlobSizes,
    pub awaited: AwaitedBlobs,
    /// Blobs that were requested by [`Self::take`] since this list was last emptied and that are not in memory, those in
    /// `hopeless` included.
    pub lacking: Vec<BlobName>,
    /// Blobs that were dropped to make room for others.
    pub dropped: Vec<Digest>,
    /// Blobs that this node is too small for, each with an error message.
    pub hopeless: Vec<(Digest, String)>,
    /// True once a client was told where other nodes can fetch blobs from this node.
    pub is_open: bool,
    /// Number of results whose names (digest and size) are still being computed.
    pub unnamed: usize,
    /// Results that the peers which sent the tasks have not received yet.
    pub retained: RetainedResults,
    /// Results that peers requested and that are being read back from disk.
    pub requested: RequestedResults,
    /// Staged files of contexts.
    pub staged: StagingTable,
}

impl BlobReceiver {
    pub fn new(
        arena: ClientArena,
        limits: BlobLimits,
        sibling: Option<Identity>,
        waker: Waker,
    ) -> Self {
        let store = Store::new(arena, limits);
        Self { sibling, waker: Some(waker), ..Self::over(store, BlobSizes::default()) }
    }

    /// Creates a receiver over a store, with a blob server that has no thread: the caller runs the returned server's turns.
    /// `endpoint` is the transport and the port of the server.
    pub fn unmanned<G: BlobTransport>(
        store: Store,
        sizes: BlobSizes,
        endpoint: (G, u16),
    ) -> (Self, BlobServer<G>) {
        let (handle, server) = BlobServerHandle::unmanned(store.clone(), endpoint, sizes);
        (Self { server: Some(handle), ..Self::over(store, sizes) }, server)
    }

    fn over(store: Store, sizes: BlobSizes) -> Self {
        Self {
            store,
            server: None,
            sibling: None,
            waker: None,
            sizes,
            awaited: AwaitedBlobs::default(),
            lacking: Vec::new(),
            dropped: Vec::new(),
            hopeless: Vec::new(),
            is_open: false,
            unnamed: 0,
            retained: RetainedResults::default(),
            requested: RequestedResults::default(),
            staged: StagingTable::default(),
        }
    }

    /// Describes the entries that remain although no task is left. Returns `None` if only unused blobs remain and they account
    /// for all `block_count` blocks.
    pub fn leftovers(&self, block_count: usize) -> Option<String> {
        let counts = [
            self.staged.waiting_count(),
            self.awaited.len(),
            self.lacking.len(),
            self.unnamed,
            self.retained.len(),
            self.requested.len(),
        ];
        let (unused, used) = self.store.use_counts();
        let is_left = counts != [0; 6] || used > 0 || unused != block_count;
        is_left.then(|| {
            format!(
                "files, awaited, lacking, unnamed, kept, asked: {counts:?}; blobs of no use, others: {unused}, {used}; blocks: \
                 {block_count}"
            )
        })
    }

    /// Returns the block of a blob. A blob that is not in memory is requested, and added to `lacking`.
    ///
    /// # Errors
    /// A message: there is no memory for the blob, or the blob server cannot be started.
    pub fn take(&mut self, name: BlobName) -> Result<BlockPart, String> {
        self.start_blob_server()?;
        let part = match self.want(name) {
            // The blob can never fit, so it is not tried again.
            Err(error @ ArenaError::Full { size, limit, .. }) if size > limit => {
                self.hopeless.push((name.digest, error.to_string()));
                self.store.stand_in().map_err(|error| error.to_string())?
            }
            Err(error) => return Err(error.to_string()),
            Ok(BlobAvailability::Here(part)) => return Ok(part),
            Ok(BlobAvailability::Coming(part)) => part,
            Ok(BlobAvailability::Missing(part)) => {
                self.send(BlobServerCommand::Prepare(name));
                part
            }
            Ok(BlobAvailability::OnDisk(part)) => {
                self.send(BlobServerCommand::Restore(name));
                part
            }
        };
        self.lacking.push(name);
        Ok(part)
    }

    pub(super) fn want(&mut self, name: BlobName) -> Result<BlobAvailability, ArenaError> {
        self.store.want(name).or_else(|error| {
            let gone = self.store.make_room(name.size);
            let has_room = !gone.is_empty();
            self.dropped.extend(gone);
            let wanted = if has_room { self.store.want(name) } else { Err(error) };
            wanted.or_else(|_| self.store.want_anywhere(name))
        })
    }

    pub(super) fn start_blob_server(&mut self) -> Result<(), String> {
        if self.server.is_none() {
            let started = BlobServerHandle::start(
                self.store.clone(),
                self.sibling.as_ref(),
                self.waker.clone(),
            );
            let handle = started.map_err(|error| format!("it cannot receive blobs: {error}"))?;
            self.server = Some(handle);
        }
        Ok(())
    }

    /// Returns the port where other nodes fetch blobs from this node; 0 if there is none.
    pub fn port(&self) -> u16 {
        self.server.as_ref().map_or(0, BlobServerHandle::port)
    }

    pub fn send(&self, command: BlobServerCommand) {
        if let Some(handle) = &self.server {
            handle.send(command);
        }
    }

    pub fn take_events(&self) -> Vec<BlobServerEvent> {
        self.server.as_ref().map(BlobServerHandle::take_events).unwrap_or_default()
    }

    pub fn has_events(&self) -> bool {
        self.staged.has_events() || self.server.as_ref().is_some_and(BlobServerHandle::has_events)
    }

    /// Stops the blob server: no more blobs are received.
    pub fn close(&mut self) {
        self.server = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_transport::Sleeper;

    #[test]
    fn what_never_fits_is_told_apart_from_what_does_not_fit_now() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: 0, disk: 0, directory: std::env::temp_dir() };
        let waker = Sleeper::new().expect("there are descriptors").waker();
        let mut receiver = BlobReceiver::new(arena, limits, None, waker);
        let name = BlobName { digest: Digest([1; 32]), size: 1 << 60 };
        assert!(receiver.take(name).is_ok(), "the waiting parts get the failure");
        assert_eq!((receiver.lacking.len(), receiver.hopeless.len()), (1, 1));
        assert!(receiver.hopeless[0].1.contains("do not fit into the arena"));
        assert!(!receiver.store.has(name.digest));
    }
}
