//! The machine's parts, and what drives it besides tasks: start, poll, wake-up times.

use std::sync::Arc;

use gristmill_wire::{FunctionId, SlotId};

use crate::contexts::{Contexts, PLAIN};
use crate::demands::Demands;
use crate::edges::Edge;
use crate::estimate::Estimate;
use crate::options::Extra;
use crate::peers::Peers;
use crate::port::{Port, TakeBack};
use crate::queue::ReadyQueue;
use crate::slab::Slab;
use crate::slots::{Slot, SlotState};
use crate::starts::Starts;
use crate::task::{State, TaskTable, flag};
use crate::timers::Timers;
use crate::{Block, Budgets, Config, StartFailure, Stats};

/// Whether tasks are accepted.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Open,
    /// No more from outside; what is there runs, or only what had started.
    Closing {
        cancels: bool,
    },
    Broken(Arc<StartFailure>),
    Poisoned(Arc<str>),
}

/// The machine. See the crate's documentation.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    /// The time of the current call.
    pub(crate) now: u64,
    /// When [`Core::poll`] was called last.
    pub(crate) polled_at: u64,
    pub(crate) tasks: TaskTable,
    pub(crate) edges: Slab<Edge>,
    pub(crate) extras: Slab<Extra>,
    pub(crate) timers: Timers,
    pub(crate) functions: Vec<Estimate>,
    pub(crate) ns_per_tick: f32,
    pub(crate) ready: ReadyQueue,
    pub(crate) slots: Vec<Slot>,
    pub(crate) contexts: Contexts,
    pub(crate) demands: Demands,
    pub(crate) peers: Peers,
    /// Where the last record went.
    pub(crate) current: usize,
    pub(crate) counts: Stats,
    pub(crate) blocked: u64,
    pub(crate) in_flight: u64,
    /// Batches without a final state.
    pub(crate) batches: u32,
    /// Tasks for which more is to be done than to take in their answers, by their side records.
    pub(crate) owed: u32,
    /// Tasks in the slots' own queues.
    pub(crate) nested_ready: u64,
    /// Slots with two or more in flight: something could be taken from them.
    pub(crate) deep_slots: u32,
    /// Slots whose workers were asked to leave and are there.
    pub(crate) retiring_slots: u32,
    /// Slots whose stack waits.
    pub(crate) waiting_slots: u32,
    /// Slots of ordinary workers without a process.
    pub(crate) absent_slots: u32,
    /// One past the last slot with a process: what is beyond need not be looked at.
    pub(crate) live_end: usize,
    /// Whoever calls is about to wait: its core is free.
    pub(crate) is_caller_waiting: bool,
    /// Something became ready other than by a submission: all slots are to be looked at.
    pub(crate) has_fresh: bool,
    /// Starts of workers without a context.
    pub(crate) starts: Starts,
    /// Final tasks whose dependants have not been told: a worklist instead of recursion.
    pub(crate) settled: Vec<u32>,
    pub(crate) freed: Vec<Block>,
    pub(crate) sequences: Vec<u64>,
    pub(crate) taken: Vec<TakeBack>,
}

