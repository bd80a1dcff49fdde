//! Reports on the cost and the use of contexts, here and on nodes.

use gristmill_core::ContextStats;
use gristmill_wire::peer::ContextState;
use gristmill_wire::{ContextId, Digest, ResourceRequest};

use crate::client::Client;

/// Cost and use of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// Name of the context.
    pub name: Box<str>,
    /// Counts of its workers and calls.
    pub stats: ContextStats,
    /// Total time of those calls, nanoseconds.
    pub busy_ns: u64,
    /// Resources of each of those workers, including the number of CPU slots.
    pub demand: ResourceRequest,
    /// Number and cost of its setups.
    pub setups: Setups,
    /// Bytes of the files that each node has for it.
    pub disk: u64,
    /// Reason why no worker can have it.
    pub failure: Option<Box<str>>,
}

/// Number and cost of setups. The time includes the start of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setups {
    /// Number of setups.
    pub count: u64,
    /// Total time, nanoseconds.
    pub took_ns: u64,
    /// Memory of the process after its last setup, bytes. If several nodes report it, the maximum.
    pub memory: u64,
}

impl Setups {
    /// Adds the setups of a node.
    pub(super) fn add(&mut self, state: &ContextState) {
        self.count = self.count.saturating_add(state.setups);
        self.took_ns = self.took_ns.saturating_add(state.setup_ns);
        self.memory = self.memory.max(state.memory);
    }
}

/// Totals of a context on nodes, counted there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RemoteContextTotals {
    deployments: u64,
    calls: u64,
    busy_ns: u64,
}

impl RemoteContextTotals {
    pub(super) fn add(&mut self, state: &ContextState) {
        self.deployments = self.deployments.saturating_add(state.deployments);
        self.calls = self.calls.saturating_add(state.calls);
        self.busy_ns = self.busy_ns.saturating_add(state.busy_ns);
    }
}

impl Client {
    /// Returns the cost and the use of a context; `None` if it is not known.
    pub fn context_report(&self, id: ContextId) -> Option<ContextReport> {
        let mut inner = self.lock();
        inner.drain();
        let entry = inner.port.contexts.entries.get(&id)?;
        let mut stats = inner.core.context_stats(id)?;
        let (mut setups, mut elsewhere) = (entry.setups, entry.departed);
        let links = &inner.port.links;
        let there = links.peers().filter_map(|peer| links.get(peer)?.contexts.state(id));
        for state in there {
            stats.workers = stats.workers.saturating_add(state.workers);
            elsewhere.add(state);
            setups.add(state);
        }
        let busy_ns = inner.port.scale.to_ns(stats.busy_ticks);
        stats.deployments = stats.deployments.saturating_add(elsewhere.deployments);
        stats.calls = stats.calls.saturating_add(elsewhere.calls);
        Some(ContextReport {
            name: entry.definition.name.clone(),
            stats,
            busy_ns: busy_ns.saturating_add(elsewhere.busy_ns),
            demand: entry.definition.demand,
            setups,
            disk: entry.definition.files.iter().map(Digest::size).sum(),
            failure: inner.core.context_failure(id).map(|failure| failure.text.clone()),
        })
    }
}
