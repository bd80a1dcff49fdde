//! The result of a replay.

/// The times that tasks waited for a worker after their parents had ended, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Wait {
    /// Computes the statistics of sorted waits, of which there must be at least one.
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

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Time from the start of the run until the program has the last result.
    pub makespan_ns: u64,
    /// Sum of the tasks' run times.
    pub work_ns: u64,
    /// Length of the longest path through the graph.
    pub critical_path_ns: u64,
    /// Lower bound of the makespan for any scheduler.
    pub bound_ns: u64,
    /// Times that tasks waited for workers.
    pub wait: Wait,
    /// Number of tasks that each node ran; without nodes, that the client's own workers ran.
    pub tasks_of_nodes: Vec<u32>,
    /// Bytes that the client sent to nodes.
    pub bytes_sent: u64,
    /// Bytes that nodes sent to the client.
    pub bytes_received: u64,
    /// Number of tasks that nodes gave back before they started, because other nodes were idle.
    pub given_back: u64,
    /// Number of simulated events.
    pub events: u64,
}
