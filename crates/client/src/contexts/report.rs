//! What contexts have cost, here and on nodes.

use gristmill_core::ContextStats;
use gristmill_wire::peer::ContextState;
use gristmill_wire::{ContextId, Demand, Digest};

use crate::client::Client;

/// What a context cost, and was good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// What it is called.
    pub name: Box<str>,
    /// Its workers and calls.
    pub stats: ContextStats,
    /// How long those calls took together, nanoseconds.
    pub busy_ns: u64,
    /// What each of those workers has besides a place, and how many places.
    pub demand: Demand,
    /// Its setups.
    pub setups: Setups,
    /// Bytes of the files that each node has for it.
    pub disk: u64,
    /// Why nobody can have it.
    pub failure: Option<Box<str>>,
}

/// How often something was set up, and how long that took: processes' starts are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setups {
    /// How often.
    pub count: u64,
    /// Together, nanoseconds.
    pub took_ns: u64,
    /// Memory that the last one left its process with, bytes.
    pub memory: u64,
}

impl Setups {
    /// Adds those of a node.
    pub(super) fn add(&mut self, state: &ContextState) {
        self.count = self.count.saturating_add(state.setups);
        self.took_ns = self.took_ns.saturating_add(state.setup_ns);
        self.memory = self.memory.max(state.memory);
    }
}

/// What a context came to on nodes, counted there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Departed {
    deployments: u64,
    calls: u64,
    busy_ns: u64,
}

impl Departed {
    pub(super) fn add(&mut self, state: &ContextState) {
        self.deployments = self.deployments.saturating_add(state.deployments);
        self.calls = self.calls.saturating_add(state.calls);
        self.busy_ns = self.busy_ns.saturating_add(state.busy_ns);
    }
}

impl Client {
    /// What a context cost, and was good for.
    pub fn context_report(&self, id: ContextId) -> Option<ContextReport> {
        let mut inner = self.lock();
        inner.drain();
        let entry = inner.lanes.contexts.entries.get(&id)?;
        let mut stats = inner.core.context_stats(id)?;
        let (mut setups, mut elsewhere) = (entry.setups, entry.departed);
        let links = &inner.lanes.links;
        let there = links.peers().filter_map(|peer| links.get(peer)?.contexts.state(id));
        for state in there {
            stats.workers = stats.workers.saturating_add(state.workers);
            elsewhere.add(state);
            setups.add(state);
        }
        let busy_ns = inner.lanes.scale.to_ns(stats.busy_ticks);
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
