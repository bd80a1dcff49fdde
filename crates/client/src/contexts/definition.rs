//! Definition of a context by the layer above, and its form in messages between processes.

use std::sync::Arc;

use gristmill_core::ContextOptions;
use gristmill_wire::peer::{ContextTerms, Files, text_of};
use gristmill_wire::{ContextId, Digest, NAME_SIZE_MAX, ResourceRequest};

/// Bytes of the key that identifies a context in all processes. A setup begins with it.
pub(super) const KEY_SIZE: usize = 16;

/// Definition of a context by the layer above. The bytes of the setup are opaque here, except for the key that they begin
/// with. A worker process interprets them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContextDefinition {
    /// Name for messages.
    pub name: Box<str>,
    /// Setup for a process with the context.
    pub setup: Arc<[u8]>,
    /// Maximum number of workers that have it at the same time.
    pub workers_max: u16,
    /// True if a process in which it was set up can be forked.
    pub is_fork_safe: bool,
    /// Time for which it is kept while it is unused, nanoseconds.
    pub linger_ns: u64,
    /// Files that a node must have before it is set up there.
    pub files: Arc<[Digest]>,
    /// Resources of each of its workers, including the number of CPU slots.
    pub demand: ResourceRequest,
}

impl ContextDefinition {
    /// Returns the options for the task graph.
    #[must_use]
    pub const fn options(&self) -> ContextOptions {
        let Self { workers_max, linger_ns, demand, .. } = *self;
        ContextOptions { workers_max, linger_ns, demand }
    }

    /// Returns true if each worker sets it up by itself. A process that has used its GPUs cannot be forked.
    pub(crate) const fn needs_own_setup(&self) -> bool {
        !self.is_fork_safe || self.demand.gpus > 0
    }

    /// Returns the key that a setup begins with.
    pub(crate) fn key_of(setup: &[u8]) -> &[u8] {
        &setup[..setup.len().min(KEY_SIZE)]
    }

    /// Returns true if a setup consists of its key alone.
    pub(crate) const fn is_key(setup: &[u8]) -> bool {
        setup.len() == KEY_SIZE
    }

    /// Returns the terms that other processes are sent. They know the context by the number `context`.
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

    /// Creates a definition from the terms that another process has sent. Of a long name only the beginning is kept: each error
    /// of a task of the context has a copy of it.
    pub(crate) fn received(terms: &ContextTerms<'_>) -> Self {
        Self {
            name: text_of(terms.name, NAME_SIZE_MAX).into(),
            setup: terms.setup.into(),
            workers_max: terms.workers_max.max(1),
            is_fork_safe: terms.is_fork_safe,
            linger_ns: terms.linger_ns,
            files: terms.files.iter().collect(),
            demand: terms.demand,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_name_from_elsewhere_only_the_beginning_is_kept() {
        let terms = ContextTerms {
            context: ContextId(1),
            workers_max: 1,
            is_fork_safe: true,
            linger_ns: 0,
            demand: ResourceRequest::NONE,
            name: &[b'y'; 3 * NAME_SIZE_MAX],
            setup: b"",
            files: Files::default(),
        };
        assert_eq!(ContextDefinition::received(&terms).name.len(), NAME_SIZE_MAX);
    }
}
