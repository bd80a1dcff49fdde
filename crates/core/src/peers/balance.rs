//! What happens when a peer has nothing to do while another has more than its workers run.

use gristmill_wire::{Attempt, PeerId, TaskId};

use super::levels::Level;
use super::place::recall_pause_ns;
use super::table::peer_id;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::task::{State, flag};
use crate::{Content, Core, Status};

/// Peers that are looked at for the one with most to do: a look costs the same whatever their number.
pub(super) const LOOKS_MAX: usize = 64;

impl Core {
    /// Whether a peer idles while something waits at another.
    pub(crate) fn may_recall(&self) -> bool {
        self.peers.deep > 0 && self.ready.is_empty() && self.peers.levels.has_idle()
    }

    /// When [`Core::poll`] should look at peers, if it should.
    pub(crate) fn next_recall(&self) -> Option<u64> {
        self.may_recall().then(|| self.peers.recalled_at + recall_pause_ns(&self.config, 0))
    }

    /// Asks the peer with most to do for half of what waits there.
    pub(crate) fn recall_from_peers(&mut self, port: &mut impl Port) {
        let is_due = self.next_recall().is_some_and(|when| when <= self.now);
        if !is_due {
            return;
        }
        self.peers.recalled_at = self.now;
        let Some(place) = self.deepest_peer() else { return };
        let peer = self.peers.get(place);
        let waiting = peer.runnable() - peer.offer.workers;
        self.peers.change(place, &self.config, |peer| {
            peer.is_recalled = true;
            peer.is_dry = true;
        });
        port.recall_from_peer(peer_id(place), waiting.div_ceil(2).min(self.config.steal_max));
    }

    /// Asks every peer for all that has not started there.
    pub(crate) fn recall_everything(&mut self, port: &mut impl Port) {
        for place in 0..self.peers.end() {
            let peer = self.peers.get_mut(place);
            if peer.is_joined && peer.in_flight.len > 0 {
                peer.is_recalled = true;
                self.peers.settle(place, &self.config);
                port.recall_from_peer(peer_id(place), u32::MAX);
            }
        }
    }

    /// Whether some peer was asked for tasks and has not said that these were all.
    #[must_use]
    pub fn is_recalling(&self) -> bool {
        (0..self.peers.end()).any(|place| self.peers.get(place).is_recalled)
    }

    /// Of some peers, in turns, the one with most to do that was not asked already.
    fn deepest_peer(&self) -> Option<usize> {
        let end = self.peers.end();
        let first = usize::try_from(self.now / 1_000_000).unwrap_or(0);
        let least_ns = 2 * self.config.wake_cost_ns;
        (0..end.min(LOOKS_MAX))
            .map(|step| (first + step) % end)
            .filter(|&place| {
                let peer = self.peers.get(place);
                let is_worth_it =
                    peer.runnable_ns() > least_ns.saturating_mul(u64::from(peer.offer.workers));
                peer.has_more() && !peer.is_recalled && is_worth_it
            })
            .max_by_key(|&place| {
                let peer = self.peers.get(place);
                peer.runnable_ns() / u64::from(peer.offer.workers.max(1))
            })
    }