impl Core {
    /// An engine without workers; [`Core::start`] asks for them.
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
            slots: (0..config.slot_count()).map(|_| Slot::new()).collect(),
            contexts: Contexts::default(),
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
            starts: Starts::default(),
            settled: Vec::new(),
            freed: Vec::new(),
            sequences: Vec::new(),
            taken: Vec::new(),
            config,
        }
    }

    /// Asks for the workers that are kept without work.
    pub fn start(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.grow(port);
    }

    /// Does what time asks for: deadlines, timeouts, graces, restarts, and what waits behind a long
    /// task while a worker idles. Results that are in the rings should have been drained before.
    pub fn poll(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.polled_at = now;
        self.fire_timers(port);
        self.end_unwanted(port);
        self.regain_trust();
        for slot in &mut self.slots {
            slot.full = false;
        }
        self.end_leavers(port);
        self.retire_spares(port);
        self.unload_idle(port);
        self.pump(port);
        self.search_all_peers(port);
        self.steal_from_long(port);
        self.bring_home(port);
        self.recall_from_peers(port);
        self.grow(port);
        self.wind_down(port);
    }

    /// When [`Core::poll`] has something to do, at the latest; `None`: not before another call.
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
        let asked = [self.next_trust(), self.next_recall(), self.next_search()];
        for when in asked
            .into_iter()
            .chain([self.next_starving(), self.next_deployment(), self.next_leaving()])
            .flatten()
        {
            wake = wake.min(when);
        }
        if !self.peers.unwanted.is_empty() {
            return Some(now);
        }
        if let Some(since) = self.oldest_idle_spare() {
            wake = wake.min(since.saturating_add(self.config.spare_linger_ns));
        }
        (wake != u64::MAX).then_some(wake.max(now))
    }

    /// Whether somebody must keep draining and polling even if no caller waits for a result: what
    /// is outstanding needs more than its answers.
    #[must_use]
    pub fn has_obligations(&self) -> bool {
        self.waiting_count() > 0
            || self.blocked > 0
            || self.owed > 0
            || self.contexts.has_forgotten()
            || self.timers.len() > 0
            || self.could_steal()
            || self.retiring_slots > 0
            || self.peers.away > 0
            || self.wants_workers()
            || self.oldest_idle_spare().is_some()
            || (matches!(self.phase, Phase::Closing { .. }) && !self.is_empty())
    }

    /// How often a task is repeated that says nothing of it.
    #[must_use]
    pub const fn budgets(&self) -> Budgets {
        self.config.budgets
    }

    /// Forgets what was learned of a function whose id will be used for another.
    pub fn forget_function(&mut self, function: FunctionId) {
        if let Some(estimate) = self.functions.get_mut(function.0 as usize) {
            *estimate = Estimate::unknown(&self.config);
        }
    }

    /// The arena blocks of payloads that were dropped since this was emptied last; the caller
    /// empties it.
    pub const fn freed_blocks(&mut self) -> &mut Vec<Block> {
        &mut self.freed
    }

    /// Tasks whose records are in use: outstanding, or final and not released, or needed by
    /// another.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.tasks.len()
    }

    /// Whether tasks are ready for which no worker has room.
    #[must_use]
    pub const fn has_ready(&self) -> bool {
        self.waiting_count() > 0
    }

    #[inline]
    pub(crate) const fn ready_count(&self) -> u64 {
        self.ready.len() as u64 + self.nested_ready
    }

    /// Those that need more than a worker, or one with a context, too.
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

    /// The slots up to the last one with a process.
    #[inline]
    pub(crate) fn live_slots(&self) -> &[Slot] {
        &self.slots[..self.live_end]
    }

    /// Asserts what must hold between calls. Walks everything: for the simulation.
    ///
    /// # Panics
    /// When the machine is broken.
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
                assert!(!task.has(flag::RELEASED), "a record that nobody needs is freed");
            }
        }
        assert_eq!((blocked, in_flight), (self.blocked, self.in_flight), "counts of states");
        assert_eq!(owed, self.owed, "tasks for which more is to be done");
        assert_eq!(live, self.counts.outstanding, "every live task is counted once");
        assert!(u64::from(self.extras.len()) <= live, "side records end with their tasks");
        assert!(self.timers.len() as u64 <= live, "timers end with their tasks");
        self.audit_slots();
        self.audit_contexts();
        self.audit_demands();
        self.audit_peers();
        if live == 0 {
            assert_eq!(self.edges.len(), 0, "edges end with their tasks");
        }
    }

    /// Asserts what must hold after [`Core::spread`], whatever the cores: for the simulation.
    ///
    /// # Panics
    /// When something waits beside an idle worker.
    pub fn audit_spread(&self) {
        assert!(
            self.ready.is_empty() || !self.has_idle_worker(PLAIN),
            "the caller waits, a worker idles"
        );
    }

    fn audit_slots(&self) {
        let sum = |count: fn(&Slot) -> u64| self.slots.iter().map(count).sum::<u64>();
        assert_eq!(sum(|slot| u64::from(slot.in_flight.len)), self.in_flight, "rings");
        assert_eq!(sum(|slot| u64::from(slot.nested.len)), self.nested_ready, "nested queues");
        assert_eq!(sum(|slot| u64::from(slot.is_deep())), u64::from(self.deep_slots));
        assert_eq!(sum(|slot| u64::from(slot.waiting > 0)), u64::from(self.waiting_slots));
        let retires = |slot: &Slot| u64::from(slot.state == SlotState::Retiring);
        assert_eq!(sum(retires), u64::from(self.retiring_slots));
        for slot in &self.slots {
            assert!(slot.in_flight.len > 0 || slot.backlog_ns == 0, "an empty ring has no backlog");
            let idle = slot.is_idle() && slot.is_open(&self.config);
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

/// The id of the slot at a place.
#[expect(clippy::cast_possible_truncation, reason = "slots are counted by two u16")]
pub(crate) const fn slot_id(slot: usize) -> SlotId {
    SlotId(slot as u16)
}
