//! Where a task is, and what it waits for: for humans who ask why it does not run.

use gristmill_wire::{ContextId, Demand, PeerId, SlotId, TaskId};

use crate::contexts::PLAIN;
use crate::task::State;
use crate::{Core, NONE, Status};

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// It waits for other tasks.
    Blocked {
        /// How many of them have not ended.
        parents: u32,
        /// The first of these.
        first: TaskId,
    },
    /// It waits for a worker.
    Ready {
        /// Tasks that come before it.
        ahead: usize,
    },
    /// It waits for what it needs besides a worker.
    Demanding {
        /// What that is.
        demand: Demand,
        /// Demanding tasks that come before it.
        ahead: usize,
        /// Somebody has it all, if nobody else needed it.
        is_there: bool,
    },
    /// It waits for a worker with its context.
    InContext {
        /// Which.
        context: ContextId,
        /// Tasks in it that come before.
        ahead: usize,
        /// Workers that have it.
        workers: u32,
    },
    /// It waits for a worker, in the queue of the one whose task submitted it.
    Nested {
        /// That worker.
        slot: SlotId,
    },
    /// It is in a worker's ring: it runs, or soon will.
    Sent {
        /// Whose.
        slot: SlotId,
        /// Records before it.
        ahead: usize,
    },
    /// It is with a peer.
    Away {
        /// Which.
        peer: PeerId,
        /// Tasks that it was sent before and has not answered.
        ahead: usize,
        /// Tasks that it needs and that have not ended, which the peer has too.
        parents: u32,
    },
    /// It has returned at a peer, and its result is there until somebody asks for it.
    Returned {
        /// That peer.
        peer: PeerId,
    },
    /// It has its final state.
    Final(Status),
    /// Nobody knows it any more.
    Gone,
}

impl Core {
    /// Where a task is. Walks the queue that it is in.
    #[must_use]
    pub fn whereabouts(&self, id: TaskId) -> Whereabouts {
        let Some(index) = self.tasks.find(id) else { return Whereabouts::Gone };
        let task = &self.tasks[index];
        match task.state {
            State::Blocked | State::Following => Whereabouts::Blocked {
                parents: task.sequence,
                first: self.first_unfinished(index).map_or(id, |parent| self.tasks.id(parent)),
            },
            State::Ready if self.is_demanding(index) => {
                let before = self.demands.queue.iter(&self.tasks);
                let demand = self.needs(index);
                let is_there = self.config.workers > 0 || self.has_able_peer(&demand);
                let ahead = before.take_while(|&one| one != index).count();
                Whereabouts::Demanding { demand, ahead, is_there }
            }
            State::Ready if self.context_of(index) != PLAIN => {
                let context = self.context_of(index);
                let before = self.contexts.in_order(&self.tasks, Some(context)).into_iter();
                let ahead = before.take_while(|&one| one != index).count();
                let workers = self.staff(context).live;
                Whereabouts::InContext { context, ahead, workers }
            }
            State::Ready => {
                let before = self.ready.in_order(&self.tasks).into_iter();
                Whereabouts::Ready { ahead: before.take_while(|&one| one != index).count() }
            }
            State::Nested => Whereabouts::Nested { slot: SlotId(task.slot) },
            State::Sent => Whereabouts::Sent { slot: SlotId(task.slot), ahead: self.ahead(index) },
            State::Away => Whereabouts::Away {
                peer: PeerId(task.slot),
                ahead: self.ahead(index),
                parents: task.sequence,
            },
            State::Returned => Whereabouts::Returned { peer: PeerId(task.slot) },
            State::Final => Whereabouts::Final(task.status),
            State::Free | State::Promised | State::Loose => Whereabouts::Gone,
        }
    }

    /// How many are before a task in its list.
    fn ahead(&self, index: u32) -> usize {
        let before = |&one: &u32| Some(self.tasks[one].previous).filter(|&one| one != NONE);
        std::iter::successors(Some(index), before).count() - 1
    }

    fn first_unfinished(&self, index: u32) -> Option<u32> {
        let mut edge = self.tasks[index].first_parent;
        while edge != NONE {
            let parent = self.edges[edge].parent;
            if self.tasks[parent].state != State::Final {
                return Some(parent);
            }
            edge = self.edges[edge].next_parent;
        }
        None
    }
}
