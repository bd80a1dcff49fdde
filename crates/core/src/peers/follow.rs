//! Tasks that go where their parents are: to the peer that has all of those that are unfinished, before these have ended.
//!
//! There the result is at hand when it is needed, and a chain costs no way through the network. A task whose peer has no
//! room waits in that peer's list, *following*; when its parents end first it is ready like any other, for any worker.
//! What waits at a peer leaves its room to tasks that are ready: against these counts only what could run. Whether one
//! more may wait there is a question of all that it has, or a long chain would go ahead without end.
//! The peer gives back what it could not run because a parent came to nothing there: then it is blocked as before.

use crate::place::Placed;
use crate::port::Port;
use crate::task::State;
use crate::{Core, NONE};

/// Parents above which nobody looks where they all are.
const PARENTS_MAX: usize = 64;

impl Core {
    /// Blocks a task that is in no list and has unfinished parents, and sends it after them if they are all with one
    /// peer.
    pub(crate) fn block(&mut self, index: u32, port: &mut impl Port) {
        self.tasks[index].state = State::Blocked;
        self.blocked += 1;
        if self.peers.away > 0 && !self.config.shares_nested_only {
            self.follow(index, port);
            self.follow_shipped(port);
        }
    }

    /// The peer that has every unfinished parent of a blocked task.
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
            if parent.state != State::Away || found.is_some_and(|other| other != place) {
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

    /// Sends a blocked task, in no list, after its parents; false: it is where it was.
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

    /// Looks at the dependants of tasks that were sent to peers just now: they may follow.
    pub(crate) fn follow_shipped(&mut self, port: &mut impl Port) {
        while let Some(parent) = self.peers.shipped.pop() {
            if self.tasks[parent].state != State::Away {
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

    /// Sends what follows a peer, as far as it has room.
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

    /// Takes a task out of the list of its parents' peer: it is blocked like any other.
    pub(crate) fn cease_to_follow(&mut self, index: u32) {
        let place = usize::from(self.tasks[index].slot);
        self.peers.get_mut(place).followers.remove(&mut self.tasks, index);
        self.tasks[index].state = State::Blocked;
        self.tasks[index].slot = u16::MAX;
    }

    /// Notes that a task which is away waits for others there, as it did not before.
    pub(super) fn block_away(&mut self, index: u32) {
        let task = &self.tasks[index];
        let (place, cost) = (usize::from(task.slot), task.cost);
        self.peers.change(place, &self.config, |peer| peer.block(cost));
        self.demands.search.grow(place);
    }

    /// Notes that a task which is away waits for others there no more.
    pub(crate) fn unblock_away(&mut self, index: u32) {
        let task = &self.tasks[index];
        let (place, cost) = (usize::from(task.slot), task.cost);
        self.peers.change(place, &self.config, |peer| peer.unblock(cost));
    }

    /// Makes a task that a peer did not run ready again, or blocks it if it had gone there before its parents' ends.
    pub(crate) fn place_again(&mut self, index: u32, unfinished: u32, port: &mut impl Port) {
        if unfinished == 0 {
            return self.make_ready(index);
        }
        self.tasks[index].sequence = unfinished;
        self.block(index, port);
    }
}
