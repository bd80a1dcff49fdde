//! Deferred results, which stay where they were made until they are requested.
//!
//! The result of a task is deferred if the task may run twice, other tasks need the result, and no caller waits for it when
//! the task returns. A deferred result is fetched when a caller looks at its task, waits for it or listens to it, when a node
//! can get the result from no other place, and when its own node drains. If the node loses the result, the task runs again.

use gristmill_core::{LossReport, PeerEnd};
use gristmill_shm::ArenaError;
use gristmill_wire::peer::{BlobMessage, Part, Parted};
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use super::inbound_results::{InboundResultsWork as _, RemoteCompletion};
use super::parts::{BlobHome, BlobParts, BlobPort as _};
use super::work::{BlobMessageHandler as _, BlobProviderWork as _};
use crate::bundle::{Bundle, DeferredPayload};
use crate::peers::{EngineParts, LinkPort as _, LinkWork as _};

/// Deferral of results.
pub(crate) trait DeferredResults: BlobHome {
    /// Returns true if a result should stay where it was made.
    fn stays(&self, task: TaskId) -> bool {
        self.core().should_stay(task) && !self.is_asked_for(task)
    }

    /// Leaves a result where it was made. The tasks that need it can be sent.
    fn leave_there(
        &mut self,
        peer: PeerId,
        returned: RemoteCompletion,
        parted: &Parted<'_>,
    ) -> Result<(), ArenaError> {
        let Some(epoch) = self.links().get(peer).map(|link| link.epoch) else { return Ok(()) };
        let RemoteCompletion { task, attempt, .. } = returned;
        let BlobParts { arena, provider, bundles, inbound_results, .. } = self.blobs();
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        for part in &parted.parts {
            let (part, name) = match part {
                Part::Bytes(bytes) => (arena.store(bytes)?, None),
                Part::Blob(name) => (arena.reserve(1)?, Some(*name)),
            };
            parts.push(part);
            names.push(name);
        }
        for name in names.iter().flatten() {
            provider.know(peer, *name);
        }
        let far = DeferredPayload { task, attempt, peer, epoch };
        let payload = bundles.insert_remote(parted.bytes, parts, names, far);
        inbound_results.remote.insert(task, returned);
        self.follow_broadcast_plan();
        self.end_awaited(peer, returned, PeerEnd::Stayed(payload));
        Ok(())
    }

    /// Fetches the deferred results among these tasks, because a caller asks for them.
    fn bring_asked_for(&mut self, tasks: &[TaskId]) {
        if !self.blobs().inbound_results.remote.is_empty() {
            self.bring_these_home(tasks);
        }
    }

    #[cold]
    fn bring_these_home(&mut self, tasks: &[TaskId]) {
        let far_before = self.blobs().inbound_results.remote.len();
        for &task in tasks {
            // A task whose future is gone ends together with the tasks that need its result.
            if !self.core().is_released(task) {
                self.bring_home(task);
            }
        }
        if self.blobs().inbound_results.remote.len() < far_before {
            let now = self.port().now();
            self.flush_links(now);
        }
    }

    /// Fetches deferred results: those at `peer`, or without a peer all those whose futures still exist.
    fn bring_all_home_from(&mut self, peer: Option<PeerId>) {
        let far: Vec<TaskId> = self.blobs().inbound_results.remote.keys().copied().collect();
        for task in far {
            let is_there =
                peer.is_some() && self.core().task(task).is_some_and(|view| view.peer == peer);
            if is_there || (peer.is_none() && !self.core().is_released(task)) {
                self.bring_home(task);
            }
        }
    }

    /// Fetches a deferred result that has a blob.
    fn bring_blob(&mut self, digest: Digest) {
        let far: Vec<TaskId> = self.blobs().inbound_results.remote.keys().copied().collect();
        let found = far.into_iter().find(|&task| self.has_remote_blob(task, digest));
        if let Some(task) = found {
            self.bring_home(task);
        }
    }

    /// Returns true if a task's deferred result has a blob.
    fn has_remote_blob(&self, task: TaskId, digest: Digest) -> bool {
        let names = self.remote_bundle(task).into_iter().flat_map(Bundle::named_parts);
        names.filter_map(|(_, name)| name).any(|name| name.digest == digest)
    }

    fn remote_bundle(&self, task: TaskId) -> Option<&Bundle> {
        let block = self.core().result_that_stayed(task)?.block()?;
        Some(self.blob_look().bundles.get(block))
    }

    fn bring_home(&mut self, task: TaskId) {
        let Some(returned) = self.blobs().inbound_results.remote.remove(&task) else { return };
        let Some(block) = self.core().result_that_stayed(task).and_then(|payload| payload.block())
        else {
            return;
        };
        let bundle = std::sync::Arc::clone(self.blob_look().bundles.get(block));
        if let Some(far) = bundle.remote() {
            self.fetch_result(far.peer, returned, &bundle);
        }
    }

    /// Releases a deferred result that the client does not need any more, or that it has fetched. Tells the node that it need
    /// not keep the result.
    fn release_remote(&mut self, bundle: &Bundle, far: DeferredPayload) {
        let BlobParts { inbound_results, .. } = self.blobs();
        inbound_results.give_up(far.peer, far.task);
        if inbound_results
            .remote
            .get(&far.task)
            .is_some_and(|returned| returned.attempt == far.attempt)
        {
            inbound_results.remote.remove(&far.task);
        }
        let is_there = self.links().get(far.peer).is_some_and(|link| link.epoch == far.epoch);
        for name in bundle.named_parts().filter_map(|(_, name)| name) {
            self.blobs().provider.forget(name.digest);
            if is_there {
                self.say_blob(far.peer, &BlobMessage::Received { digest: name.digest });
            }
        }
    }

    /// Forgets the results that were on a lost peer, or on their way from it.
    fn results_left(&mut self, peer: PeerId) {
        let EngineParts { core, port, .. } = self.parts();
        let BlobParts { inbound_results, .. } = port.blobs();
        inbound_results.forget(peer);
        inbound_results.remote.retain(|&task, _| core.result_that_stayed(task).is_some());
    }

    /// Handles the loss of a blob on a peer. Deferred results with this blob are lost, and so are results with it that are on
    /// their way from the peer.
    fn results_dropped(&mut self, peer: PeerId, digest: Digest, text: &str) {
        let node = self.links().get(peer).map_or("?", |link| &link.names.theirs);
        let detail = format!("it has lost the result: {text}");
        let report = LossReport::of_node(node, &detail);
        for task in self.core().stayed_at(peer) {
            if self.has_remote_blob(task, digest) {
                let EngineParts { core, port, .. } = self.parts();
                core.result_lost(peer, task, report.clone(), port.now(), port);
            }
        }
        for (returned, names) in self.blobs().inbound_results.drop_awaited(peer, digest) {
            // The peer keeps these blobs for this answer.
            for BlobName { digest, .. } in names {
                self.say_blob(peer, &BlobMessage::Received { digest });
            }
            self.end_awaited(peer, returned, PeerEnd::Lost(report.clone()));
        }
    }
}

impl<H: BlobHome> DeferredResults for H {}
