//! Contexts: workers that keep what functions need, so that it is set up once instead of with each call.
//!
//! A worker has one context for as long as it lives, or none. A task that names a context runs on workers that have it,
//! and waits in the context's own queue; every other task runs on workers without a context. The number of workers of
//! each context depends on the tasks that wait: see `deploy`. An engine without workers of its own has such queues too,
//! and sends the tasks in them to peers: see `peers::shares`.
//!
//! Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining
//! Reusable Context in Workflow Systems", sections 3.4 and 3.5.

mod deploy;
mod fair;
mod grants;
mod life;
mod pools;
mod preemption;
mod retain;
mod start_queue;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gristmill_wire::{ContextId, ResourceRequest};

use self::start_queue::{StartEligibility, StartQueues};
use crate::outcome::TaskContent;
use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::slots::Slot;
use crate::starts::StartBackoff;
use crate::stats::ContextStats;
use crate::task::{State, TaskTable};
use crate::{Core, NONE, StartFailure, Status};

/// The id of no context.
pub(crate) const PLAIN: ContextId = ContextId(0);

/// Rank of a context whose tasks wait for peers, or of the tasks without a context: by the highest priority, then by the
/// fewest tasks at peers.
pub(crate) type ContextRank = (Reverse<i32>, u64, ContextId);

/// Options of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextOptions {
    /// Largest number of workers that have it at the same time.
    pub workers_max: u16,
    /// Time that it is kept while it is unused, nanoseconds.
    pub linger_ns: u64,
    /// Resources of each of its workers, including the number of CPU slots, for the life of the worker.
    pub demand: ResourceRequest,
}

/// State of a context.
#[derive(Debug)]
pub(crate) struct Context {
    options: ContextOptions,
    queue: ReadyQueue,
    /// The slot that got the last record.
    current: usize,
    starts: StartBackoff,
    /// True if one of its workers came up: others will too, and soon.
    is_proven: bool,
    /// The reason why no worker can have it; its tasks are refused.
    failure: Option<Arc<StartFailure>>,
    /// Time when a worker with it was last requested.
    served_at: u64,
    /// Tasks that name it and are not final.
    tasks: u64,
    /// Those of its tasks that are runnable at peers.
    delegated: u64,
    /// Its rank while its tasks wait for peers.
    turn: Option<ContextRank>,
    /// Its state while its tasks wait for workers here.
    place: Option<StartEligibility>,
    /// True if no task will name it any more.
    is_forgotten: bool,
    /// True if some process has it, or will have it.
    is_resident: bool,
    /// Memory that its processes take together, bytes; 0 if that is unknown.
    memory: u64,
    /// Time when its last task ended.
    used_at: u64,
    /// Time when it is unloaded, if it is unused.
    idle_until: Option<u64>,
    stats: ContextStats,
}

/// All contexts.
#[derive(Debug, Default)]
pub(crate) struct ContextTable {
    table: BTreeMap<ContextId, Context>,
    /// Processes that have a context, including those of forgotten contexts.
    workers: u32,
    /// Tasks in the queues of contexts.
    waiting: u64,
    /// Waiting tasks whose contexts need nothing but workers.
    waiting_for_workers: u64,
    /// Ranks of contexts whose tasks wait for peers. Kept only in an engine without workers of its own.
    turns: BTreeSet<ContextRank>,
    are_turns_kept: bool,
    /// Contexts whose tasks wait for workers here.
    lines: StartQueues,
    /// Unused contexts that take memory, by the time when they are unloaded.
    idle: BTreeSet<(u64, ContextId)>,
    /// Number of contexts that decisions have looked at.
    looks: u64,
    /// Contexts whose first task has changed, or that have fewer tasks at peers, since the engine last looked for a peer
    /// for them.
    pub fresh: BTreeSet<ContextId>,
    /// Tasks with a context that are runnable at peers.
    delegated_total: u64,
    /// Time of the last assignment of workers.
    deployed_at: Option<u64>,
    /// True if a task has become ready since then, or may get its resources.
    has_changed: bool,
    /// True if some context could have used more workers then.
    is_short: bool,
    /// End of the first pause for which a task waited then.
    paused_until: Option<u64>,
    /// True if a leaving worker has become idle since then.
    pub has_vacated: bool,
    /// Time when a worker without a context was last requested.
    plain_served_at: u64,
    /// Contexts that no task needs any more and that will be dropped.
    unneeded: Vec<ContextId>,
    /// Number of forgotten contexts that are not dropped yet.
    forgotten: u32,
    /// Number of workers that came up with a context, and of calls that no other engine counts.
    changes: u64,
}

