//! Contexts: workers that keep what functions need, so that it is set up once and not with each call.
//!
//! A worker has one context for as long as it lives, or none. A task that names a context runs on workers that have it, and
//! waits in the context's own queue; every other task runs on workers without one. Which contexts have how many workers
//! follows what waits: see `deploy`. An engine without workers of its own sends such tasks to peers like any others.
//! (Function contexts: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and
//! Retaining Reusable Context in Workflow Systems", sections 3.4 and 3.5.)

mod deploy;
mod equipment;
mod fair;
mod life;
mod pools;
mod retain;
mod way;

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_wire::{ContextId, Demand};

use crate::outcome::Content;
use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::slots::Slot;
use crate::starts::Starts;
use crate::stats::ContextStats;
use crate::task::{State, TaskTable};
use crate::{Core, NONE, StartFailure, Status};

/// No context.
pub(crate) const PLAIN: ContextId = ContextId(0);

/// What a context asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextOptions {
    /// Workers that have it at the same time, at most.
    pub workers_max: u16,
    /// How long it is kept while nobody uses it.
    pub linger_ns: u64,
    /// What each of its workers has besides a place, and how many places, for as long as it is one.
    pub demand: Demand,
}

/// What is known of a context.
#[derive(Debug)]
pub(crate) struct Context {
    options: ContextOptions,
    queue: ReadyQueue,
    /// Where the last record went.
    current: usize,
    starts: Starts,
    /// One of its workers came up: others will too, and soon.
    is_proven: bool,
    /// Why nobody can have it; its tasks are refused.
    failure: Option<Arc<StartFailure>>,
    /// When a worker was asked for that has it.
    served_at: u64,
    /// Tasks that name it and are not final.
    tasks: u64,
    /// No task will name it any more.
    is_forgotten: bool,
    /// Some process has it, or is to.
    is_resident: bool,
    /// What those take together, bytes, as far as is known.
    memory: u64,
    /// When its last task ended.
    used_at: u64,
    stats: ContextStats,
}

/// All contexts.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    table: BTreeMap<ContextId, Context>,
    /// Processes that have one, those of forgotten ones too.
    workers: u32,
    /// Tasks in their queues.
    waiting: u64,
    /// When workers were given out last.
    deployed_at: Option<u64>,
    /// Something has become ready since, or could be had.
    has_news: bool,
    /// Somebody could have used more workers then.
    is_short: bool,
    /// When the first of the pauses ends that somebody waited for then.
    paused_until: Option<u64>,
    /// A worker that is to leave has nothing to do since.
    pub has_vacated: bool,
    /// When a worker without a context was asked for.
    plain_served_at: u64,
    /// Those that nobody needs any more, to be dropped.
    unneeded: Vec<ContextId>,
    /// Those that no task will name any more, and that some task still needs.
    forgotten: u32,
    /// Workers that came up with a context, and calls that nobody elsewhere counts.
    changes: u64,
}

