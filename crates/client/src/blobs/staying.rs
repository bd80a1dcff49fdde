//! Results that stay where they were made, until somebody asks for them.
//!
//! They are those of tasks that may run twice, that others need, and that nobody waits for when they return. Whoever looks at
//! such a task, waits for it or listens to it has its result brought home; so has a node that can get it from nobody else, and
//! one that drains. A result that its node loses is made again.

use gristmill_core::{LossReport, PeerEnd};
use gristmill_shm::ArenaError;
use gristmill_wire::peer::{BlobMessage, Part, Parted};
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use super::homing::{HomingWork as _, Returned};
use super::parts::{BlobHome, BlobParts, BlobPort as _};
use super::work::{BlobTalk as _, GivingWork as _};
use crate::bundle::{Bundle, Far};
use crate::peers::{LinkPort as _, LinkWork as _, Parts};

/// Leaving results where they were made.
pub(crate) trait StayingWork: BlobHome {
    /// Whether a result is to stay where it was made.
    fn stays(&self, task: TaskId) -> bool {
        self.core().should_stay(task) && !self.is_asked_for(task)
    }

    /// Leaves a result where it was made; its dependants go on.
    fn leave_there(
        &mut self,
        peer: PeerId,
        returned: Returned,
        parted: &Parted<'_>,
    ) -> Result<(), ArenaError> {
        let Some(epoch) = self.links().get(peer).map(|link| link.epoch) else { return Ok(()) };
        let Returned { task, attempt, .. } = returned;
        let BlobParts { arena, giving, bundles, homing, .. } = self.blobs();
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
            giving.know(peer, *name);
        }
        let far = Far { task, attempt, peer, epoch };
        let payload = bundles.insert_far(parted.bytes, parts, names, far);
        homing.far.insert(task, returned);
        self.obey_spread();
        self.end_awaited(peer, returned, PeerEnd::Stayed(payload));
        Ok(())
    }

    /// Somebody wants to know of these tasks: results that stayed are brought home.
    fn bring_asked_for(&mut self, tasks: &[TaskId]) {
        if !self.blobs().homing.far.is_empty() {
            self.bring_these_home(tasks);
        }
    }

    #[cold]
    fn bring_these_home(&mut self, tasks: &[TaskId]) {
        let far_before = self.blobs().homing.far.len();
        for &task in tasks {
            // One that nobody can ask for ends with those that need it.
            if !self.core().is_released(task) {
                self.bring_home(task);
            }
        }
        if self.blobs().homing.far.len() < far_before {
            let now = self.port().now();
            self.flush_links(now);
        }
    }

    /// All results that stayed are brought home: those that somebody can ask for, and those that are at `peer`.
    fn bring_all_home_from(&mut self, peer: Option<PeerId>) {
        let far: Vec<TaskId> = self.blobs().homing.far.keys().copied().collect();
        for task in far {
            let is_there =
                peer.is_some() && self.core().task(task).is_some_and(|view| view.peer == peer);
            if is_there || (peer.is_none() && !self.core().is_released(task)) {
                self.bring_home(task);
            }
        }
    }

    /// Brings a blob home that some result which stayed is or has.
    fn bring_blob(&mut self, digest: Digest) {
        let far: Vec<TaskId> = self.blobs().homing.far.keys().copied().collect();
        let found = far.into_iter().find(|&task| self.has_far_blob(task, digest));
        if let Some(task) = found {
            self.bring_home(task);
        }
    }

    /// Whether a result that stayed has a blob.
    fn has_far_blob(&self, task: TaskId, digest: Digest) -> bool {
        let names = self.far_bundle(task).into_iter().flat_map(Bundle::named_parts);
        names.filter_map(|(_, name)| name).any(|name| name.digest == digest)
    }

    fn far_bundle(&self, task: TaskId) -> Option<&Bundle> {
        let block = self.core().result_that_stayed(task)?.block()?;
        Some(self.blob_look().bundles.get(block))
    }

    fn bring_home(&mut self, task: TaskId) {
        let Some(returned) = self.blobs().homing.far.remove(&task) else { return };
        let Some(block) = self.core().result_that_stayed(task).and_then(|payload| payload.block())
        else {
            return;
        };
        let bundle = std::sync::Arc::clone(self.blob_look().bundles.get(block));
        if let Some(far) = bundle.far() {
            self.fetch_result(far.peer, returned, &bundle);
        }
    }

    /// A result that stayed is of no use here any more, be it that it has come home: its node need not keep it.
    fn let_far_go(&mut self, bundle: &Bundle, far: Far) {
        let BlobParts { homing, .. } = self.blobs();
        homing.give_up(far.peer, far.task);
        if homing.far.get(&far.task).is_some_and(|returned| returned.attempt == far.attempt) {
            homing.far.remove(&far.task);
        }
        let is_there = self.links().get(far.peer).is_some_and(|link| link.epoch == far.epoch);
        for name in bundle.named_parts().filter_map(|(_, name)| name) {
            self.blobs().giving.forget(name.digest);
            if is_there {
                self.say_blob(far.peer, &BlobMessage::Received { digest: name.digest });
            }
        }
    }

    /// A peer is gone, with the results that were there or on their way from there.
    fn results_left(&mut self, peer: PeerId) {
        let Parts { core, port, .. } = self.parts();
        let BlobParts { homing, .. } = port.blobs();
        homing.forget(peer);
        homing.far.retain(|&task, _| core.result_that_stayed(task).is_some());
    }

    /// A peer has a blob no more: results that stayed there and have it are lost, and so are those on their way from there.
    fn results_dropped(&mut self, peer: PeerId, digest: Digest, text: &str) {
        let node = self.links().get(peer).map_or("?", |link| &link.name);
        let detail = format!("it does not have the result any more: {text}");
        let report = LossReport::of_node(node, &detail);
        for task in self.core().stayed_at(peer) {
            if self.has_far_blob(task, digest) {
                let Parts { core, port, .. } = self.parts();
                core.result_lost(peer, task, report.clone(), port.now(), port);
            }
        }
        for (returned, names) in self.blobs().homing.drop_awaited(peer, digest) {
            // They are kept there for this answer.
            for BlobName { digest, .. } in names {
                self.say_blob(peer, &BlobMessage::Received { digest });
            }
            self.end_awaited(peer, returned, PeerEnd::Lost(report.clone()));
        }
    }
}

impl<H: BlobHome> StayingWork for H {}