impl ContextTable {
    /// Creates an empty table for an engine with or without workers of its own.
    pub fn new(has_workers: bool) -> Self {
        Self { are_turns_kept: !has_workers, ..Self::default() }
    }

    /// Returns the ranks of contexts whose tasks wait for peers, in order.
    pub const fn turns(&self) -> &BTreeSet<ContextRank> {
        &self.turns
    }

    /// Returns the rank of a context; `None` if no task in it waits for a peer.
    pub fn turn(&self, context: ContextId) -> Option<ContextRank> {
        self.table.get(&context)?.turn
    }

    /// Updates the rank of a context.
    fn keep_turn(&mut self, context: ContextId) {
        let Some(one) = self.table.get_mut(&context).filter(|_| self.are_turns_kept) else {
            return;
        };
        let priority = one.queue.first_priority();
        let turn = priority.map(|priority| (Reverse(priority), one.delegated, context));
        let before = std::mem::replace(&mut one.turn, turn);
        if before == turn {
            return;
        }
        if let Some(before) = before {
            self.turns.remove(&before);
        }
        self.turns.extend(turn);
    }

    /// Records that the engine must look for a peer for a context.
    fn note_fresh(&mut self, context: ContextId) {
        if self.are_turns_kept {
            self.fresh.insert(context);
        }
    }

