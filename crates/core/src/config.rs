//! Configuration of an engine: sizes, windows, budgets. Each chosen number is here, with its reason.

use crate::{Budgets, Supply};

/// Constants of one [`crate::Core`]. Times are nanoseconds.
#[derive(Debug, Clone)]
pub struct Config {
    /// Workers that run ordinary tasks at the same time.
    pub workers: u16,
    /// Memory and GPUs that tasks may ask for besides workers.
    pub supply: Supply,
    /// NUMA nodes that each worker's CPU slot is local to, one bit a node; empty if unknown or if there is only one.
    pub numa_nodes: Vec<u64>,
    /// Workers kept alive without work: by default all, since a start costs as much as a thousand small tasks.
    pub workers_min: u16,
    /// Further slots, used only while workers wait for tasks that their own tasks submitted.
    pub spare_max: u16,
    /// Outstanding tasks from outside above which `submit` refuses.
    pub outstanding_max: u64,
    /// Heap bytes in the arguments of outstanding tasks above which submissions that can wait are refused.
    pub arguments_max: u64,
    /// Outstanding tasks above `outstanding_max` that tasks, callbacks and event loops may add before they are refused
    /// too. They cannot block, since the task that would make room may run only after them.
    pub overflow_max: u64,
    /// Work that a worker may have queued: long enough to hide one scheduler wake-up of the client, short enough that
    /// little must be taken back.
    pub window_ns: u64,
    /// Work that a worker may have queued while many tasks of a known length are ready, so that the client can leave it
    /// alone for a while. Each worker gets at most a quarter of its share of the ready tasks, so the windows shrink to
    /// [`Self::window_ns`] as the tasks run out, and the last ones are spread evenly.
    pub deep_window_ns: u64,
    /// Most records in flight per worker, whatever the window: bounds the work that a dying worker sends back.
    pub depth_max: u32,
    /// Records in flight per worker below which the window does not count: one runs, the next one is there when it
    /// ends.
    pub depth_min: u32,
    /// Backlog below which a worker keeps getting the next task without a look at the others. Consecutive records for
    /// one ring share cache lines, and another worker could start the task at most this much sooner.
    pub sticky_backlog_ns: u64,
    /// Cost of a wake-up for both sides. A sleeping worker is woken only if the least loaded awake one is busy for
    /// longer.
    pub wake_cost_ns: u64,
    /// CPU cores that workers and the client share.
    pub cores: u32,
    /// Deaths of a peer's workers in a row, while none of other peers die, after which the peer gets no tasks for a
    /// while.
    pub peer_deaths_max: u32,
    /// Time without tasks after such deaths: the first and the longest. It doubles each time.
    pub distrust_ns: (u64, u64),
    /// Run time after which a task is *long*: nothing stays queued behind a long task while a worker idles.
    pub steal_after_ns: u64,
    /// Most records taken back at once: marking and re-sending more would take longer than the wake-up that it saves.
    pub steal_max: u32,
    /// True if peers get only tasks that tasks here submitted, because all other tasks came from those peers.
    pub shares_nested_only: bool,
    /// Expected run time of one batch of calls: far above the cost of a record, too short for users to notice.
    pub batch_ns: u32,
    /// Most calls in one batch.
    pub batch_max: u32,
    /// Assumed run time of a function that has not run yet. Such tasks go to idle workers first, two at a time.
    pub unknown_run_ns: u32,
    /// Least cost of a task on a worker: claim, call and answer of an empty function.
    pub run_min_ns: u32,
    /// Clock ticks per second of the spans in answers.
    pub ticks_per_second: u64,
    /// Budgets of tasks that set none.
    pub budgets: Budgets,
    /// Time from an interrupt to the kill, for tasks that set no grace: enough for `finally` blocks, short for a human.
    pub grace_ns: u64,
    /// Pause before the engine asks again about something that changes soon: a full ring, an answer that is being
    /// drained.
    pub recheck_ns: u64,
    /// Workers that a task may kill before it is lost whatever its budget.
    pub kills_max: u8,
    /// Tasks after which a worker is replaced; 0 is never.
    pub tasks_per_worker_max: u32,
    /// Rounds of failed starts in a row, with no live worker, after which the engine is broken. The number survives a
    /// burst that kills processes as they start. With the pauses between rounds it delays the error by less than a
    /// second if workers can never start.
    pub start_failures_max: u32,
    /// Pause after the first worker that ended without running a task; doubles with each further one in a row.
    pub backoff_min_ns: u64,
    /// Longest pause after workers that ended without running a task.
    pub backoff_max_ns: u64,
    /// Least time that a worker keeps its context while it has work in it and other contexts wait for the slot: longer
    /// than most contexts take to start, and short for a human.
    pub context_tenure_ns: u64,
    /// Memory that unused contexts may take together with the used ones, bytes.
    pub context_memory: u64,
    /// Time that a worker may take to leave before it is killed.
    pub leave_grace_ns: u64,
    /// Time that a spare worker stays without work: nested programs wait in bursts.
    pub spare_linger_ns: u64,
}

/// Default time for workers to leave. It is longer than the time limit for the rest of a context's setup, so that a
/// setup that runs out of time can still report where it is.
pub const LEAVE_GRACE_NS: u64 = 6_000_000_000;

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 1,
            supply: Supply::default(),
            numa_nodes: Vec::new(),
            workers_min: u16::MAX,
            spare_max: 64,
            outstanding_max: 16_000_000,
            arguments_max: u64::MAX,
            overflow_max: 4_000_000,
            window_ns: 200_000,
            deep_window_ns: 20_000_000,
            depth_max: 2048,
            depth_min: 2,
            sticky_backlog_ns: 5_000,
            wake_cost_ns: 50_000,
            cores: u32::MAX,
            peer_deaths_max: 5,
            distrust_ns: (60_000_000_000, 3_600_000_000_000),
            steal_after_ns: 100_000,
            steal_max: 1024,
            shares_nested_only: false,
            batch_ns: 20_000,
            batch_max: 64,
            unknown_run_ns: 1_000_000,
            run_min_ns: 50,
            ticks_per_second: 1_000_000_000,
            budgets: Budgets::default(),
            grace_ns: 5_000_000_000,
            recheck_ns: 1_000_000,
            kills_max: 3,
            tasks_per_worker_max: 0,
            start_failures_max: 5,
            backoff_min_ns: 50_000_000,
            backoff_max_ns: 5_000_000_000,
            context_tenure_ns: 100_000_000,
            context_memory: u64::MAX,
            leave_grace_ns: LEAVE_GRACE_NS,
            spare_linger_ns: 1_000_000_000,
        }
    }
}

impl Config {
    /// Returns the number of slots that the engine needs: workers, then spares.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        usize::from(self.workers) + usize::from(self.spare_max)
    }
}
