//! Parts of the state machine, and the events besides tasks: start, poll, wake-up times.

use std::sync::Arc;

use gristmill_wire::{FunctionId, SlotId};

use crate::contexts::{ContextTable, PLAIN};
use crate::demands::Demands;
use crate::edges::Edge;
use crate::estimate::Estimate;
use crate::options::Extra;
use crate::peers::Peers;
use crate::port::{Port, TakeBackResult};
use crate::priority::Priorities;
use crate::queue::ReadyQueue;
use crate::slab::Slab;
use crate::slots::{Slot, SlotState};
use crate::starts::StartBackoff;
use crate::task::{State, TaskTable, flag};
use crate::timers::Timers;
use crate::{Block, Budgets, Config, StartFailure, Stats};

/// Life phase of the engine: decides which tasks are accepted.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Open,
    /// No more tasks from outside. Outstanding tasks run, or with `cancels` only those that had started.
    Closing {
        cancels: bool,
    },
    Broken(Arc<StartFailure>),
    Poisoned(Arc<str>),
}

/// State machine of a client. The documentation of the crate describes it.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    /// Time of the current call.
    pub(crate) now: u64,
    /// Time of the last call of [`Core::poll`].
    pub(crate) polled_at: u64,
    pub(crate) tasks: TaskTable,
    pub(crate) edges: Slab<Edge>,
    pub(crate) extras: Slab<Extra>,
    pub(crate) timers: Timers,
    pub(crate) functions: Vec<Estimate>,
    pub(crate) ns_per_tick: f32,
    pub(crate) ready: ReadyQueue,
    pub(crate) priorities: Priorities,
    pub(crate) slots: Vec<Slot>,
    pub(crate) contexts: ContextTable,
    pub(crate) demands: Demands,
    pub(crate) peers: Peers,
    /// Submission time of the newest task, clock ticks: each task's is later than all before it.
    pub(crate) submitted_last: u64,
    /// Slot that the last record went to.
    pub(crate) current: usize,
    pub(crate) counts: Stats,
    pub(crate) blocked: u64,
    pub(crate) in_flight: u64,
    /// Batches without a final state.
    pub(crate) batches: u32,
    /// Tasks for which the engine has to do more than take in the answer, for example stop a timer.
    pub(crate) owed: u32,
    /// Tasks in the slots' own queues.
    pub(crate) nested_ready: u64,
    /// Slots with two or more records in flight: something could be taken from them.
    pub(crate) deep_slots: u32,
    /// Slots whose workers were asked to leave and have not left.
    pub(crate) retiring_slots: u32,
    /// Slots whose worker runs a task that waits for other tasks.
    pub(crate) waiting_slots: u32,
    /// Slots of ordinary workers without a process.
    pub(crate) absent_slots: u32,
    /// Index after the last slot with a process. Loops over slots end here.
    pub(crate) live_end: usize,
    /// True if the caller is about to wait: its core is free.
    pub(crate) is_caller_waiting: bool,
    /// True if a task became ready other than by a submission: all slots must be looked at.
    pub(crate) has_fresh: bool,
    /// Backoff of the starts of workers without a context.
    pub(crate) starts: StartBackoff,
    /// Final tasks whose dependants were not updated yet: a worklist instead of recursion.
    pub(crate) settled: Vec<u32>,
    pub(crate) freed: Vec<Block>,
    /// Heap bytes in the arguments of outstanding tasks.
    pub(crate) argument_bytes: u64,
    pub(crate) sequences: Vec<u64>,
    pub(crate) taken: Vec<TakeBackResult>,
}

