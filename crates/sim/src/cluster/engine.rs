//! An engine of the cluster, the program's or a lease's: a real graph with real links, around simulated workers.

use std::collections::VecDeque;

use gristmill_client::{
    BlobWork, Departure, Guests, LinkHome, LinkWork, Parts, PeerNews, Returned,
};
use gristmill_core::{Core, PeerId, TaskId};
use gristmill_wire::peer::{MessageKind, Parted};
use gristmill_wire::{ContextId, FrameError};

use super::lanes::Lanes;

/// An engine.
pub(crate) struct Engine {
    pub core: Core,
    pub lanes: Lanes,
    pub guests: Guests,
    pub news: VecDeque<PeerNews>,
    /// Guests that there may be, once their peers have said that no more come.
    pub guests_max: usize,
}

impl Engine {
    /// Who was asked to send nothing more, and has agreed, does not.
    pub fn check_drained(&mut self) {
        if !self.guests.is_draining {
            self.guests_max = usize::MAX;
            return;
        }
        let links = &self.lanes.links;
        let mut open = links.peers().filter_map(|peer| links.get(peer)).map(|one| one.drains_open);
        let count = self.guests.count();
        assert!(
            count <= self.guests_max,
            "a task came to a node that drains, which its client knew"
        );
        if links.peers().count() > 0 && open.all(|open| open == 0) {
            self.guests_max = count;
        }
    }
}

impl LinkHome for Engine {
    type Port = Lanes;

    fn parts(&mut self) -> Parts<'_, Lanes> {
        Parts { core: &mut self.core, port: &mut self.lanes, guests: &mut self.guests }
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn port(&self) -> &Lanes {
        &self.lanes
    }

    fn guests(&self) -> &Guests {
        &self.guests
    }

    fn settle(&mut self) {
        for function in std::mem::take(&mut self.lanes.freed) {
            self.core.forget_function(function);
        }
        for (task, handle) in std::mem::take(&mut self.lanes.ended) {
            self.answer_guest(task, handle);
        }
        for task in std::mem::take(&mut self.lanes.unneeded) {
            self.core.release(task);
        }
        if self.tables().is_none() {
            return self.lanes.world.memory.free(self.core.freed_blocks());
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
        let is_client = !self.lanes.program.is_empty();
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
        returned: Returned,
        parted: &Parted<'_>,
    ) -> Result<(), FrameError> {
        self.await_named(peer, returned, parted);
        Ok(())
    }

    fn call_waiters(&mut self, _concerns: impl Fn(&[TaskId]) -> bool) {}

    fn tell_news(&mut self, news: PeerNews) {
        self.lanes.world.log(|| format!("{news:?}"));
        if let PeerNews::Gone { peer, text, how, .. } = &news {
            let is_silent = text.starts_with("it was not heard");
            let is_lost = *how == Departure::Lost;
            let has_lied = self.lanes.lies > 0 && text.contains("do not hash to");
            assert!(
                !is_lost || is_silent || has_lied || self.core.failure().is_some(),
                "a link ends without a cause: {text}"
            );
            self.lanes.silences += u64::from(is_silent);
            self.lanes.lost.extend(self.lanes.line_of(*peer));
        }
        self.news.push_back(news);
    }
}
