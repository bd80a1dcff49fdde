//! An engine of a program without processes: what nodes can do to a client. For tests, and for those of other crates.

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
use crate::inner::{Inner, Shared};
use crate::lanes::Lanes;
use crate::outcome::Ended;
use crate::peers::{Departure, LinkWork, Links, NewLink, PeerNews};
use crate::submit::Call;
use crate::tree::Tree;

#[cfg(test)]
pub(crate) use node::{Node, end};

/// An engine of a program.
#[derive(Debug)]
pub struct Workless {
    pub(crate) inner: Inner,
    sleeper: Option<Arc<Sleeper>>,
    function: FunctionId,
}

impl Default for Workless {
    fn default() -> Self {
        Self::with(None)
    }
}

impl Workless {
    fn with(sleeper: Option<Arc<Sleeper>>) -> Self {
        let config = Config { workers: 0, spare_max: 0, ..Config::default() };
        let sizes =
            SegmentOptions { slot_count: 1, task_ring_size: 1 << 12, result_ring_size: 1 << 12 };
        let mode = BarrierMode::Fence;
        let segment = Segment::create_with_mode(&sizes, mode).expect("memory");
        let arena = ClientArena::create(0).expect("an arena");
        let links = Links::new(sleeper.clone(), false);
        let lanes = Lanes::new(1, (mode, segment.tick_scale()), arena, links);
        let commands = unheard().expect("descriptors");
        let tree = Tree::new(commands, Program::default(), Vec::new(), (false, 0));
        let shared = Arc::new(Shared::new(Arc::new(segment), mode, sleeper.clone()));
        let gaps = Gaps::new(Window::Never, crate::rest::LOOKS);
        let mut inner = Inner::new(Core::new(config), lanes, tree, shared, gaps);
        let now = inner.lanes.read_clock();
        inner.core.start(now, &mut inner.lanes);
        let function = inner.lanes.functions.define(b"own", "own");
        Self { inner, sleeper, function }
    }

    /// A node comes.
    pub fn attach(&mut self, new: NewLink) -> PeerId {
        self.inner.attach(new)
    }

    /// A node is lost.
    pub fn part(&mut self, peer: PeerId) {
        self.inner.peer_gone(peer, "it was cut off", Departure::Lost);
    }

    /// Whether a node is there.
    #[must_use]
    pub fn has(&self, peer: PeerId) -> bool {
        self.inner.lanes.links.get(peer).is_some()
    }

    /// Why nodes left, since this was asked last.
    pub fn take_endings(&mut self) -> Vec<String> {
        let text = |news| match news {
            PeerNews::Gone { text, .. } => Some(text),
            PeerNews::Parted { .. } | PeerNews::Extend { .. } => None,
        };
        self.inner.news.drain(..).filter_map(text).collect()
    }

    pub(crate) fn block(&self, bytes: &[u8]) -> BlockPart {
        self.inner.lanes.arena.store(bytes).expect("a block")
    }

    /// What bytes are called.
    #[must_use]
    pub fn name(&self, bytes: &[u8]) -> BlobName {
        BlobName { digest: digest_of(&self.block(bytes)), size: bytes.len() as u64 }
    }

    /// Submits a task that may be lost so many times, with large arguments and the results of other tasks.
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
        // However few bytes they are.
        let names = arguments.iter().map(|bytes| Some(self.name(bytes))).collect();
        let call = Call {
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

    /// What whoever leads does between two sleeps.
    pub fn turn(&mut self) {
        if self.sleeper.is_some() {
            return self.inner.drain();
        }
        let now = self.inner.lanes.read_clock();
        self.inner.drain_links();
        self.inner.take_blob_news(now);
        self.inner.core.poll(now, &mut self.inner.lanes);
        self.inner.settle();
        self.inner.flush_links(now);
    }

    /// Somebody wants to know of a task.
    pub fn ask_for(&mut self, task: TaskId) {
        self.inner.ask_for(&[task]);
    }

    /// Why a task has not ended, in words.
    #[must_use]
    pub fn explain(&self, task: TaskId) -> String {
        self.inner.explain(task, &[], 9)
    }

    /// Whether a task has ended.
    #[must_use]
    pub fn is_final(&self, task: TaskId) -> bool {
        self.inner.is_final(task)
    }

    /// What a task has returned, its large parts; or, as an error, how else it has ended.
    ///
    /// # Errors
    /// It has returned nothing.
    ///
    /// # Panics
    /// It has not ended.
    pub fn result(&self, task: TaskId) -> Result<Vec<Vec<u8>>, String> {
        match self.inner.ended(task).expect("it has ended") {
            Ended::Value(value) => Ok(value.parts().iter().map(BlockPart::to_vec).collect()),
            other => Err(format!("{other:?}")),
        }
    }

    /// Nobody will ask for a task.
    pub fn release(&mut self, task: TaskId) {
        self.inner.release(task);
        self.inner.settle();
    }

    /// Tasks of nodes that are here.
    #[must_use]
    pub fn guest_count(&self) -> usize {
        self.inner.guests.count()
    }

    /// Blocks of the arena that are in use.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.inner.lanes.arena.live_count()
    }

    /// Asserts what must hold between turns.
    ///
    /// # Panics
    /// It does not.
    pub fn audit(&self) {
        self.inner.core.audit();
        self.inner.lanes.giving.spread.audit();
    }

    /// Asserts that nothing is kept of tasks, all of which were released.
    ///
    /// # Panics
    /// Something is.
    pub fn check_empty(&self) {
        assert_eq!(self.inner.core.record_count(), 0, "nothing is kept of tasks");
        assert!(self.inner.lanes.homing.is_empty(), "nothing is on its way home");
        assert_eq!(self.inner.lanes.giving.held_count(), 0, "nothing is there to be given");
        assert_eq!(
            self.block_count(),
            0,
            "nothing is kept of bytes: {:?}",
            self.inner.lanes.bundles
        );
    }
}
