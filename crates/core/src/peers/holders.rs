//! Tasks with large arguments, be they results of others, which go where these are.
//!
//! A peer that has a task's largest argument, or is getting it, is taken before one that would have to fetch it, unless the
//! other one would have fetched it and begun by the time that it gets to the task. Who is busy with what nobody has seen
//! run, maybe for hours, is not waited for. Other tasks pay nothing for this, and these the same whatever the number of
//! peers.

use gristmill_wire::PeerId;

use super::table::peer_id;
use crate::port::Port;
use crate::{Core, NONE, Payload};

/// Where a task's largest argument is, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holders {
    /// Some peers that have it or are getting it: each is looked at.
    pub peers: Vec<PeerId>,
    /// How long another one would need to fetch it.
    pub fetch_ns: u64,
}

/// Results that are smaller have no holders.
const BULK_MIN: u64 = 1 << 20;

impl Core {
    /// The largest one of a task's arguments, and of the results that they name, that may be somewhere already.
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

    /// The peer for a task that would go to `best` if it had no large arguments: one that has these, among those that are
    /// `open` to it.
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
