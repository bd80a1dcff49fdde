//! What the layer above decides of a context, and how processes tell each other of it.

use std::sync::Arc;

use gristmill_core::ContextOptions;
use gristmill_wire::peer::{ContextTerms, Files};
use gristmill_wire::{ContextId, Demand, Digest};

/// Bytes of what tells contexts apart wherever they are known; a setup begins with it.
pub(super) const KEY_SIZE: usize = 16;

/// What the layer above decides of a context. Its bytes are opaque here but for the key that they begin with: a worker's
/// process gets them, and knows what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContextDefinition {
    /// For messages.
    pub name: Box<str>,
    /// What a process with the context sets up.
    pub setup: Arc<[u8]>,
    /// Workers that have it at the same time, at most.
    pub workers_max: u16,
    /// Processes can be forked from one in which it was set up.
    pub is_fork_safe: bool,
    /// How long it is kept while nobody uses it, nanoseconds.
    pub linger_ns: u64,
    /// Files that nodes have before it is set up there.
    pub files: Arc<[Digest]>,
    /// What each of its workers has besides a place, and how many places.
    pub demand: Demand,
}

impl ContextDefinition {
    /// What the graph has to know.
    #[must_use]
    pub const fn options(&self) -> ContextOptions {
        let Self { workers_max, linger_ns, demand, .. } = *self;
        ContextOptions { workers_max, linger_ns, demand }
    }

    /// Whether each worker sets it up by itself: a process that has seen its GPUs cannot be forked.
    pub(crate) const fn needs_own_setup(&self) -> bool {
        !self.is_fork_safe || self.demand.gpus > 0
    }

    /// The key that a setup begins with.
    pub(crate) fn key_of(setup: &[u8]) -> &[u8] {
        &setup[..setup.len().min(KEY_SIZE)]
    }

    /// Whether what was told of a setup is its key alone.
    pub(crate) const fn is_key(setup: &[u8]) -> bool {
        setup.len() == KEY_SIZE
    }

    /// What other processes are told, with the number that they are to know it by.
    pub(crate) fn terms(&self, context: ContextId) -> ContextTerms<'_> {
        ContextTerms {
            context,
            workers_max: self.workers_max,
            is_fork_safe: self.is_fork_safe,
            linger_ns: self.linger_ns,
            demand: self.demand,
            name: self.name.as_bytes(),
            setup: &self.setup,
            files: Files::Named(&self.files),
        }
    }

    /// What another process has told.
    pub(crate) fn told(terms: &ContextTerms<'_>) -> Self {
        Self {
            name: String::from_utf8_lossy(terms.name).into(),
            setup: terms.setup.into(),
            workers_max: terms.workers_max.max(1),
            is_fork_safe: terms.is_fork_safe,
            linger_ns: terms.linger_ns,
            files: terms.files.iter().collect(),
            demand: terms.demand,
        }
    }
}
