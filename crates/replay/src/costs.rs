//! The simulated cluster, and the cost of each step.

/// The nodes and workers that a graph runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Number of nodes; 0 if the client has workers of its own.
    pub nodes: u16,
    /// Number of workers of the client, or of each node.
    pub workers: u16,
    /// Cores that the client shares with its own workers; `u32::MAX` means enough for all.
    pub cores: u32,
}

impl ClusterSpec {
    /// Returns the number of all workers.
    #[must_use]
    pub fn worker_count(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.nodes.max(1))
    }
}

/// The cost of each step, nanoseconds, and the rates of transfers. The defaults are those of `SPECIFICATION.md`, on the
/// machine that it names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The program's own work for each task that it submits. The default is that of the benchmark suite, which records
    /// every task.
    pub program_ns: u64,
    /// Time for the client to accept a task and assign it. With `answer_ns`, this allows over a million tasks a second.
    pub submit_ns: u64,
    /// Time for an engine to handle the answer of one of its workers.
    pub answer_ns: u64,
    /// Latency from the write of a ring record until an awake worker sees it, or from a worker's answer until an awake engine
    /// sees it. With the other steps, a call takes 1.5 us.
    pub see_ns: u64,
    /// Time for a worker to claim a ring record, decode it, call the function, and encode and publish the answer.
    pub call_ns: u64,
    /// Cost that the benchmark suite adds to each task in its worker: it records times and pickles its answers.
    pub wrap_ns: u64,
    /// Time that an idle engine or worker polls before it sleeps.
    pub spin_ns: u64,
    /// Latency from a ring record, an answer or a message until a receiver that sleeps sees it.
    pub wake_ns: u64,
    /// Time for the client to write a message with a task for a node, in addition to `submit_ns`, or to read the
    /// answer. With these steps, the client handles 700,000 tasks a second.
    pub dispatch_ns: u64,
    /// Time for a node to read an inbound task, or to write its answer.
    pub inbound_ns: u64,
    /// Latency of a link, from one end to the other, for the first byte.
    pub hop_ns: u64,
    /// Rate of each link, the client's and every node's, bytes a second.
    pub link_rate: u64,
    /// Rate of copies in memory, bytes a second. Each argument and each result is copied once.
    pub memory_rate: u64,
    /// Standard deviation of the logarithm of latencies. At 0.3, the 99th percentile is twice the median.
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
            dispatch_ns: 350,
            inbound_ns: 700,
            hop_ns: 25_000,
            link_rate: 1_250_000_000,
            memory_rate: 5_000_000_000,
            scatter: 0.3,
        }
    }
}

impl Costs {
    /// Returns costs of 0, with unlimited rates: the result then depends on the scheduler's decisions only.
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
            dispatch_ns: 0,
            inbound_ns: 0,
            hop_ns: 0,
            link_rate: u64::MAX,
            memory_rate: u64::MAX,
            scatter: 0.0,
        }
    }
}

impl Costs {
    /// Returns an upper bound of the time that `tasks` tasks need besides their runs, seconds: every step of every task and
    /// every transfer is repeated [`REPEATS`] times, all one after the other.
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
            self.dispatch_ns,
            self.inbound_ns,
            self.hop_ns,
        ];
        let step_ns: f64 = steps.iter().map(|&one| one as f64).sum();
        let rate = self.link_rate.min(self.memory_rate).max(1) as f64;
        // `Latencies::draw` sums twelve numbers: the logarithm of a latency is at most 6 deviations above the median's.
        let stretch = REPEATS * (6.0 * self.scatter).exp();
        step_ns * 1e-9 * tasks as f64 * stretch + size as f64 * REPEATS / rate
    }
}

/// Number of repetitions of a task's step that the bound assumes: a task that a node gives back is sent again.
const REPEATS: f64 = 8.0;

/// Returns the time that `bytes` bytes take at a rate, bytes a second. A rate of 0 counts as 1.
pub(crate) fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
