//! Check of the shares that contexts, and tasks without one, have of nodes: no context waits at the client while a node that
//! takes tasks has none of its tasks to run, regardless of what else fills the node.

use std::collections::BTreeSet;

use gristmill_client::is_inbound;
use gristmill_core::{PeerId, TaskLocation};

use super::engine::Engine;
use crate::contexts::PLAIN;

impl Engine {
    /// Asserts the shares if the client has no workers of its own.
    pub(super) fn check_shares(&self) {
        if !self.core.stats().slots.is_empty() {
            return;
        }
        let (mut waiting, mut foreign, mut there) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for id in self.core.outstanding(None) {
            let context = self.core.context(id).unwrap_or(PLAIN);
            match self.core.location(id) {
                TaskLocation::Ready { .. } | TaskLocation::InContext { .. } => {
                    waiting.insert(context);
                    // A node does not get its own tasks back.
                    if self.core.task(id).is_some_and(|task| is_inbound(task.handle)) {
                        foreign.insert(context);
                    }
                }
                TaskLocation::Delegated { peer, parents: 0, .. } => {
                    there.insert((peer, context));
                }
                _ => {}
            }
        }
        // If a lease has an end, the expected duration of a task decides whether it is sent there.
        let has_end =
            |peer: PeerId| self.port.links.get(peer).is_none_or(|link| link.ends_at_ns != u64::MAX);
        for peer in self.core.peer_stats().filter(|one| one.takes_tasks && one.workers > 0) {
            for &context in waiting.difference(&foreign) {
                let has_some = there.contains(&(peer.peer, context));
                assert!(
                    has_some || has_end(peer.peer),
                    "tasks in {context} wait, and a node has none of them: {peer:?}"
                );
            }
        }
    }
}
