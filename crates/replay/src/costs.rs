//! What is there, and what each step takes.

/// Where a graph is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes; 0: the workers are the client's own.
    pub nodes: u16,
    /// Workers of the client, or of each node.
    pub workers: u16,
    /// Cores that the client shares with its own workers; `u32::MAX`: enough for all.
    pub cores: u32,
}

impl Cluster {
    /// Workers in all.
    #[must_use]
    pub fn worker_count(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.nodes.max(1))
    }
}

/// What each step takes, nanoseconds, and how fast bytes move. The defaults are those of `SPECIFICATION.md`, on the machine
/// that is named there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The program's own work for each task that it submits: that of the suite, which notes all.
    pub program_ns: u64,
    /// The client takes a task in and places it. With `answer_ns` a million and more a second.
    pub submit_ns: u64,
    /// An engine takes the answer of one of its workers.
    pub answer_ns: u64,
    /// From a record to an awake worker that sees it, or from its answer to an engine that is awake: with the others, a call
    /// of 1.5 us.
    pub see_ns: u64,
    /// A worker claims, decodes, calls, encodes and answers.
    pub call_ns: u64,
    /// What the suite adds to each task in its worker: it notes times, and its answers are pickled.
    pub wrap_ns: u64,
    /// How long whoever has nothing to do polls before it sleeps.
    pub spin_ns: u64,
    /// From a record, an answer or a message to somebody who sleeps.
    pub wake_ns: u64,
    /// The client writes a task for a node, beside `submit_ns`, or reads the answer. With these, 700,000 a second.
    pub errand_ns: u64,
    /// A node reads a task, or writes its answer.
    pub guest_ns: u64,
    /// From one end of a link to the other, for the first byte.
    pub hop_ns: u64,
    /// Bytes a second of each link: the client's, and every node's.
    pub link_rate: u64,
    /// Bytes a second that are copied in memory: each argument and each result is, once.
    pub memory_rate: u64,
    /// How far latencies scatter: the standard deviation of their logarithm. 0.3 has a 99th percentile of twice the median.
    pub scatter: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            program_ns: 5_800,
            submit_ns: 450,
            answer_ns: 250,
            see_ns: 250,
            call_ns: 300,
            wrap_ns: 25_000,
            spin_ns: 50_000,
            wake_ns: 50_000,
            errand_ns: 350,
            guest_ns: 700,
            hop_ns: 25_000,
            link_rate: 1_250_000_000,
            memory_rate: 5_000_000_000,
            scatter: 0.3,
        }
    }
}

impl Costs {
    /// All steps for nothing, and bytes at once: what is left is what the scheduler decides.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            program_ns: 0,
            submit_ns: 0,
            answer_ns: 0,
            see_ns: 0,
            call_ns: 0,
            wrap_ns: 0,
            spin_ns: 0,
            wake_ns: 0,
            errand_ns: 0,
            guest_ns: 0,
            hop_ns: 0,
            link_rate: u64::MAX,
            memory_rate: u64::MAX,
            scatter: 0.0,
        }
    }
}

impl Costs {
    /// How long so many tasks could take at most besides their runs, if each step of each were repeated some times and all
    /// moved one after the other, seconds.
    #[expect(clippy::cast_precision_loss, reason = "a bound")]
    pub(crate) fn most_s(&self, tasks: usize, size: u128) -> f64 {
        let steps = [
            self.program_ns,
            self.submit_ns,
            self.answer_ns,
            self.see_ns,
            self.call_ns,
            self.wrap_ns,
            self.spin_ns,
            self.wake_ns,
            self.errand_ns,
            self.guest_ns,
            self.hop_ns,
        ];
        let step_ns: f64 = steps.iter().map(|&one| one as f64).sum();
        let rate = self.link_rate.min(self.memory_rate).max(1) as f64;
        // A latency is a sum of twelve numbers away from its median, six at most.
        let stretch = REPEATS * (6.0 * self.scatter).exp();
        step_ns * 1e-9 * tasks as f64 * stretch + size as f64 * REPEATS / rate
    }
}

/// How often a step of a task is repeated at most, as far as a bound goes: tasks that are given back are sent again.
const REPEATS: f64 = 8.0;

/// How long so many bytes take at a rate, bytes a second, which is not 0.
pub(crate) fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
