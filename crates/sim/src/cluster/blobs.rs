//! Large parts of arguments and results in the cluster.

use gristmill_client::{
    BlobHome, BlobParts, BlobPartsRef, BlobPort, BlobTables, BlobWork, LinkHome,
};
use gristmill_core::{Attempt, PeerId, TaskId};
use gristmill_wire::FrameError;
use gristmill_wire::peer::MessageKind;

use super::blob_plan::BlobPlan;
use super::engine::Engine;
use super::handle::Handle;
use super::network::look;
use super::sim_port::SimPort;
use crate::world::ProgramTask;

impl Handle {
    /// Lets the blob server do one turn; returns false if it has nothing to do.
    pub fn keep_store(&self) -> bool {
        let mut blob_server = self.blob_server.borrow_mut();
        let now = self.shared.borrow().now;
        let Some(blob_server) = blob_server.as_mut().filter(|blob_server| blob_server.is_due(now))
        else {
            return false;
        };
        if blob_server.fail_disk() {
            self.with(|engine| engine.port.world.log(|| "the disk fails".to_owned()));
        }
        blob_server.turn(now, self.clock.local(now));
        true
    }

    /// Returns the true time at which the blob server next polls everything.
    pub fn next_look(&self) -> Option<u64> {
        self.blob_server.borrow().as_ref()?.next_look()
    }
}

impl BlobPort for SimPort {
    fn blobs(&mut self) -> BlobParts<'_> {
        self.world.memory.blobs.as_mut().expect("there are some").parts()
    }

    fn blob_look(&self) -> BlobPartsRef<'_> {
        self.world.memory.blobs.as_ref().expect("there are some").look()
    }
}

impl BlobHome for Engine {
    fn is_asked_for(&self, task: TaskId) -> bool {
        self.port.asked.contains(&task)
    }

    fn blob_server_address(&self, peer: PeerId, port: u16) -> Option<String> {
        let line = self.port.line_of(peer)?;
        Some(format!("{port} at {}", look(&self.port.air).node_of(line)))
    }
}

impl Engine {
    /// Returns the tables of large parts, or `None` if the seed has no large parts.
    pub fn tables(&self) -> Option<&BlobTables> {
        self.port.world.memory.blobs.as_ref()
    }

    /// Returns whether there are blob events to process.
    pub fn has_large_events(&self) -> bool {
        self.tables().is_some() && self.has_blob_events()
    }

    /// Processes blob events, if there are any.
    pub fn take_large_events(&mut self) {
        if self.has_large_events() {
            let now = self.port.world.now;
            self.take_blob_events(now);
        }
    }

    /// Draws whether the node sends other bytes for the current piece than it named.
    pub fn lies(&mut self) -> bool {
        let Some(plan) = self.port.plan.filter(|plan| plan.lie_rate > 0) else { return false };
        let lies = look(&self.port.air).random.below(1_000) < plan.lie_rate;
        self.port.lies += u64::from(lies);
        lies
    }

    /// Processes the message that a node no longer has a blob. Results that stayed on this node or come from it may be lost
    /// with the blob, which costs their tasks the same as the loss of the node.
    pub fn hear_of_loss(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        let tasks = self.port.world.ledger.iter().filter_map(|entry| entry.id);
        let there: Vec<_> = tasks
            .filter_map(|id| Some((id, self.core.task(id)?)))
            .filter(|(_, view)| view.peer == Some(peer))
            .map(|(id, view)| (id, view.attempt))
            .collect();
        self.charge(&there, 1);
        let taken = self.take_blob_of(peer, kind, body);
        let is_kept = |&(task, attempt): &(TaskId, Attempt)| self.core.awaits(peer, task, attempt);
        let kept: Vec<_> = there.iter().copied().filter(is_kept).collect();
        self.charge(&kept, u64::MAX);
        self.note_lost_results(there.iter().filter(|one| !kept.contains(one)));
        let is_faultless = |plan: BlobPlan| plan.disk_failure_rate + plan.lie_rate == 0;
        assert!(
            kept.len() == there.len() || !self.port.plan.is_some_and(is_faultless),
            "a node has lost a result that it was to keep: of {there:?} {kept:?} are left"
        );
        taken
    }

    /// Notes tasks whose results are lost: each runs again, and until then it can be cancelled like any waiting task.
    fn note_lost_results<'a>(&mut self, tasks: impl Iterator<Item = &'a (TaskId, Attempt)>) {
        for &(task, attempt) in tasks {
            let mut ledger = self.port.world.ledger.iter_mut();
            let entry = ledger.find(|entry| entry.id == Some(task)).expect("it is known");
            let last = entry.placements.iter_mut().rfind(|one| one.attempt == attempt);
            last.expect("it was sent there").is_result_lost = true;
        }
    }

    fn charge(&mut self, tasks: &[(TaskId, Attempt)], count: u64) {
        let ledger = &mut self.port.world.ledger;
        let is_its = |entry: &&mut ProgramTask| {
            entry.id.is_some_and(|id| tasks.iter().any(|&(task, _)| task == id))
        };
        for entry in ledger.iter_mut().filter(is_its) {
            entry.unknowns = entry.unknowns.wrapping_add(count);
        }
    }

    /// Describes the blob state that is still held although no task needs it.
    pub fn leftovers(&self) -> Option<String> {
        let links = self.links();
        let mut feeds = links.peers().filter_map(|peer| links.get(peer)).map(|link| &link.feeds);
        let feeds = feeds.any(|feeds| !feeds.is_empty()).then(|| "blobs leave".to_owned());
        self.tables().and_then(BlobTables::leftovers).or(feeds)
    }
}