    /// Tells that a peer has given back what it was asked for, as far as it could.
    pub fn peer_recalled(&mut self, peer: PeerId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_recalled = false;
        self.peers.settle(place, &self.config);
        self.demands.search.grow(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Tells that a peer has got what tasks there waited for: these can be given back from now on.
    pub fn peer_supplied(&mut self, peer: PeerId) {
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.change(place, &self.config, |peer| peer.is_dry = false);
    }

    /// Asks the peer that a task is with not to start it, once; false where it is to be stopped, or is with none.
    pub(crate) fn ask_back(&mut self, index: u32, port: &mut impl Port) -> bool {
        let task = &mut self.tasks[index];
        if task.state != State::Away || task.has(flag::CANCELLED) {
            return task.state == State::Away && task.has(flag::RECALLED);
        }
        task.flags |= flag::CANCELLED | flag::RECALLED;
        let (peer, attempt) = (PeerId(task.slot), task.attempt);
        port.withdraw_from_peer(peer, self.tasks.id(index), attempt);
        true
    }

    /// Tells that a peer has not withdrawn a task: it runs, or has ended.
    pub fn peer_kept(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        let Some(index) = self.find_away(peer, task, attempt) else { return };
        let task = &mut self.tasks[index];
        if task.has(flag::RECALLED) {
            task.flags &= !(flag::CANCELLED | flag::RECALLED);
        }
    }

    /// Whether a peer has yet to say if it will start a task that is to be cancelled.
    #[must_use]
    pub fn is_withdrawn(&self, id: TaskId) -> bool {
        let task = self.tasks.find(id).map(|index| &self.tasks[index]);
        task.is_some_and(|task| task.state == State::Away && task.has(flag::RECALLED))
    }

    /// Cancels up to `count` tasks that have certainly not started and that no task of this engine submitted, those that
    /// would run last first: whoever sent them has a better place. What an idle worker is about to begin stays, or tasks
    /// would be moved on for ever; unless all are wanted, `u32::MAX`.
    pub fn withdraw(&mut self, count: u32, now: u64, port: &mut impl Port) {
        self.now = now;
        let mut left = count as usize;
        let mut waiting = self.demands.queue.last(&self.tasks, left);
        waiting.append(&mut self.ready.last(&self.tasks, left - waiting.len()));
        let in_contexts = self.waiting_in_contexts(count == u32::MAX);
        waiting.extend(in_contexts.into_iter().rev().take(left - waiting.len()));
        for index in waiting {
            if !self.is_child(index) {
                self.unlist(index);
                self.finish(index, Status::Cancelled, Content::Empty, port);
                left -= 1;
            }
        }
        for slot in 0..self.live_end {
            let mut unclaimed = self.unclaimed(slot, port);
            let is_about_to_begin = unclaimed.len() == self.slots[slot].in_flight.len as usize;
            if is_about_to_begin && !unclaimed.is_empty() && count != u32::MAX {
                unclaimed.remove(0);
            }
            unclaimed.retain(|&index| !self.is_child(index));
            let wanted = &unclaimed[unclaimed.len().saturating_sub(left)..];
            let taken = self.recall(slot, wanted, port);
            left = left.saturating_sub(taken.len());
            for index in taken {
                self.finish(index, Status::Cancelled, Content::Empty, port);
            }
        }
        // What was given back may have made room for what was not.
        self.pump(port);
        self.wind_down(port);
    }

    /// What waits for workers with a context; but for what those that are coming are about to begin, unless all is wanted: one
    /// at least, which they come for.
    fn waiting_in_contexts(&self, are_all: bool) -> Vec<u32> {
        let mut waiting = Vec::new();
        for context in self.contexts.known() {
            let is_coming =
                |slot: &&Slot| slot.context == context && slot.state == SlotState::Starting;
            let coming = self.slots.iter().filter(is_coming).count();
            let kept = if are_all { 0 } else { coming.max(1) };
            waiting.extend(self.contexts.in_order(&self.tasks, Some(context)).iter().skip(kept));
        }
        waiting
    }

    /// Workers of peers that have nothing to do, while nothing waits here; up to some peers are counted.
    #[must_use]
    pub fn idle_capacity(&self) -> u32 {
        if !self.ready.is_empty() {
            return 0;
        }
        let first = self.peers.levels.first();
        std::iter::successors(first, |&place| self.peers.levels.next(place))
            .take(LOOKS_MAX)
            .map(|place| self.peers.get(place).idle_count())
            .fold(0, u32::saturating_add)
    }

    /// Workers of one peer that have nothing to do, as far as is known here.
    #[must_use]
    pub fn idle_at(&self, peer: PeerId) -> u32 {
        self.joined_peer(peer).map_or(0, |place| self.peers.get(place).idle_count())
    }

    /// Tasks that tasks here submitted and that wait for a worker.
    #[must_use]
    pub const fn nested_len(&self) -> u64 {
        self.nested_ready
    }

    /// Whether any peer could take a task now.
    #[must_use]
    pub fn has_open_peer(&self) -> bool {
        self.peers.levels.first().is_some_and(|place| self.peers.levels.of(place) != Level::Shut)
    }
}
