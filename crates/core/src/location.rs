//! Task locations: answers to the user's question why a task does not run.

use gristmill_wire::{ContextId, PeerId, ResourceRequest, SlotId, TaskId};

use crate::contexts::PLAIN;
use crate::demands::Kinds;
use crate::task::State;
use crate::{Core, NONE, Status};

/// GPUs and memory that a task needs and that are in use in this engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenResources {
    /// The part of the task's demand that is not free.
    pub demand: ResourceRequest,
    /// True if other tasks have some of it.
    pub by_tasks: bool,
    /// True if workers with a context have some of it. They keep it while they have nothing to do.
    pub by_contexts: bool,
}

/// Location of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskLocation {
    /// The task waits for other tasks.
    Blocked {
        /// Number of these tasks that have not ended.
        parents: u32,
        /// The first of them.
        first: TaskId,
    },
    /// The task waits for a worker.
    Ready {
        /// Tasks that come before it.
        ahead: usize,
    },
    /// The task waits for resources besides a worker.
    Demanding {
        /// The resources that it needs.
        demand: ResourceRequest,
        /// Demanding tasks that come before it.
        ahead: usize,
        /// GPUs and memory of it that are in use here.
        taken: TakenResources,
        /// True if this engine or a peer has all of it, used or free.
        is_there: bool,
    },
    /// The task waits for a worker with its context.
    InContext {
        /// The context.
        context: ContextId,
        /// Tasks in the context that come before it.
        ahead: usize,
        /// Workers that have the context.
        workers: u32,
    },
    /// The task waits for a worker, in the queue of the worker whose task submitted it.
    Nested {
        /// Slot of that worker.
        slot: SlotId,
    },
    /// The task is in a worker's ring: it runs, or soon will.
    Sent {
        /// Slot of that worker.
        slot: SlotId,
        /// Records before it.
        ahead: usize,
    },
    /// The task is delegated to a peer.
    Delegated {
        /// The peer.
        peer: PeerId,
        /// Tasks that were sent to the peer before it and have no answer.
        ahead: usize,
        /// Parents that have not ended, which are delegated to the same peer.
        parents: u32,
    },
    /// The task has returned at a peer. The result stays there until it is asked for.
    Returned {
        /// The peer.
        peer: PeerId,
    },
    /// The task has its final state.
    Final(Status),
    /// The task is not known any more.
    Gone,
}

impl Core {
    /// Returns the location of a task. Walks the queue that the task is in.
    #[must_use]
    pub fn location(&self, id: TaskId) -> TaskLocation {
        let Some(index) = self.tasks.find(id) else { return TaskLocation::Gone };
        let task = &self.tasks[index];
        match task.state {
            State::Blocked | State::Following => TaskLocation::Blocked {
                parents: task.sequence,
                first: self.first_unfinished(index).map_or(id, |parent| self.tasks.id(parent)),
            },
            State::Ready if self.is_demanding(index) => {
                let before = self.demands.queue.iter(&self.tasks);
                let demand = self.demand(index);
                let is_here = self.config.workers > 0;
                let is_there = is_here || self.has_able_peer(&demand);
                let taken =
                    if is_here { self.taken(index, &demand) } else { TakenResources::default() };
                let ahead = before.take_while(|&one| one != index).count();
                TaskLocation::Demanding { demand, ahead, taken, is_there }
            }
            State::Ready if self.context_of(index) != PLAIN => {
                let context = self.context_of(index);
                let before = self.contexts.in_order(&self.tasks, Some(context)).into_iter();
                let ahead = before.take_while(|&one| one != index).count();
                if let Some(demand) = self.needs_of_context(context)
                    && self.config.workers == 0
                {
                    let is_there = self.has_able_peer(&demand);
                    let taken = TakenResources::default();
                    return TaskLocation::Demanding { demand, ahead, taken, is_there };
                }
                let workers = self.staff(context).live;
                TaskLocation::InContext { context, ahead, workers }
            }
            State::Ready => {
                let before = self.ready.in_order(&self.tasks).into_iter();
                TaskLocation::Ready { ahead: before.take_while(|&one| one != index).count() }
            }
            State::Nested => TaskLocation::Nested { slot: SlotId(task.slot) },
            State::Sent => TaskLocation::Sent { slot: SlotId(task.slot), ahead: self.ahead(index) },
            State::Delegated => TaskLocation::Delegated {
                peer: PeerId(task.slot),
                ahead: self.ahead(index),
                parents: task.sequence,
            },
            State::Returned => TaskLocation::Returned { peer: PeerId(task.slot) },
            State::Final => TaskLocation::Final(task.status),
            State::Free | State::Promised | State::Loose => TaskLocation::Gone,
        }
    }

    /// Returns the part of a task's demand that is in use.
    fn taken(&self, index: u32, demand: &ResourceRequest) -> TakenResources {
        let demand = self.demands.claims.short_of(demand);
        let kinds = Kinds::of(&demand);
        let has_some = |held: &ResourceRequest| Kinds::besides_places(held).meets(kinds);
        let mut holders = self.slots.iter().map(|slot| slot.holder);
        TakenResources {
            demand,
            by_tasks: holders.any(|one| one != NONE && one != index && has_some(&self.demand(one))),
            by_contexts: self.slots.iter().any(|slot| has_some(&slot.demand)),
        }
    }

    /// Returns how many tasks are before a task in its list.
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
