//! Demanding tasks: those that need several CPU slots, memory or GPUs.
//!
//! They wait in a queue of their own. The first task that could run *gathers* what it needs: memory and GPUs at once, and
//! the CPU slot of a worker as soon as that worker is idle. No new task goes to a gathered slot meanwhile, so no stream
//! of small tasks keeps a wide one from running. Only one task gathers at a time. A task that lacks a resource holds up
//! only tasks that need the same kind.

mod claims;
mod gather;
mod kinds;
mod near;
mod peers;
mod search;
mod starve;

use gristmill_wire::ResourceRequest;

pub(crate) use claims::{FreeResources, GpuAllocation};
use kinds::KindCounts;
pub(crate) use kinds::Kinds;
pub use near::pick_near;
pub(crate) use peers::{PeerUsage, PeerUsageByPriority};
pub(crate) use search::Search;

use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::supply::Supply;
use crate::task::{State, TaskTable};
use crate::{Core, NONE};

/// Largest number of waiting tasks that are searched for one that could run.
const LOOKS_MAX: usize = 64;

/// The waiting demanding tasks, and the resources of those that run.
#[derive(Debug)]
pub(crate) struct Demands {
    pub queue: ReadyQueue,
    /// The task that gathers.
    pub first: u32,
    /// CPU slots that the waiting tasks need.
    pub wanted_places: u64,
    /// CPU slots of the running tasks beyond those of their own workers.
    pub lent_places: u64,
    pub claims: FreeResources,
    /// Kinds of resources for which contexts wait now: tasks that need these wait too.
    pub held_up: Kinds,
    /// Time when a task last got more than CPU slots.
    pub served_at: u64,
    /// Kinds of resources that the waiting tasks request.
    kinds: KindCounts,
    /// The search for peers that have these resources.
    pub search: Search,
}

impl Demands {
    pub fn new(supply: &Supply) -> Self {
        Self {
            queue: ReadyQueue::new(),
            first: NONE,
            wanted_places: 0,
            lent_places: 0,
            claims: FreeResources::new(supply),
            held_up: Kinds::default(),
            served_at: 0,
            kinds: KindCounts::default(),
            search: Search::default(),
        }
    }

    /// Returns the first of the waiting tasks.
    pub fn waiting<'a>(&'a self, tasks: &'a TaskTable) -> impl Iterator<Item = u32> + 'a {
        self.queue.iter(tasks).take(LOOKS_MAX)
    }

    /// Returns the number of waiting tasks.
    pub const fn len(&self) -> u64 {
        self.queue.len() as u64
    }
}

impl Core {
    /// Returns the resources that a task needs besides a worker.
    pub(crate) fn demand(&self, index: u32) -> ResourceRequest {
        let extra = self.tasks[index].extra;
        if extra == NONE { ResourceRequest::NONE } else { self.extras[extra].demand }
    }

    /// Returns true if a task needs more than a worker.
    #[inline]
    pub(crate) fn is_demanding(&self, index: u32) -> bool {
        let extra = self.tasks[index].extra;
        extra != NONE && !self.extras[extra].demand.is_none()
    }

    /// Adds a demanding task that is in no list to the queue: at the end, or at the front if `is_first` is set.
    pub(crate) fn queue_demanding(&mut self, index: u32, is_first: bool) {
        let (priority, demand) = (self.priority(index), self.demand(index));
        let kinds = Kinds::of(&demand);
        self.tasks[index].state = State::Ready;
        self.demands.wanted_places += u64::from(demand.places());
        let is_last = !is_first && priority == 0 && self.demands.queue.is_plain();
        if !is_last || !self.demands.kinds.has(kinds) {
            // Otherwise the task is behind one that lacks the same resources.
            self.demands.search.repeat();
        }
        self.demands.kinds.add(kinds);
        if is_first {
            self.demands.queue.push_front(&mut self.tasks, priority, index);
        } else {
            self.demands.queue.push_back(&mut self.tasks, priority, index);
        }
    }

    /// Removes a demanding task from the queue, and releases all that it has gathered.
    pub(crate) fn leave_demanding(&mut self, index: u32) {
        self.dequeue_demanding(index);
        if self.demands.first == index {
            self.demands.first = NONE;
            self.end_claim(self.tasks[index].extra);
        }
    }

    fn dequeue_demanding(&mut self, index: u32) {
        let (priority, demand) = (self.priority(index), self.demand(index));
        self.demands.wanted_places -= u64::from(demand.places());
        self.demands.kinds.remove(Kinds::of(&demand));
        self.demands.search.repeat();
        self.contexts.mark_changed();
        self.demands.queue.remove(&mut self.tasks, priority, index);
    }

    /// Runs the queued tasks that can run.
    pub(crate) fn pump_demanding(&mut self, port: &mut impl Port) {
        if self.config.workers > 0 {
            self.gather_all(port);
        } else {
            self.send_demanding(port);
        }
    }

    /// Asserts the invariants of claims between calls.
    pub(crate) fn audit_demands(&self) {
        let mut left = FreeResources::new(&self.config.supply);
        let (mut wanted, mut lent) = (0, 0);
        for index in (0..self.tasks.end()).filter(|&index| self.is_live(index)) {
            let demand = self.demand(index);
            if self.is_demanding(index) && self.tasks[index].state == State::Ready {
                wanted += u64::from(demand.places());
            }
            let Some(claim) = self.claim(index) else { continue };
            left.take(&demand, claim.devices);
            let holds = self.slots.iter().filter(|slot| slot.holder == index).count();
            if self.tasks[index].state == State::Sent {
                lent += u64::from(demand.places()) - 1;
                assert_eq!(holds, usize::from(demand.places()), "a running task has its CPU slots");
            } else {
                assert_eq!(self.demands.first, index, "only the first gathers");
            }
        }
        self.audit_grants(&mut left);
        assert_eq!(left, self.demands.claims, "claims are what tasks and workers of contexts have");
        self.audit_search();
        assert_eq!((wanted, lent), (self.demands.wanted_places, self.demands.lent_places));
        for slot in self.slots.iter().filter(|slot| slot.holder != NONE) {
            assert!(
                self.claim(slot.holder).is_some(),
                "a worker that holds a CPU slot has a claim"
            );
            // Tasks that run in the holder's own slot started while the holder waited.
            let is_run = self.tasks[slot.holder].state == State::Sent;
            let is_alone = slot.in_flight.len == 0 || slot.in_flight.head == slot.holder;
            assert!(!is_run || is_alone, "no other worker has the CPU slots of a task");
        }
    }

    pub(crate) fn is_live(&self, index: u32) -> bool {
        !matches!(self.tasks[index].state, State::Free | State::Final)
    }
}
