//! An engine of a program without processes, for checks of how nodes can affect a client. Used by tests here and in other
//! crates.

#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod node;
mod worker;

use std::sync::Arc;

use gristmill_core::{Budgets, Config, Core, Origin, TaskOptions};
use gristmill_keeper::{Program, unheard};
use gristmill_shm::{BlockPart, ClientArena, Gaps, Segment, SegmentOptions, Window};
use gristmill_store::digest_of;
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::Sleeper;
use gristmill_wire::{BlobName, FunctionId, PeerId, TaskId};

use crate::blobs::BlobWork as _;
use crate::client_port::ClientPort;
use crate::inner::{Inner, LockFreeState};
use crate::outcome::Ended;
use crate::peers::{Departure, LinkWork, Links, NewLink, PeerEvent};
use crate::submit::CallRequest;
use crate::tree::Tree;

#[cfg(test)]
pub(crate) use node::{Node, end};

/// An engine of a program that has no processes.
#[derive(Debug)]
pub struct WorkerlessEngine {
    pub(crate) inner: Inner,
    sleeper: Option<Arc<Sleeper>>,
    function: FunctionId,
}

impl Default for WorkerlessEngine {
    fn default() -> Self {
        Self::with(None)
    }
}

impl WorkerlessEngine {
    fn with(sleeper: Option<Arc<Sleeper>>) -> Self {
        let config = Config { workers: 0, spare_max: 0, ..Config::default() };
        let sizes =
            SegmentOptions { slot_count: 1, task_ring_size: 1 << 12, result_ring_size: 1 << 12 };
        let mode = BarrierMode::Fence;
        let segment = Segment::create_with_mode(&sizes, mode).expect("memory");
        let arena = ClientArena::create(0).expect("an arena");
        let links = Links::new(sleeper.clone(), false);
        let port = ClientPort::new(1, (mode, segment.tick_scale()), arena, links);
        let commands = unheard().expect("descriptors");
        let tree = Tree::new(commands, Program::default(), Vec::new(), (false, 0));
        let shared = Arc::new(LockFreeState::new(Arc::new(segment), mode, sleeper.clone()));
        let gaps = Gaps::new(Window::Never, crate::leader_sleep::LOOKS);
        let mut inner = Inner::new(Core::new(config), port, tree, shared, gaps);
        let now = inner.port.read_clock();
        inner.core.start(now, &mut inner.port);
        let function = inner.port.functions.define(b"own", "own");
        Self { inner, sleeper, function }
    }

    /// Attaches the link of a node.
    pub fn attach(&mut self, new: NewLink) -> PeerId {
        self.inner.attach(new)
    }

    /// Removes a node as lost.
    pub fn part(&mut self, peer: PeerId) {
        self.inner.peer_gone(peer, "it was cut off", Departure::Lost);
    }

    /// Returns true if a node is there.
    #[must_use]
    pub fn has(&self, peer: PeerId) -> bool {
        self.inner.port.links.get(peer).is_some()
    }

    /// Returns the reasons why nodes left since the last call.
    pub fn take_endings(&mut self) -> Vec<String> {
        let text = |event| match event {
            PeerEvent::Gone { text, .. } => Some(text),
            PeerEvent::Parted { .. } | PeerEvent::Extend { .. } => None,
        };
        self.inner.peer_events.drain(..).filter_map(text).collect()
    }

    pub(crate) fn block(&self, bytes: &[u8]) -> BlockPart {
        self.inner.port.arena.store(bytes).expect("a block")
    }

    /// Returns the blob name of bytes.
    #[must_use]
    pub fn name(&self, bytes: &[u8]) -> BlobName {
        BlobName { digest: digest_of(&self.block(bytes)), size: bytes.len() as u64 }
    }

    /// Submits a task that may be lost `loss_retries` times, with large arguments and the results of other tasks.
    pub fn submit(
        &mut self,
        payload: &[u8],
        arguments: &[&[u8]],
        parents: &[TaskId],
        loss_retries: u16,
    ) -> TaskId {
        let budgets = Some(Budgets { loss_retries, ..Budgets::default() });
        let options = TaskOptions { budgets, ..TaskOptions::default() };
        let parts: Vec<_> = arguments.iter().map(|bytes| self.block(bytes)).collect();
        // Each argument has a name, however few bytes it has.
        let names = arguments.iter().map(|bytes| Some(self.name(bytes))).collect();
        let call = CallRequest {
            function: self.function,
            payload,
            parts: &parts,
            views: false,
            parents,
            options: Some(&options),
        };
        let task = self.inner.submit(&call, names, Origin::External, 0);
        self.turn();
        task.expect("there is room")
    }

    /// Does the work of the leader between two sleeps.
    pub fn turn(&mut self) {
        if self.sleeper.is_some() {
            return self.inner.drain();
        }
        let now = self.inner.port.read_clock();
        self.inner.drain_links();
        self.inner.take_blob_events(now);
        self.inner.core.poll(now, &mut self.inner.port);
        self.inner.settle();
        self.inner.flush_links(now);
    }

    /// Requests the result of a task if it stayed at a node, as a waiting thread does.
    pub fn ask_for(&mut self, task: TaskId) {
        self.inner.ask_for(&[task]);
    }

    /// Returns a sentence that explains why a task has not ended.
    #[must_use]
    pub fn explain(&self, task: TaskId) -> String {
        self.inner.explain(task, &[], 9)
    }

    /// Returns true if a task has ended.
    #[must_use]
    pub fn is_final(&self, task: TaskId) -> bool {
        self.inner.is_final(task)
    }

    /// Returns the large parts of the value that a task has returned.
    ///
    /// # Errors
    /// Returns the outcome in words if the task has ended without a value.
    ///
    /// # Panics
    /// Panics if the task has not ended.
    pub fn result(&self, task: TaskId) -> Result<Vec<Vec<u8>>, String> {
        match self.inner.ended(task).expect("it has ended") {
            Ended::Value(value) => Ok(value.parts().iter().map(BlockPart::to_vec).collect()),
            other => Err(format!("{other:?}")),
        }
    }

    /// Releases a task, whose outcome will not be requested.
    pub fn release(&mut self, task: TaskId) {
        self.inner.release(task);
        self.inner.settle();
    }

    /// Returns the number of inbound tasks.
    #[must_use]
    pub fn inbound_count(&self) -> usize {
        self.inner.inbound.count()
    }

    /// Returns the number of blocks of the arena that are in use.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.inner.port.arena.live_count()
    }

    /// Asserts the invariants that hold between turns.
    ///
    /// # Panics
    /// Panics if one of them is violated.
    pub fn audit(&self) {
        self.inner.core.audit();
        self.inner.port.provider.broadcast.audit();
    }

    /// Asserts that nothing is kept of tasks, all of which were released.
    ///
    /// # Panics
    /// Panics if something is kept.
    pub fn check_empty(&self) {
        assert_eq!(self.inner.core.record_count(), 0, "nothing is kept of tasks");
        assert!(self.inner.port.inbound_results.is_empty(), "nothing is on its way home");
        assert_eq!(self.inner.port.provider.held_count(), 0, "nothing is there to be given");
        assert_eq!(
            self.block_count(),
            0,
            "nothing is kept of bytes: {:?}",
            self.inner.port.bundles
        );
    }
}
