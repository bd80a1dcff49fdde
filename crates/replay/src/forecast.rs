//! What a replay has found.

/// How long tasks waited for a worker after they had what they needed, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// The mean.
    pub mean_ns: u64,
    /// Half of them waited for less.
    pub p50_ns: u64,
    /// One in a hundred waited for longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Wait {
    /// Of sorted waits, at least one.
    pub(crate) fn of(sorted: &[u64]) -> Self {
        let rank = |percent: usize| sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)];
        let sum: u128 = sorted.iter().map(|&one| u128::from(one)).sum();
        Self {
            mean_ns: u64::try_from(sum / sorted.len() as u128).unwrap_or(u64::MAX),
            p50_ns: rank(50),
            p99_ns: rank(99),
            max_ns: sorted[sorted.len() - 1],
        }
    }
}

/// What a replay has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// From the first submission until the program had the last result.
    pub makespan_ns: u64,
    /// How long the tasks ran, together.
    pub work_ns: u64,
    /// The longest way through the graph.
    pub critical_path_ns: u64,
    /// What no scheduler can be faster than.
    pub bound_ns: u64,
    /// How long tasks waited for workers.
    pub wait: Wait,
    /// Tasks that each node ran; where there are none, the client's own workers.
    pub tasks_of_nodes: Vec<u32>,
    /// Bytes that went from the client to nodes.
    pub bytes_sent: u64,
    /// Bytes that came from them.
    pub bytes_received: u64,
    /// Tasks that nodes gave back before they had begun: others had nothing to do.
    pub given_back: u64,
    /// Events that were simulated.
    pub events: u64,
}
