//! Tasks that are sent to the peer of their parents: to the peer that has all of their unfinished parents, before these
//! have ended.
//!
//! At that peer the parents' results are at hand when the task needs them, and a chain of tasks costs no network round
//! trips. If the peer has no room, the task waits in that peer's list: it is *following*. If its parents end first, it
//! becomes ready like any other task, for any worker.
//!
//! Two limits apply to a peer. A ready task may be sent while the peer has few runnable tasks; tasks that wait there for
//! their parents do not count. A task that would wait there may be sent while the peer has few tasks in all. Without the
//! second limit, a long chain would be sent ahead without end.
//!
//! The peer gives back a task that it could not run because a parent did not succeed there; that task is then blocked as
//! before.

use crate::place::Placed;
use crate::port::Port;
use crate::task::State;
use crate::{Core, NONE};

/// Largest number of parents for which the engine looks for a common peer.
const PARENTS_MAX: usize = 64;

impl Core {
    /// Blocks a task that is in no list and has unfinished parents. Sends it to the peer of its parents if one peer
    /// has all of them.
    pub(crate) fn block(&mut self, index: u32, port: &mut impl Port) {
        self.tasks[index].state = State::Blocked;
        self.blocked += 1;
        if self.peers.delegated > 0 && !self.config.shares_nested_only {
            self.follow(index, port);
            self.follow_shipped(port);
        }
    }

    /// Returns the peer that has every unfinished parent of a blocked task.
    fn peer_of_parents(&self, index: u32) -> Option<usize> {
        if self.batch(index).is_some() || self.is_demanding(index) {
            return None;
        }
        let mut found = None;
        let mut edge = self.tasks[index].first_parent;
        for _ in 0..PARENTS_MAX {
            if edge == NONE {
                return found;
            }
            let parent = &self.tasks[self.edges[edge].parent];
            edge = self.edges[edge].next_parent;
            if matches!(parent.state, State::Final | State::Returned) {
                continue;
            }
            let place = usize::from(parent.slot);
            if parent.state != State::Delegated || found.is_some_and(|other| other != place) {
                return None;
            }
            found = Some(place);
        }
        None
    }

    fn follow(&mut self, index: u32, port: &mut impl Port) {
        let Some(place) = self.peer_of_parents(index) else { return };
        let peer = self.peers.get(place);
        if !peer.is_joined || peer.is_draining {
            return;
        }
        let has_room = peer.followers.len == 0 && peer.has_room_to_wait(&self.config);
        if has_room && self.ship(place, index, port) {
            return;
        }
        let peer = self.peers.get_mut(place);
        peer.followers.push_back(&mut self.tasks, index);
        let task = &mut self.tasks[index];
        task.state = State::Following;
        task.slot = super::table::peer_id(place).0;
    }

    /// Sends a blocked task that is in no list to the peer of its parents. Returns false, and leaves the task blocked, if the
    /// peer's link is full.
    fn ship(&mut self, place: usize, index: u32, port: &mut impl Port) -> bool {
        self.tasks[index].state = State::Loose;
        self.blocked -= 1;
        if self.send_ahead(place, index, port) == Placed::Full {
            self.tasks[index].state = State::Blocked;
            self.blocked += 1;
            return false;
        }
        true
    }

    /// Sends the blocked dependants of each task that was just sent to a peer to the same peer, if they can follow.
    pub(crate) fn follow_shipped(&mut self, port: &mut impl Port) {
        while let Some(parent) = self.peers.shipped.pop() {
            if self.tasks[parent].state != State::Delegated {
                continue;
            }
            let mut dependants = Vec::new();
            let first = self.tasks[parent].first_dependant;
            let mut edge = first;
            while edge != NONE && dependants.len() < self.config.depth_max as usize {
                dependants.push(self.edges[edge].child);
                edge = self.edges[edge].next_dependant();
                if edge == first {
                    break;
                }
            }
            for child in dependants {
                if self.tasks[child].state == State::Blocked {
                    self.follow(child, port);
                }
            }
        }
    }

    /// Sends the tasks that follow a peer while the peer has room for them.
    pub(crate) fn pump_followers(&mut self, place: usize, port: &mut impl Port) {
        while self.peers.get(place).followers.len > 0
            && self.peers.get(place).has_room_to_wait(&self.config)
        {
            let index = self.peers.get(place).followers.head;
            self.cease_to_follow(index);
            if self.peer_of_parents(index) != Some(place) {
                continue;
            }
            if !self.ship(place, index, port) {
                break;
            }
            self.follow_shipped(port);
        }
    }

    /// Removes a task from the list of its parents' peer. The task is then blocked like any other.
    pub(crate) fn cease_to_follow(&mut self, index: u32) {
        let place = usize::from(self.tasks[index].slot);
        self.peers.get_mut(place).followers.remove(&mut self.tasks, index);
        self.tasks[index].state = State::Blocked;
        self.tasks[index].slot = u16::MAX;
    }

    /// Records that a delegated task, which was runnable, now waits for other tasks at its peer.
    pub(super) fn block_delegated(&mut self, index: u32) {
        let task = &self.tasks[index];
        let (place, cost) = (usize::from(task.slot), task.cost);
        self.peers.change(place, &self.config, |peer| peer.block(cost));
        self.peers.blocked += 1;
        self.count_share(place, index, false);
        self.note_room(place);
        if !self.peers.raised.is_unused() {
            self.cease_to_raise(place, index);
        }
    }

    /// Records that a delegated task no longer waits for other tasks at its peer.
    pub(crate) fn unblock_delegated(&mut self, index: u32) {
        let task = &self.tasks[index];
        let (place, cost) = (usize::from(task.slot), task.cost);
        self.peers.change(place, &self.config, |peer| peer.unblock(cost));
        self.peers.blocked -= 1;
        self.count_share(place, index, true);
        if self.priorities.is_used() {
            self.raise_unblocked(place, index);
        }
    }

    /// Makes a task that a peer did not run ready again, or blocks it if it was sent there before its parents ended.
    pub(crate) fn place_again(&mut self, index: u32, unfinished: u32, port: &mut impl Port) {
        if unfinished == 0 {
            return self.make_ready(index);
        }
        self.tasks[index].sequence = unfinished;
        self.block(index, port);
    }
}