    /// Returns true if there is no context, and no worker that had one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.workers == 0
    }

    /// Returns the number of tasks that wait for workers with a context.
    #[inline]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns the number of tasks with a context that are runnable at peers.
    #[inline]
    pub const fn delegated(&self) -> u64 {
        self.delegated_total
    }

    /// Returns the number of tasks of one context that are runnable at peers.
    pub fn delegated_in(&self, context: ContextId) -> u64 {
        self.table.get(&context).map_or(0, |one| one.delegated)
    }

    /// Counts a task that becomes runnable at a peer, or no longer is.
    pub fn count_delegated(&mut self, context: ContextId, enters: bool) {
        let one = self.table.get_mut(&context).expect("a context outlives its tasks");
        if enters {
            (one.delegated, self.delegated_total) = (one.delegated + 1, self.delegated_total + 1);
        } else {
            (one.delegated, self.delegated_total) = (one.delegated - 1, self.delegated_total - 1);
            self.note_fresh(context);
        }
        self.keep_turn(context);
    }

    /// Returns true if tasks wait in a context that needs nothing but workers.
    pub const fn wait_for_workers(&self) -> bool {
        self.waiting_for_workers > 0
    }

    /// Returns true if workers must leave once tasks have ended.
    #[inline]
    pub const fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// Records that a task has become ready, or may get its resources: a worker may have to leave for it.
    #[inline]
    pub fn mark_changed(&mut self) {
        self.has_changed = !self.is_empty();
    }

    /// Returns true if something has changed since workers were last given to contexts.
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns true if tasks wait for workers with this context.
    pub fn waits(&self, context: ContextId) -> bool {
        self.table.get(&context).is_some_and(|one| !one.queue.is_empty())
    }

    /// Returns the tasks that wait for workers with this context.
    pub fn queue(&self, context: ContextId) -> Option<&ReadyQueue> {
        self.table.get(&context).map(|one| &one.queue)
    }

    /// Returns the slot that got the last record of a context.
    pub fn current(&self, context: ContextId) -> usize {
        self.table.get(&context).map_or(0, |one| one.current)
    }

    /// Sets the slot that got the last record of a context.
    pub fn set_current(&mut self, context: ContextId, slot: usize) {
        if let Some(one) = self.table.get_mut(&context) {
            one.current = slot;
        }
    }

    /// Records that a process is gone which had a context, or none.
    pub fn note_gone(&mut self, context: ContextId) {
        self.workers -= u32::from(context != PLAIN);
    }

    /// Records that a worker with a context, or without one, was requested.
    pub fn note_served(&mut self, context: ContextId, now: u64) {
        self.workers += u32::from(context != PLAIN);
        match self.table.get_mut(&context) {
            Some(one) => {
                one.served_at = now;
                one.is_resident = true;
                self.keep_place(context);
                self.keep_idle(context);
            }
            None => self.plain_served_at = now,
        }
    }

    /// Updates the start backoff of a context with the result of a start.
    pub fn note_start(&mut self, context: ContextId, note: impl FnOnce(&mut StartBackoff) -> bool) {
        if let Some(one) = self.table.get_mut(&context) {
            note(&mut one.starts);
            self.keep_place(context);
        }
    }

    /// Returns the tasks that wait for one context, or for any, in the order in which they would be sent.
    pub fn in_order(&self, tasks: &TaskTable, only: Option<ContextId>) -> Vec<u32> {
        match only {
            Some(one) => {
                self.table.get(&one).map_or_else(Vec::new, |one| one.queue.in_order(tasks))
            }
            None => self.table.values().flat_map(|one| one.queue.in_order(tasks)).collect(),
        }
    }

    fn get(&mut self, context: ContextId) -> &mut Context {
        self.table.get_mut(&context).expect("a context outlives its tasks")
    }

    /// Adds a task to the queue of its context: at the end, or at the front if `is_first` is set.
    pub fn push(
        &mut self,
        tasks: &mut TaskTable,
        context: ContextId,
        (priority, index): (i32, u32),
        is_first: bool,
    ) {
        self.waiting += 1;
        let one = self.get(context);
        let needs_nothing = one.options.demand.is_none();
        let is_next = is_first || one.queue.first_priority().is_none_or(|first| first < priority);
        if is_first {
            one.queue.push_front(tasks, priority, index);
        } else {
            one.queue.push_back(tasks, priority, index);
        }
        self.waiting_for_workers += u64::from(needs_nothing);
        if is_next {
            self.note_fresh(context);
            self.keep_turn(context);
            self.keep_place(context);
        }
    }

    /// Removes the first task of a context and returns it. The context may have been dropped with its last task.
    pub fn pop(&mut self, tasks: &mut TaskTable, context: ContextId) -> Option<u32> {
        let one = self.table.get_mut(&context)?;
        let index = one.queue.pop_front(tasks)?;
        let needs_nothing = one.options.demand.is_none();
        self.waiting -= 1;
        self.waiting_for_workers -= u64::from(needs_nothing);
        self.keep_turn(context);
        self.keep_place(context);
        Some(index)
    }

    /// Returns the first task in the queue of a context.
    pub fn first(&self, tasks: &TaskTable, context: ContextId) -> Option<u32> {
        self.table.get(&context)?.queue.first(tasks)
    }

    /// Returns the priority of the first task in the queue of a context.
    pub fn first_priority(&self, context: ContextId) -> Option<i32> {
        self.table.get(&context)?.queue.first_priority()
    }

    /// Removes a task from the queue of its context.
    pub fn remove(
        &mut self,
        tasks: &mut TaskTable,
        context: ContextId,
        (priority, index): (i32, u32),
    ) {
        let one = self.get(context);
        one.queue.remove(tasks, priority, index);
        let needs_nothing = one.options.demand.is_none();
        self.waiting -= 1;
        self.waiting_for_workers -= u64::from(needs_nothing);
        self.note_fresh(context);
        self.keep_turn(context);
        self.keep_place(context);
    }

    /// Returns when the first of the pauses ends for which tasks wait.
    pub fn next_start(&self, now: u64) -> Option<u64> {
        self.lines.next_start(now)
    }

    /// Returns all contexts.
    pub fn known(&self) -> Vec<ContextId> {
        self.table.keys().copied().collect()
    }

    /// Returns the contexts with waiting tasks that can be sent or refused now. A context without a process in `slots`
    /// has no such task unless it has failed, so the cost does not grow with the number of contexts that wait for a
    /// process.
    fn wanted_of(&self, slots: &[Slot]) -> Vec<ContextId> {
        if self.table.len() < slots.len() {
            return self.wanted();
        }
        let theirs = slots.iter().map(|slot| slot.context).filter(|&one| self.waits(one));
        let mut wanted: Vec<ContextId> =
            theirs.chain(self.lines.failed().iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Records why no worker can have a context.
    fn fail(&mut self, context: ContextId, failure: Arc<StartFailure>) {
        if let Some(one) = self.table.get_mut(&context) {
            one.failure = Some(failure);
            self.keep_place(context);
        }
    }

    /// Returns the contexts of some slots, in order.
    pub fn of_slots(slots: &[Slot]) -> Vec<ContextId> {
        let theirs = slots.iter().map(|slot| slot.context).filter(|&context| context != PLAIN);
        let mut contexts: Vec<ContextId> = theirs.collect();
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }

    /// Counts contexts that a decision has looked at.
    pub fn count_looks(&mut self, looks: usize) {
        self.looks += looks as u64;
    }

    /// Returns the contexts for which tasks wait.
    pub fn wanted(&self) -> Vec<ContextId> {
        let wanted = self.table.iter().filter(|(_, one)| !one.queue.is_empty());
        wanted.map(|(&context, _)| context).collect()
    }
}

impl Core {
    /// Returns the context whose workers a task needs, here or at a peer.
    #[inline]
    pub(crate) fn context_of(&self, index: u32) -> ContextId {
        let extra = self.tasks[index].extra;
        if extra == NONE { PLAIN } else { self.extras[extra].context }
    }

    /// Returns true if a task may name a context.
    pub(crate) fn knows_context(&self, context: ContextId) -> bool {
        let is_known = |one: &Context| !one.is_forgotten;
        context == PLAIN || self.contexts.table.get(&context).is_some_and(is_known)
    }

    /// Sends the tasks that wait for workers with a context while these have room, and requests more workers.
    pub(crate) fn pump_contexts(&mut self, port: &mut impl Port) {
        let wanted = self.contexts.wanted_of(&self.slots[..self.live_end]);
        self.contexts.count_looks(wanted.len());
        for context in wanted {
            let known = self.contexts.table.get(&context);
            if let Some(failure) = known.and_then(|one| one.failure.clone()) {
                self.refuse_context(context, &failure, port);
            }
            while let Some(first) = self.contexts.first(&self.tasks, context)
                && let Some(slot) = self.choose_for(first, context, port)
            {
                self.send_first(slot, port);
            }
        }
    }

    /// Returns the number of contexts that decisions have looked at. Tests bound the cost of decisions by it.
    #[doc(hidden)]
    #[must_use]
    pub const fn context_looks(&self) -> u64 {
        self.contexts.looks
    }

    /// Ends the tasks that wait for a context which no worker can have.
    fn refuse_context(
        &mut self,
        context: ContextId,
        failure: &Arc<StartFailure>,
        port: &mut impl Port,
    ) {
        while let Some(index) = self.contexts.pop(&mut self.tasks, context) {
            self.tasks[index].state = State::Loose;
            self.finish(index, Status::Refused, TaskContent::Context(Arc::clone(failure)), port);
        }
    }

    /// Asserts the invariants of contexts between calls.
    pub(crate) fn audit_contexts(&self) {
        let queues = self.contexts.table.values().map(|one| u64::from(one.queue.len()));
        assert_eq!(queues.sum::<u64>(), self.contexts.waiting, "queues of contexts");
        let needs_nothing = |one: &&Context| one.options.demand.is_none();
        let queues = self.contexts.table.values().filter(needs_nothing);
        let waiting: u64 = queues.map(|one| u64::from(one.queue.len())).sum();
        assert_eq!(waiting, self.contexts.waiting_for_workers, "those that need only workers");
        let turn = |(&context, one): (&ContextId, &Context)| {
            Some((Reverse(one.queue.first_priority()?), one.delegated, context))
        };
        let turns = self.contexts.table.iter().filter_map(turn);
        let turns: BTreeSet<ContextRank> = turns.filter(|_| self.config.workers == 0).collect();
        assert_eq!(turns, self.contexts.turns, "those whose tasks wait, in turn");
        self.contexts.audit_lines();
        self.contexts.audit_idle();
        let has_one = |slot: &&Slot| slot.context != PLAIN;
        let workers = self.slots.iter().filter(has_one).count();
        assert_eq!(workers, self.contexts.workers as usize, "workers with contexts");
        for slot in &self.slots {
            assert!(slot.has_process() || slot.context == PLAIN, "no worker has it");
        }
        let forgotten = self.contexts.table.values().filter(|one| one.is_forgotten).count();
        assert_eq!(forgotten, self.contexts.forgotten as usize, "forgotten contexts");
        for (&context, one) in &self.contexts.table {
            let waits = !one.queue.is_empty();
            // An engine without workers tries the context again at peers.
            let is_refused = one.failure.is_some() && self.config.workers > 0;
            assert!(!waits || !is_refused, "no task waits for a context that no worker can have");
            assert!(
                !waits
                    || self.has_no_core_left()
                    || !self.has_idle_worker(context)
                    || !self.is_above_floor(context),
                "nothing waits beside an idle worker with its context"
            );
        }
    }
}
