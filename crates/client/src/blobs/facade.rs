//! Blob operations that an engine calls.

use gristmill_core::Block;
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError, PeerId, TaskId};

use super::deferred::DeferredResults as _;
use super::inbound_results::{InboundResultsWork as _, RemoteCompletion};
use super::parts::{BlobHome, BlobParts, BlobPartsRef};
use super::receiver::BlobReceiver;
use super::retention::ResultRetention as _;
use super::work::{BlobMessageHandler as _, BlobProviderWork as _, BlobReceiverWork as _};
use crate::staging::StagingWork as _;

/// Blob operations of an engine, called when links, tasks or payloads change.
pub trait BlobWork: BlobHome {
    /// Registers a node that can receive blobs. The node's owner sets `labels`.
    fn blobs_joined(&mut self, peer: PeerId, labels: &str) {
        self.provider_connected(peer, labels);
    }

    /// Removes a peer that is gone for good.
    fn blobs_left(&mut self, peer: PeerId) {
        self.provider_left(peer);
        self.receiver_left(peer);
    }

    /// Handles a message about blobs from the other end of a lease.
    ///
    /// # Errors
    /// The message is malformed.
    fn take_blob_of(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        self.take_blob(peer, kind, body)
    }

    /// Returns true if a helper thread has reported an event that is not handled yet.
    fn has_blob_events(&self) -> bool {
        let BlobPartsRef { inbound_results, receiver, .. } = self.blob_look();
        receiver.is_some_and(BlobReceiver::has_events) || inbound_results.has_findings()
    }

    /// Handles the events of the blob server, of the file stager and of the hash verifier.
    fn take_blob_events(&mut self, now: u64) {
        self.take_server_events(now);
        self.take_staging_events();
        self.take_findings();
    }

    /// Returns the promises that the current task waits for besides its parents: one for each named blob that is not here,
    /// and one for the files of its context.
    fn promises_of(&mut self, peer: PeerId, context: ContextId) -> Vec<TaskId> {
        let mut promises = self.promise_blobs(peer);
        promises.extend(self.promise_of_files(context));
        promises
    }

    /// Records that a peer has defined a context with files.
    fn files_named(&mut self, peer: PeerId, context: ContextId) {
        self.record_staging(peer, context);
    }

    /// Queues a finished inbound task's result for naming. Returns true if the result has large parts: the answer then waits
    /// for their names.
    fn result_gets_names(&mut self, task: TaskId, place: u32) -> bool {
        self.has_name_to_come(task, place)
    }

    /// Returns true if a result still waits for its names, or for a peer to receive it.
    fn owes_blobs(&self) -> bool {
        self.blob_look().receiver.is_some_and(BlobReceiver::owes)
    }

    /// Handles the answer of a task that returned on a peer and whose result has named parts.
    fn await_named(&mut self, peer: PeerId, returned: RemoteCompletion, parted: &Parted<'_>) {
        self.await_result_of(peer, returned, parted);
    }

    /// Fetches the deferred results among these tasks, because a caller asks for them.
    #[inline]
    fn ask_for(&mut self, tasks: &[TaskId]) {
        self.bring_asked_for(tasks);
    }

    /// Fetches deferred results: those at `peer`, or without a peer all those whose futures still exist.
    fn bring_all_home(&mut self, peer: Option<PeerId>) {
        self.bring_all_home_from(peer);
    }

    /// Carries out the pending actions of the broadcast plan. The engine calls this after it has taken arguments.
    fn broadcast_blobs(&mut self) {
        self.follow_broadcast_plan();
    }

    /// Drops the bundle of a payload that the graph has dropped, and releases its blobs.
    fn drop_bundle(&mut self, block: Block) {
        let BlobParts { bundles, provider, .. } = self.blobs();
        let Some(named) = bundles.remove(block) else { return };
        match named.remote() {
            Some(far) => self.release_remote(&named, far),
            None => provider.release_all(&named),
        }
        // The actions cannot wait: the next message may be a task that names the same blob.
        self.follow_broadcast_plan();
    }
}

impl<H: BlobHome> BlobWork for H {}
