//! What an engine may do: sizes, windows, budgets. Every number that is a choice is here, with its
//! reason.

use crate::{Budgets, Supply};

/// The constants of one [`crate::Core`]. Times are nanoseconds.
#[derive(Debug, Clone)]
pub struct Config {
    /// Workers that run ordinary tasks at the same time.
    pub workers: u16,
    /// What tasks may ask for besides workers.
    pub supply: Supply,
    /// Which of the machine's memories each worker's place is near to, a bit each; empty: nobody knows, or there is one.
    pub domains: Vec<u64>,
    /// Workers kept alive without work: by default all, since a start costs a thousand small tasks.
    pub workers_min: u16,
    /// Further slots, used only while workers wait for tasks they submitted themselves.
    pub spare_max: u16,
    /// Outstanding tasks from outside before `submit` refuses.
    pub outstanding_max: u64,
    /// Outstanding tasks from tasks, callbacks and event loops above `outstanding_max` before they
    /// are refused too: they cannot block, since what they would wait for may be behind them.
    pub overflow_max: u64,
    /// Work a worker may have queued: long enough to hide the client's absence of a scheduler's
    /// wake-up, short enough that little has to be taken back.
    pub window_ns: u64,
    /// Records in flight per worker at most, whatever the window: bounds what a dying worker sends
    /// back.
    pub depth_max: u32,
    /// Records in flight per worker below which the window does not count: one runs, the next one
    /// is there when it ends.
    pub depth_min: u32,
    /// Below this backlog a worker keeps getting the next task without a look at the others:
    /// records for one ring in a row stay in one cache line, and nobody else could be faster by
    /// more than this.
    pub cling_ns: u64,
    /// A sleeping worker is woken only when the best awake one is busy for longer: what a wake-up
    /// costs both sides.
    pub wake_cost_ns: u64,
    /// Cores that workers and the client share.
    pub cores: u32,
    /// Workers of a peer that die in a row, while none of others do, before it gets nothing for a while.
    pub peer_deaths_max: u32,
    /// How long that is at first, and at most: it doubles each time.
    pub distrust_ns: (u64, u64),
    /// A running task is *long* after this time: nothing stays queued behind it while a worker
    /// idles.
    pub steal_after_ns: u64,
    /// Records taken back at once: the marks and the re-sending of more would take longer than the
    /// wake-up they save.
    pub steal_max: u32,
    /// Peers get only tasks that tasks here submitted: others came from them.
    pub shares_nested_only: bool,
    /// Work in one batch of calls: much more than a record costs, much less than anyone notices.
    pub batch_ns: u32,
    /// Calls in one batch at most.
    pub batch_max: u32,
    /// Assumed run time of a function never seen: such tasks go to idle workers first, two at a
    /// time.
    pub unknown_run_ns: u32,
    /// Least cost of a task on a worker: claim, call and answer of an empty function.
    pub run_min_ns: u32,
    /// Clock ticks per second of the spans in answers.
    pub ticks_per_second: u64,
    /// Budgets of tasks that name none.
    pub budgets: Budgets,
    /// From an interrupt to the kill, for tasks that name no grace: enough for `finally` blocks,
    /// short for a human.
    pub grace_ns: u64,
    /// Pause before a question is put again whose answer is under way (a full ring, an answer that
    /// is being drained).
    pub recheck_ns: u64,
    /// A task that killed this many workers is lost whatever its budget.
    pub kills_max: u8,
    /// Tasks after which a worker is replaced; 0 is never.
    pub tasks_per_worker_max: u32,
    /// Rounds of failed starts in a row, with no live worker, that make the engine broken: enough for
    /// a storm that kills processes as they start, and with the pauses between them less than a
    /// second of hope for those that never will.
    pub start_failures_max: u32,
    /// Pause after the first fruitless worker; doubles with each further one in a row.
    pub backoff_min_ns: u64,
    /// Longest pause between fruitless workers.
    pub backoff_max_ns: u64,
    /// How long a worker keeps its context at least while it has work in it and others wait for the place: longer than most
    /// contexts take to start, and short for a human.
    pub context_tenure_ns: u64,
    /// Memory that contexts may take which nobody uses, with those that are used, bytes.
    pub context_memory: u64,
    /// How long a worker that was asked to leave may take before it is killed.
    pub leave_grace_ns: u64,
    /// How long a spare worker stays without work: nested programs wait in bursts.
    pub spare_linger_ns: u64,
}

/// How long workers may take to leave: longer than the rest of a setup may, which says where it is when its time is over.
pub const LEAVE_GRACE_NS: u64 = 6_000_000_000;

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 1,
            supply: Supply::default(),
            domains: Vec::new(),
            workers_min: u16::MAX,
            spare_max: 64,
            outstanding_max: 16_000_000,
            overflow_max: 4_000_000,
            window_ns: 200_000,
            depth_max: 2048,
            depth_min: 2,
            cling_ns: 5_000,
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
    /// Slots that the engine needs: workers, then spares.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        usize::from(self.workers) + usize::from(self.spare_max)
    }
}
