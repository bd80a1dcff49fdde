//! Balance between peers: recalls of tasks while one peer is idle and another has more than its workers run.

use gristmill_wire::{Attempt, PeerId, TaskId};

use super::levels::Level;
use super::place::recall_pause_ns;
use super::table::peer_id;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::task::{State, flag};
use crate::{Core, Status, TaskContent};

/// Largest number of peers that a search for the one with the most work looks at: its cost does not grow with their
/// number.
pub(super) const LOOKS_MAX: usize = 64;

impl Core {
    /// Returns true if a peer is idle while tasks wait at another peer, and no task waits here for room.
    pub(crate) fn may_recall(&self) -> bool {
        self.peers.deep > 0 && self.peers.levels.has_idle() && !self.waits_for_room()
    }

    /// Returns when [`Core::poll`] should recall tasks from a peer; `None` if it should not.
    pub(crate) fn next_recall(&self) -> Option<u64> {
        self.may_recall().then(|| self.peers.recalled_at + recall_pause_ns(&self.config, 0))
    }

    /// Asks the peer with the most work for half of the tasks that wait there.
    pub(crate) fn recall_from_peers(&mut self, port: &mut impl Port) {
        let is_due = self.next_recall().is_some_and(|when| when <= self.now);
        if !is_due {
            return;
        }
        self.peers.recalled_at = self.now;
        let Some(place) = self.deepest_peer() else { return };
        let peer = self.peers.get(place);
        let waiting = peer.runnable() - peer.offer.workers;
        self.recall_from_peer(place, waiting.div_ceil(2).min(self.config.steal_max), port);
    }

    /// Asks a peer for up to `count` tasks that have not started there.
    pub(super) fn recall_from_peer(&mut self, place: usize, count: u32, port: &mut impl Port) {
        self.peers.change(place, &self.config, |peer| {
            peer.is_recalled = true;
            peer.is_dry = true;
        });
        port.recall_from_peer(peer_id(place), count);
    }

    /// Asks every peer for all tasks that have not started there.
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

    /// Returns true if some peer that has tasks was asked for them and has not yet reported that these were all.
    #[must_use]
    pub fn is_recalling(&self) -> bool {
        let mut peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        peers.any(|peer| peer.is_recalled && peer.in_flight.len > 0)
    }

    /// Returns the peer with the most work for each worker, of those that were not asked already. Looks at a limited
    /// number of peers, in turns.
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

    /// Records that a peer has given back all that it could of the tasks that it was asked for.
    pub fn peer_recalled(&mut self, peer: PeerId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.get_mut(place).is_recalled = false;
        self.peers.settle(place, &self.config);
        self.note_room(place);
        self.pump(port);
        self.pump_followers(place, port);
    }

    /// Records that a peer has received what tasks there waited for: these can be given back from now on.
    pub fn peer_supplied(&mut self, peer: PeerId) {
        let Some(place) = self.joined_peer(peer) else { return };
        self.peers.change(place, &self.config, |peer| peer.is_dry = false);
    }

    /// Asks a task's peer once not to start the task. Returns false if the task must be stopped or is with no peer.
    pub(crate) fn ask_back(&mut self, index: u32, port: &mut impl Port) -> bool {
        let task = &mut self.tasks[index];
        if task.state != State::Delegated || task.has(flag::CANCELLED) {
            return task.state == State::Delegated && task.has(flag::RECALLED);
        }
        task.flags |= flag::CANCELLED | flag::RECALLED;
        self.peers.withdrawn_at = self.now;
        let (peer, attempt) = (PeerId(task.slot), task.attempt);
        port.withdraw_from_peer(peer, self.tasks.id(index), attempt);
        true
    }

    /// Records that a peer has not withdrawn a task: the task runs, or has ended.
    pub fn peer_kept_task(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(index) = self.find_delegated(peer, task, attempt) else { return };
        let task = &mut self.tasks[index];
        if task.has(flag::RECALLED) {
            task.flags &= !(flag::CANCELLED | flag::RECALLED);
        }
        if self.cease_to_raise(usize::from(peer.0), index) {
            self.pump(port);
        }
    }

    /// Returns true if a peer was asked not to start a task and has not yet said whether it will.
    #[must_use]
    pub fn is_withdrawn(&self, id: TaskId) -> bool {
        let task = self.tasks.find(id).map(|index| &self.tasks[index]);
        task.is_some_and(|task| task.state == State::Delegated && task.has(flag::RECALLED))
    }