impl Contexts {
    /// Whether there is none, nor a worker that had one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.workers == 0
    }

    /// Tasks that wait for workers with a context.
    #[inline]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Whether workers are to leave once tasks have ended.
    #[inline]
    pub const fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// A task has become ready, or could be: somebody may have to give way for it.
    #[inline]
    pub fn note_news(&mut self) {
        self.has_news = !self.is_empty();
    }

    /// Whether tasks wait for workers with this one.
    pub fn waits(&self, context: ContextId) -> bool {
        self.table.get(&context).is_some_and(|one| !one.queue.is_empty())
    }

    /// Where the last record of a context went.
    pub fn current(&self, context: ContextId) -> usize {
        self.table.get(&context).map_or(0, |one| one.current)
    }

    /// The same, from now on.
    pub fn set_current(&mut self, context: ContextId, slot: usize) {
        if let Some(one) = self.table.get_mut(&context) {
            one.current = slot;
        }
    }

    /// A process is gone that had a context, or none.
    pub fn note_gone(&mut self, context: ContextId) {
        self.workers -= u32::from(context != PLAIN);
    }

    /// A worker is asked for that has it.
    pub fn note_served(&mut self, context: ContextId, now: u64) {
        self.workers += u32::from(context != PLAIN);
        match self.table.get_mut(&context) {
            Some(one) => {
                one.served_at = now;
                one.is_resident = true;
            }
            None => self.plain_served_at = now,
        }
    }

    /// How its starts have gone.
    pub fn starts(&mut self, context: ContextId) -> Option<&mut Starts> {
        self.table.get_mut(&context).map(|one| &mut one.starts)
    }

    /// The tasks that wait for one context, or for any, in the order they would be sent.
    pub fn in_order(&self, tasks: &TaskTable, only: Option<ContextId>) -> Vec<u32> {
        let is_meant = |context: ContextId| only.is_none_or(|one| one == context);
        let queues = self.table.iter().filter(|(context, _)| is_meant(**context));
        queues.flat_map(|(_, one)| one.queue.in_order(tasks)).collect()
    }

    fn queue(&mut self, context: ContextId) -> &mut ReadyQueue {
        &mut self.table.get_mut(&context).expect("a context outlives its tasks").queue
    }

    /// Puts a task behind the others, or in front.
    pub fn push(
        &mut self,
        tasks: &mut TaskTable,
        context: ContextId,
        (priority, index): (i32, u32),
        is_first: bool,
    ) {
        self.waiting += 1;
        let queue = self.queue(context);
        if is_first {
            queue.push_front(tasks, priority, index);
        } else {
            queue.push_back(tasks, priority, index);
        }
    }

    /// Takes the first task of a context, which may be gone with its last one.
    pub fn pop(&mut self, tasks: &mut TaskTable, context: ContextId) -> Option<u32> {
        let index = self.table.get_mut(&context)?.queue.pop_front(tasks)?;
        self.waiting -= 1;
        Some(index)
    }

    /// Takes a task out.
    pub fn remove(
        &mut self,
        tasks: &mut TaskTable,
        context: ContextId,
        (priority, index): (i32, u32),
    ) {
        self.queue(context).remove(tasks, priority, index);
        self.waiting -= 1;
    }

    /// When the first of the pauses ends that tasks wait for.
    pub fn next_start(&self, now: u64) -> Option<u64> {
        let waiting = self.table.values().filter(|one| !one.queue.is_empty());
        waiting.filter_map(|one| one.starts.pause_after(now)).min()
    }

    /// All of them.
    pub fn known(&self) -> Vec<ContextId> {
        self.table.keys().copied().collect()
    }

    /// Those that somebody waits for.
    fn wanted(&self) -> Vec<ContextId> {
        let wanted = self.table.iter().filter(|(_, one)| !one.queue.is_empty());
        wanted.map(|(&context, _)| context).collect()
    }
}

impl Core {
    /// The context whose workers a task needs; that of none if it may run anywhere here.
    #[inline]
    pub(crate) fn context_of(&self, index: u32) -> ContextId {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.config.workers == 0 {
            return PLAIN;
        }
        self.extras[extra].context
    }

    /// Whether a task may name a context.
    pub(crate) fn knows_context(&self, context: ContextId) -> bool {
        let is_known = |one: &Context| !one.is_forgotten;
        context == PLAIN || self.contexts.table.get(&context).is_some_and(is_known)
    }

    /// Sends what waits for workers with a context as far as they have room, and asks for more of them.
    pub(crate) fn pump_contexts(&mut self, port: &mut impl Port) {
        for context in self.contexts.wanted() {
            let known = self.contexts.table.get(&context);
            if let Some(failure) = known.and_then(|one| one.failure.clone()) {
                self.refuse_context(context, &failure, port);
            }
            while self.contexts.waits(context)
                && let Some(slot) = self.choose(context, port)
            {
                self.send_first(slot, port);
            }
        }
    }

    /// Ends the tasks that wait for a context that nobody can have.
    fn refuse_context(
        &mut self,
        context: ContextId,
        failure: &Arc<StartFailure>,
        port: &mut impl Port,
    ) {
        while let Some(index) = self.contexts.pop(&mut self.tasks, context) {
            self.tasks[index].state = State::Loose;
            self.finish(index, Status::Refused, Content::Context(Arc::clone(failure)), port);
        }
    }

    /// Asserts what must hold of contexts between calls.
    pub(crate) fn audit_contexts(&self) {
        let queues = self.contexts.table.values().map(|one| u64::from(one.queue.len()));
        assert_eq!(queues.sum::<u64>(), self.contexts.waiting, "queues of contexts");
        let has_one = |slot: &&Slot| slot.context != PLAIN;
        let workers = self.slots.iter().filter(has_one).count();
        assert_eq!(workers, self.contexts.workers as usize, "workers with contexts");
        for slot in &self.slots {
            assert!(slot.has_process() || slot.context == PLAIN, "nobody is there");
        }
        let forgotten = self.contexts.table.values().filter(|one| one.is_forgotten).count();
        assert_eq!(forgotten, self.contexts.forgotten as usize, "forgotten contexts");
        for (&context, one) in &self.contexts.table {
            let waits = !one.queue.is_empty();
            assert!(!waits || one.failure.is_none(), "what nobody can have is not waited for");
            assert!(
                !waits || self.has_no_core_left() || !self.has_idle_worker(context),
                "nothing waits beside an idle worker with its context"
            );
        }
    }
}