impl Core {
    /// Creates an engine without workers; [`Core::start`] asks for them.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.workers_min = config.workers_min.min(config.workers);
        config.depth_min = config.depth_min.max(1);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ns_per_tick = 1e9 / config.ticks_per_second as f32;
        Self {
            phase: Phase::Open,
            now: 0,
            polled_at: 0,
            tasks: TaskTable::new(),
            edges: Slab::new(),
            extras: Slab::new(),
            timers: Timers::new(),
            functions: Vec::new(),
            ns_per_tick,
            ready: ReadyQueue::new(),
            priorities: Priorities::default(),
            submitted_last: 0,
            slots: (0..config.slot_count()).map(|_| Slot::new()).collect(),
            contexts: ContextTable::new(config.workers > 0),
            demands: Demands::new(&config.supply),
            peers: Peers::default(),
            current: 0,
            counts: Stats::default(),
            blocked: 0,
            in_flight: 0,
            batches: 0,
            owed: 0,
            nested_ready: 0,
            deep_slots: 0,
            retiring_slots: 0,
            waiting_slots: 0,
            absent_slots: u32::from(config.workers),
            live_end: 0,
            is_caller_waiting: false,
            has_fresh: false,
            starts: StartBackoff::default(),
            settled: Vec::new(),
            freed: Vec::new(),
            argument_bytes: 0,
            sequences: Vec::new(),
            taken: Vec::new(),
            config,
        }
    }

    /// Starts the `workers_min` workers, which exist even without work.
    pub fn start(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.grow(port);
    }

    /// Performs all actions that depend on time: deadlines, timeouts, graces, restarts, and taking back tasks that wait
    /// behind a long task while a worker idles. Drain the results in the rings before calling this.
    pub fn poll(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.polled_at = now;
        self.fire_timers(port);
        self.end_unwanted(port);
        self.regain_trust();
        self.end_settling();
        for slot in &mut self.slots {
            slot.full = false;
        }
        self.end_leavers(port);
        self.retire_spares(port);
        self.unload_idle(port);
        self.pump(port);
        self.search_all_peers(port);
        self.search_shares(port);
        self.steal_from_long(port);
        self.bring_home(port);
        self.recall_from_peers(port);
        self.grow(port);
        self.wind_down(port);
    }

    /// Returns the latest time for the next call of [`Core::poll`]; `None` if no call is needed before another event.
    #[must_use]
    pub fn next_wake(&self, now: u64) -> Option<u64> {
        let mut wake = self.timers.first().map_or(u64::MAX, |(when, _)| when);
        if self.may_steal() {
            wake = wake.min(self.polled_at + self.config.steal_after_ns);
        }
        if self.ready_count() > 0 && self.live_slots().iter().any(|slot| slot.full) {
            wake = wake.min(self.polled_at + self.config.recheck_ns);
        }
        if self.wants_workers() {
            wake = wake.min(self.next_start(now));
        }
        // One by one: a loop over a list of these calls takes longer than the calls.
        let mut wake_at = |when: Option<u64>| wake = wake.min(when.unwrap_or(u64::MAX));
        wake_at(self.next_trust());
        wake_at(self.next_recall());
        wake_at(self.next_search());
        wake_at(self.next_settling());
        wake_at(self.next_starving());
        wake_at(self.next_deployment());
        wake_at(self.next_leaving());
        wake_at(self.next_share_search());
        wake_at(self.next_floor());
        if !self.peers.unwanted.is_empty() {
            return Some(now);
        }
        if let Some(since) = self.oldest_idle_spare() {
            wake = wake.min(since.saturating_add(self.config.spare_linger_ns));
        }
        (wake != u64::MAX).then_some(wake.max(now))
    }

    /// Returns true if draining and polling must go on even if no caller waits for a result: the outstanding work needs
    /// more than its answers.
    #[must_use]
    pub fn has_obligations(&self) -> bool {
        self.waiting_count() > 0
            || self.blocked > 0
            || self.owed > 0
            || self.priorities.is_used()
            || self.contexts.has_forgotten()
            || self.timers.len() > 0
            || self.could_steal()
            || self.retiring_slots > 0
            || self.peers.delegated > 0
            || self.wants_workers()
            || self.oldest_idle_spare().is_some()
            || (matches!(self.phase, Phase::Closing { .. }) && !self.is_empty())
    }

    /// Returns the budgets of tasks that set none.
    #[must_use]
    pub const fn budgets(&self) -> Budgets {
        self.config.budgets
    }

    /// Forgets the run times of a function whose id will be used for another function.
    pub fn forget_function(&mut self, function: FunctionId) {
        if let Some(estimate) = self.functions.get_mut(function.0 as usize) {
            *estimate = Estimate::unknown(&self.config);
        }
    }

    /// Returns the arena blocks of dropped payloads. The caller empties the list.
    pub const fn freed_blocks(&mut self) -> &mut Vec<Block> {
        &mut self.freed
    }

    /// Returns the number of task records in use: outstanding, or final and not released, or needed by another task.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.tasks.len()
    }

    /// Returns true if any task waits for a worker, or for the resources or the context that it needs besides.
    #[must_use]
    pub const fn has_ready(&self) -> bool {
        self.waiting_count() > 0
    }

    #[inline]
    pub(crate) const fn ready_count(&self) -> u64 {
        self.ready.len() as u64 + self.nested_ready
    }

    /// Returns the number of all tasks that wait for a worker: ready tasks, tasks that need more than a worker, and tasks with
    /// a context.
    #[inline]
    pub(crate) const fn waiting_count(&self) -> u64 {
        self.ready_count() + self.demands.len() + self.contexts.waiting()
    }

    pub(crate) fn set_state(&mut self, slot: usize, state: SlotState) {
        if state == SlotState::Absent {
            self.strip_worker(slot);
        }
        let before = std::mem::replace(&mut self.slots[slot].state, state);
        self.retiring_slots -= u32::from(before == SlotState::Retiring);
        self.retiring_slots += u32::from(state == SlotState::Retiring);
        if slot < usize::from(self.config.workers) {
            self.absent_slots -= u32::from(before == SlotState::Absent);
            self.absent_slots += u32::from(state == SlotState::Absent);
        }
        if state == SlotState::Absent {
            self.contexts.note_gone(self.slots[slot].context);
        } else {
            self.live_end = self.live_end.max(slot + 1);
        }
        while self.live_end > 0 && self.slots[self.live_end - 1].state == SlotState::Absent {
            self.live_end -= 1;
        }
    }

    /// Returns the slots up to the last one with a process.
    #[inline]
    pub(crate) fn live_slots(&self) -> &[Slot] {
        &self.slots[..self.live_end]
    }

    /// Asserts the invariants that hold between calls. Walks all records: for the simulation.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn audit(&self) {
        let (mut blocked, mut in_flight, mut live, mut owed) = (0, 0, 0, 0);
        for index in 0..self.tasks.end() {
            let task = &self.tasks[index];
            assert!(task.state != State::Loose, "a task is nowhere between calls");
            blocked += u64::from(matches!(task.state, State::Blocked | State::Following));
            in_flight += u64::from(task.state == State::Sent);
            owed += u32::from(task.extra != crate::NONE && self.extras[task.extra].is_owed);
            if !matches!(task.state, State::Free | State::Promised | State::Final) {
                live += u64::from(self.calls(index));
            }
            if task.state == State::Final && task.holds == 0 {
                assert!(!task.has(flag::RELEASED), "an unneeded record is freed");
            }
        }
        assert_eq!((blocked, in_flight), (self.blocked, self.in_flight), "counts of states");
        assert_eq!(owed, self.owed, "tasks with pending work");
        assert_eq!(live, self.counts.outstanding, "every live task is counted once");
        assert!(u64::from(self.extras.len()) <= live, "side records end with their tasks");
        assert!(self.timers.len() as u64 <= live, "timers end with their tasks");
        self.audit_slots();
        self.audit_contexts();
        self.audit_demands();
        self.audit_peers();
        self.audit_priorities();
        if live == 0 {
            assert_eq!(self.edges.len(), 0, "edges end with their tasks");
        }
    }

    /// Asserts the invariant that holds after [`Core::spread`], however many cores are free: for the simulation.
    ///
    /// # Panics
    /// If a task waits beside an idle worker.
    pub fn audit_spread(&self) {
        assert!(
            self.ready.is_empty() || !self.has_idle_worker(PLAIN) || !self.is_above_floor(PLAIN),
            "the caller waits, a worker idles"
        );
    }

    fn audit_slots(&self) {
        let sum = |count: fn(&Slot) -> u64| self.slots.iter().map(count).sum::<u64>();
        assert_eq!(sum(|slot| u64::from(slot.in_flight.len)), self.in_flight, "rings");
        assert_eq!(sum(|slot| u64::from(slot.nested.len())), self.nested_ready, "nested queues");
        assert_eq!(sum(|slot| u64::from(slot.is_deep())), u64::from(self.deep_slots));
        assert_eq!(sum(|slot| u64::from(slot.waiting > 0)), u64::from(self.waiting_slots));
        let retires = |slot: &Slot| u64::from(slot.state == SlotState::Retiring);
        assert_eq!(sum(retires), u64::from(self.retiring_slots));
        for slot in &self.slots {
            assert!(slot.in_flight.len > 0 || slot.backlog_ns == 0, "an empty ring has no backlog");
            let idle = slot.is_idle() && slot.is_open(&self.config);
            // True if an idle worker here is no error.
            let spare = self.ready.is_empty() || self.has_no_core_left() || slot.context != PLAIN;
            assert!(
                !idle || spare || self.is_unneeded_spare(slot),
                "nothing waits beside an idle worker"
            );
        }
    }

    fn is_unneeded_spare(&self, slot: &Slot) -> bool {
        let place = self.slots.iter().position(|other| std::ptr::eq(other, slot));
        place.is_some_and(|place| !self.is_usable(place))
    }
}

/// Returns the id of the slot with an index.
#[expect(clippy::cast_possible_truncation, reason = "slots are counted by two u16")]
pub(crate) const fn slot_id(slot: usize) -> SlotId {
    SlotId(slot as u16)
}