    /// Cancels up to `count` tasks that have certainly not started and that no task of this engine submitted, starting
    /// with those that would run last: the peer that sent them can place them better. The first task that the floor of an
    /// idle worker admits stays, because that worker is about to start it: otherwise tasks could be moved between peers
    /// forever. With `u32::MAX` all are cancelled, including those that wait for other tasks.
    pub fn withdraw(&mut self, count: u32, now: u64, port: &mut impl Port) {
        self.now = now;
        if count == u32::MAX {
            self.withdraw_blocked(port);
        }
        let mut left = count as usize;
        let mut waiting = self.demands.queue.last(&self.tasks, left);
        waiting.append(&mut self.ready.last(&self.tasks, left - waiting.len()));
        let in_contexts = self.waiting_in_contexts(count == u32::MAX);
        waiting.extend(in_contexts.into_iter().rev().take(left - waiting.len()));
        for index in waiting {
            if !self.is_child(index) {
                self.unlist(index);
                self.finish(index, Status::Cancelled, TaskContent::Empty, port);
                left -= 1;
            }
        }
        for slot in 0..self.live_end {
            let mut unclaimed = self.unclaimed(slot, port);
            let is_about_to_begin = unclaimed.len() == self.slots[slot].in_flight.len as usize;
            if is_about_to_begin && !unclaimed.is_empty() && count != u32::MAX {
                let floor = self.slots[slot].floor;
                let next = unclaimed.iter().position(|&index| self.priority(index) >= floor);
                unclaimed.remove(next.unwrap_or(0));
            }
            unclaimed.retain(|&index| !self.is_child(index));
            let wanted = &unclaimed[unclaimed.len().saturating_sub(left)..];
            let taken = self.recall(slot, wanted, port);
            left = left.saturating_sub(taken.len());
            for index in taken {
                self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            }
        }
        // The tasks that were given back may have made room for the others.
        self.pump(port);
        self.wind_down(port);
    }

    /// Cancels all tasks that wait for other tasks and that no task of this engine submitted.
    fn withdraw_blocked(&mut self, port: &mut impl Port) {
        for index in 0..self.tasks.end() {
            if self.blocked == 0 {
                break;
            }
            let is_blocked = matches!(self.tasks[index].state, State::Blocked | State::Following);
            if is_blocked && !self.is_child(index) {
                self.unlist(index);
                self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            }
        }
    }

    /// Returns the tasks that wait for workers with a context. Unless `are_all` is set, leaves out for each context as
    /// many tasks as workers with it are starting, and at least one, because these workers are about to run them.
    fn waiting_in_contexts(&self, are_all: bool) -> Vec<u32> {
        let mut waiting = Vec::new();
        for context in self.contexts.known() {
            let is_coming =
                |slot: &&Slot| slot.context == context && slot.state == SlotState::Starting;
            let coming = self.slots.iter().filter(is_coming).count();
            let kept = if are_all || self.config.workers == 0 { 0 } else { coming.max(1) };
            waiting.extend(self.contexts.in_order(&self.tasks, Some(context)).iter().skip(kept));
        }
        waiting
    }

    /// Returns the number of idle workers of peers; 0 if a task waits here. Counts the workers of a limited number of
    /// peers.
    #[must_use]
    pub fn idle_capacity(&self) -> u32 {
        if self.waits_for_room() {
            return 0;
        }
        let first = self.peers.levels.first();
        std::iter::successors(first, |&place| self.peers.levels.next(place))
            .take(LOOKS_MAX)
            .map(|place| self.peers.get(place).idle_count())
            .fold(0, u32::saturating_add)
    }

    /// Returns the number of workers of all peers that have joined.
    #[must_use]
    pub fn peer_workers(&self) -> u32 {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        let joined = peers.filter(|peer| peer.is_joined);
        joined.map(|peer| peer.offer.workers).fold(0, u32::saturating_add)
    }

    /// Returns the number of workers of one peer that this engine expects to be idle.
    #[must_use]
    pub fn idle_at(&self, peer: PeerId) -> u32 {
        self.joined_peer(peer).map_or(0, |place| self.peers.get(place).idle_count())
    }

    /// Returns the number of tasks that tasks here submitted and that wait for a worker.
    #[must_use]
    pub const fn nested_len(&self) -> u64 {
        self.nested_ready
    }

    /// Returns true if any peer could take a task now.
    #[must_use]
    pub fn has_open_peer(&self) -> bool {
        self.peers.levels.first().is_some_and(|place| self.peers.levels.of(place) != Level::Shut)
    }
}
