//! Tasks that need more than a worker: the places of several, memory, GPUs.
//!
//! They wait in a queue of their own. The first that could run *gathers* what it needs: memory and GPUs at once, a
//! worker's place as soon as that worker has nothing to do, and nothing new goes there meanwhile. So no stream of small
//! tasks keeps a wide one from running. While one gathers, no other does; what is short of one thing holds up only those
//! that need the same thing.

mod claims;
mod gather;
mod kinds;
mod near;
mod peers;
mod search;
mod starve;

use gristmill_wire::Demand;

pub use claims::Supply;
pub(crate) use claims::{Claim, Claims};
use kinds::KindCounts;
pub(crate) use kinds::Kinds;
pub use near::pick_near;
pub(crate) use peers::Taken;
use search::Search;

use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::task::{State, TaskTable};
use crate::{Core, NONE};

/// Tasks that are looked at for one that could run.
const LOOKS_MAX: usize = 64;

/// Those that wait, and what those that run have.
#[derive(Debug)]
pub(crate) struct Demands {
    pub queue: ReadyQueue,
    /// The one that gathers.
    pub first: u32,
    /// Places that those that wait need.
    pub wanted_places: u64,
    /// Places of those that run, beyond their own workers'.
    pub lent_places: u64,
    pub claims: Claims,
    /// What waits for contexts now: those wait that need it too.
    pub held_up: Kinds,
    /// When one got more than places last.
    pub served_at: u64,
    /// What those that wait ask for.
    kinds: KindCounts,
    /// The search for peers that have it.
    pub search: Search,
}

impl Demands {
    pub fn new(supply: &Supply) -> Self {
        Self {
            queue: ReadyQueue::new(),
            first: NONE,
            wanted_places: 0,
            lent_places: 0,
            claims: Claims::new(supply),
            held_up: Kinds::default(),
            served_at: 0,
            kinds: KindCounts::default(),
            search: Search::default(),
        }
    }

    /// The first of those that wait.
    pub fn waiting<'a>(&'a self, tasks: &'a TaskTable) -> impl Iterator<Item = u32> + 'a {
        self.queue.iter(tasks).take(LOOKS_MAX)
    }

    /// How many wait.
    pub const fn len(&self) -> u64 {
        self.queue.len() as u64
    }
}

impl Core {
    /// What a task needs besides a worker.
    pub(crate) fn demand(&self, index: u32) -> Demand {
        let extra = self.tasks[index].extra;
        if extra == NONE { Demand::NONE } else { self.extras[extra].demand }
    }

    /// The same, or what its context needs that some peer is to have.
    pub(crate) fn needs(&self, index: u32) -> Demand {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.config.workers > 0 {
            return self.demand(index);
        }
        self.needs_of_context(self.extras[extra].context).unwrap_or_else(|| self.demand(index))
    }

    /// Whether a task needs more than a worker, or its context does that some peer is to have.
    #[inline]
    pub(crate) fn is_demanding(&self, index: u32) -> bool {
        self.tasks[index].extra != NONE && !self.needs(index).is_none()
    }

    /// Puts a demanding task that is in no list behind the others, or in front.
    pub(crate) fn queue_demanding(&mut self, index: u32, is_first: bool) {
        let (priority, demand) = (self.priority(index), self.needs(index));
        let kinds = Kinds::of(&demand);
        self.tasks[index].state = State::Ready;
        self.demands.wanted_places += u64::from(demand.places());
        let is_last = !is_first && priority == 0 && self.demands.queue.is_plain();
        if !is_last || !self.demands.kinds.has(kinds) {
            // Else it is behind one that lacks what it would.
            self.demands.search.repeat();
        }
        self.demands.kinds.add(kinds);
        if is_first {
            self.demands.queue.push_front(&mut self.tasks, priority, index);
        } else {
            self.demands.queue.push_back(&mut self.tasks, priority, index);
        }
    }

    /// Takes a demanding task out of the queue, with all that it has gathered.
    pub(crate) fn leave_demanding(&mut self, index: u32) {
        self.dequeue_demanding(index);
        if self.demands.first == index {
            self.demands.first = NONE;
            self.end_claim(self.tasks[index].extra);
        }
    }

    fn dequeue_demanding(&mut self, index: u32) {
        let (priority, demand) = (self.priority(index), self.needs(index));
        self.demands.wanted_places -= u64::from(demand.places());
        self.demands.kinds.remove(Kinds::of(&demand));
        self.demands.search.repeat();
        self.contexts.note_news();
        self.demands.queue.remove(&mut self.tasks, priority, index);
    }

    /// Runs what can be run of the queue.
    pub(crate) fn pump_demanding(&mut self, port: &mut impl Port) {
        if self.config.workers > 0 {
            self.gather_all(port);
        } else {
            self.send_demanding(port);
        }
    }

    /// Asserts what must hold of claims between calls.
    pub(crate) fn audit_demands(&self) {
        let mut left = Claims::new(&self.config.supply);
        let (mut wanted, mut lent) = (0, 0);
        for index in (0..self.tasks.end()).filter(|&index| self.is_live(index)) {
            let demand = self.needs(index);
            if self.is_demanding(index) && self.tasks[index].state == State::Ready {
                wanted += u64::from(demand.places());
            }
            let Some(claim) = self.claim(index) else { continue };
            left.take(&demand, claim.devices);
            let holds = self.slots.iter().filter(|slot| slot.holder == index).count();
            if self.tasks[index].state == State::Sent {
                lent += u64::from(demand.places()) - 1;
                assert_eq!(holds, usize::from(demand.places()), "a running task has its places");
            } else {
                assert_eq!(self.demands.first, index, "only the first gathers");
            }
        }
        self.audit_equipment(&mut left);
        assert_eq!(left, self.demands.claims, "claims are what tasks and workers of contexts have");
        self.audit_search();
        assert_eq!((wanted, lent), (self.demands.wanted_places, self.demands.lent_places));
        for slot in self.slots.iter().filter(|slot| slot.holder != NONE) {
            assert!(self.claim(slot.holder).is_some(), "who holds a place has a claim");
            // What runs in its own place began in its wait.
            let is_run = self.tasks[slot.holder].state == State::Sent;
            let is_alone = slot.in_flight.len == 0 || slot.in_flight.head == slot.holder;
            assert!(!is_run || is_alone, "nobody else is where a task has its places");
        }
    }

    fn is_live(&self, index: u32) -> bool {
        !matches!(self.tasks[index].state, State::Free | State::Final)
    }
}
