//! Large results of a lease's engine: they get names before they are answered, and are kept until whoever asked for them
//! has all bytes.
//!
//! The answer names them, and the bytes follow it over the same link, a piece at a time. Meanwhile, and for as long as
//! there is room, other nodes can fetch them here, and tasks that are sent here have them.

use gristmill_core::Outcome;
use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, Digest, PeerId, TaskId};

use super::depot::{Named, Order, Unnamed};
use super::naming::is_blob;
use super::taking::Taking;
use crate::inner::Inner;
use crate::peers::LinkWork as _;

impl Taking {
    /// Has a result named. False: nobody can, and its bytes go with the answer.
    fn name(&mut self, result: Unnamed) -> bool {
        let can_name = self.start_depot().is_ok();
        if can_name {
            self.unnamed += 1;
            self.order(Order::Name(result));
        }
        can_name
    }

    /// A blob is named in one more answer.
    fn keep(&mut self, digest: Digest, part: &BlockPart) {
        self.kept.entry(digest).or_insert_with(|| (part.clone(), 0)).1 += 1;
    }

    /// A blob need not be kept for one answer; says whether for none any more.
    fn let_go(&mut self, digest: Digest) -> bool {
        let Some((_, answers)) = self.kept.get_mut(&digest) else { return false };
        *answers -= 1;
        let is_last = *answers == 0;
        if is_last {
            self.kept.remove(&digest);
        }
        is_last
    }

    /// Whether somebody has yet to get a result.
    pub fn owes(&self) -> bool {
        self.unnamed > 0 || !self.kept.is_empty()
    }
}

impl Inner {
    /// Whether a peer's task that is final is answered later, as its result gets names first.
    pub(crate) fn names_result(&mut self, task: TaskId, place: u32) -> bool {
        let Some(taking) = &mut self.lanes.taking else { return false };
        let Some(Outcome::Returned(payload)) = self.core.outcome(task) else { return false };
        let Some(block) = payload.block() else { return false };
        let parts = self.lanes.bundles.get(block).parts();
        parts.iter().any(is_blob) && taking.name(Unnamed { task, place, parts: parts.to_vec() })
    }

    /// A result has its names: it is answered, and its bytes follow.
    pub(super) fn answer_by_name(&mut self, named: &Named) {
        let Named { result: Unnamed { task, place, parts }, names } = named;
        if let Some(taking) = &mut self.lanes.taking {
            taking.unnamed -= 1;
        }
        let Some(peer) = self.answer_named(*task, *place, names) else { return };
        self.open_depot(peer);
        for (part, name) in parts.iter().zip(names) {
            let Some(BlobName { digest, .. }) = *name else { continue };
            if let Some(taking) = &mut self.lanes.taking {
                taking.keep(digest, part);
            }
            if let Some(link) = self.lanes.links.get_mut(peer)
                && link.feeds.given(digest).is_none()
            {
                link.feeds.give(digest, part.clone(), 0);
            }
        }
    }

    /// A peer has all of a result, for one answer.
    pub(super) fn result_received(&mut self, peer: PeerId, digest: Digest) {
        let taking = self.lanes.taking.as_mut();
        if taking.is_some_and(|taking| taking.let_go(digest)) {
            self.cease(peer, digest);
        }
    }
}
