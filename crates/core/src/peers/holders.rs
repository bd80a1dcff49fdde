//! Placement of tasks with large arguments, or with large results of other tasks as arguments, at peers that have these.
//!
//! A peer that has a task's largest argument, or is receiving it, is preferred to a peer that would have to fetch it,
//! unless the other peer could fetch it and start the task before the holder could start it. If no run of the task's
//! function was observed, the engine does not wait for a busy holder, because the tasks there may run for hours. Tasks
//! without large arguments pay nothing for this, and for the others the cost does not depend on the number of peers.

use super::table::peer_id;
use crate::port::{Holders, Port};
use crate::{Core, NONE, Payload};

/// Size of the smallest result that has holders, bytes.
const BULK_MIN: u64 = 1 << 20;

impl Core {
    /// Returns the largest of a task's arguments, and of the results that they name, that may already be at some peer.
    fn largest_bulk(&self, index: u32) -> Option<&Payload> {
        let task = &self.tasks[index];
        let is_bulky = task.extra != NONE && self.extras[task.extra].is_bulky;
        let own = is_bulky.then(|| task.payload());
        let first = (task.first_parent != NONE).then_some(task.first_parent);
        let next = |&edge: &u32| Some(self.edges[edge].next_parent).filter(|&next| next != NONE);
        let parents = std::iter::successors(first, next);
        let results = parents.filter_map(|edge| self.result_of(self.edges[edge].parent));
        let size = |payload: &Payload| payload.block().map_or(0, |block| block.size);
        let bulks = results.filter(|&result| size(result) >= BULK_MIN).chain(own);
        bulks.max_by_key(|payload| size(payload))
    }

    /// Returns the peer for a task that would go to `best` if it had no large arguments: a peer that has these arguments,
    /// among those for which `is_open` returns true, or `best`.
    pub(crate) fn prefer_holder(
        &self,
        index: u32,
        best: usize,
        port: &impl Port,
        is_open: impl Fn(usize) -> bool,
    ) -> usize {
        let Some(bulk) = self.largest_bulk(index) else { return best };
        let Holders { peers, fetch_ns } = port.holders(bulk, peer_id(best));
        let places = peers.into_iter().filter_map(|peer| self.joined_peer(peer));
        let wait_ns = |place: usize| self.peers.get(place).wait_ns();
        let is_known = self.functions[self.tasks[index].function.0 as usize].is_seen();
        let patience_ns = if is_known { fetch_ns } else { 0 };
        places
            .filter(|&place| is_open(place))
            .min_by_key(|&place| wait_ns(place))
            .filter(|&place| wait_ns(place) <= wait_ns(best).saturating_add(patience_ns))
            .unwrap_or(best)
    }
}
