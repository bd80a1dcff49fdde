//! An engine of the cluster, the program's or a lease's: a real graph with real links, around simulated workers.

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::{
    BlobWork, Departure, EngineParts, InboundTasks, LinkHome, LinkWork, PeerEvent, RemoteCompletion,
};
use gristmill_core::{Core, PeerId, PeerStats, TaskId};
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError};

use super::sim_port::SimPort;

/// An engine with its inbound tasks and events.
pub(crate) struct Engine {
    pub core: Core,
    pub port: SimPort,
    pub inbound: InboundTasks,
    pub events: VecDeque<PeerEvent>,
    /// Largest number of inbound tasks that is allowed once all peers have agreed to send no more.
    pub guests_max: usize,
}

impl Engine {
    /// Asserts that a peer which was asked to send no more tasks, and has agreed, sends none.
    pub fn check_drained(&mut self) {
        if !self.inbound.is_draining {
            self.guests_max = usize::MAX;
            return;
        }
        let links = &self.port.links;
        let mut open = links.peers().filter_map(|peer| links.get(peer)).map(|one| one.drains_open);
        let count = self.inbound.count();
        assert!(
            count <= self.guests_max,
            "a task came to a node that drains, which its client knew"
        );
        if links.peers().count() > 0 && open.all(|open| open == 0) {
            self.guests_max = count;
        }
    }

    /// Returns the number of tasks at peers that get no more tasks, by line and end of the lease.
    pub(super) fn left_with_draining(&self) -> BTreeMap<(Option<usize>, u64), u32> {
        let draining = self.core.peer_stats().filter(|peer| peer.is_draining);
        let entry = |peer: PeerStats| {
            let ends_at = self.port.links.get(peer.peer).map_or(0, |link| link.ends_at_ns);
            ((self.port.line_of(peer.peer), ends_at), peer.in_flight)
        };
        draining.map(entry).collect()
    }

    /// Asserts that peers which should get no more tasks have got none.
    pub(super) fn check_left(&self, before: &BTreeMap<(Option<usize>, u64), u32>) {
        for (peer, count) in self.left_with_draining() {
            let had = before.get(&peer).copied().unwrap_or(u32::MAX);
            assert!(count <= had, "a peer that drains was sent more: {peer:?}");
        }
    }

    /// Releases all contexts that the program or a task of this engine holds.
    pub fn forget_contexts(&mut self) {
        self.port.has_forgotten = true;
        let mut held: Vec<ContextId> = std::mem::take(&mut self.port.held).into_values().collect();
        held.extend(self.port.lent.take());
        if held.is_empty() {
            return;
        }
        for context in held {
            self.port.release_context(&mut self.core, context);
        }
        self.settle_and_flush();
    }
}

impl LinkHome for Engine {
    type Port = SimPort;

    fn parts(&mut self) -> EngineParts<'_, SimPort> {
        EngineParts { core: &mut self.core, port: &mut self.port, inbound: &mut self.inbound }
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn port(&self) -> &SimPort {
        &self.port
    }

    fn inbound(&self) -> &InboundTasks {
        &self.inbound
    }

    fn settle(&mut self) {
        for function in std::mem::take(&mut self.port.freed) {
            self.core.forget_function(function);
        }
        for (task, handle) in std::mem::take(&mut self.port.ended) {
            self.answer_inbound(task, handle);
        }
        for task in std::mem::take(&mut self.port.unneeded) {
            self.core.release(task);
        }
        if self.tables().is_none() {
            return self.port.world.memory.free(self.core.freed_blocks());
        }
        while let Some(block) = self.core.freed_blocks().pop() {
            self.drop_bundle(block);
        }
    }

    fn release(&mut self, task: TaskId) {
        self.core.release(task);
    }

    fn peer_came(&mut self, peer: PeerId, labels: &str) {
        if self.tables().is_some() {
            self.blobs_joined(peer, labels);
        }
    }

    fn peer_drains(&mut self, peer: PeerId) {
        if self.tables().is_some() {
            self.bring_all_home(Some(peer));
        }
    }

    fn peer_left(&mut self, peer: PeerId) {
        if self.tables().is_some() {
            self.blobs_left(peer);
        }
    }

    fn take_blob_message(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        let is_client = !self.port.program.is_empty();
        match kind {
            MessageKind::Piece if is_client && self.lies() => {
                let mut body = body.to_vec();
                *body.last_mut().expect("it has a name and bytes") ^= 1;
                self.take_blob_of(peer, kind, &body)
            }
            MessageKind::Dropped if is_client => self.hear_of_loss(peer, kind, body),
            _ => self.take_blob_of(peer, kind, body),
        }
    }

    fn provide_files(&mut self, peer: PeerId, context: ContextId) {
        if self.tables().is_some() {
            self.files_named(peer, context);
        }
    }

    fn take_promises(&mut self, peer: PeerId, context: ContextId) -> Vec<TaskId> {
        if self.tables().is_some() { self.promises_of(peer, context) } else { Vec::new() }
    }

    fn names_result(&mut self, task: TaskId, place: u32) -> bool {
        self.tables().is_some() && self.result_gets_names(task, place)
    }

    fn owes_results(&self) -> bool {
        self.tables().is_some() && self.owes_blobs()
    }

    fn await_result(
        &mut self,
        peer: PeerId,
        returned: RemoteCompletion,
        parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        self.await_named(peer, returned, parted);
        Ok(())
    }

    fn call_waiters(&mut self, _concerns: impl Fn(&[TaskId]) -> bool) {}

    fn record_event(&mut self, events: PeerEvent) {
        self.port.world.log(|| format!("{events:?}"));
        if let PeerEvent::Gone { peer, text, how, .. } = &events {
            let is_silent = text.starts_with("no message came from it");
            let is_lost = *how == Departure::Lost;
            let has_lied = self.port.lies > 0 && text.contains("do not hash to");
            assert!(
                !is_lost || is_silent || has_lied || self.core.failure().is_some(),
                "a link ends without a cause: {text}"
            );
            self.port.silences += u64::from(is_silent);
            self.port.lost.extend(self.port.line_of(*peer));
        }
        self.events.push_back(events);
    }
}
