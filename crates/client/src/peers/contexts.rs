//! Contexts across links: told to peers before the first task that names them, taken in from clients, and their state told
//! back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use gristmill_wire::peer::{ContextState, ContextTerms, Control, Files};
use gristmill_wire::{ContextId, Digest, PeerId};

use super::definitions::DEFINITIONS_MAX;
use super::home::{LinkHome, LinkPort, Parts};
use super::link::LinkError;
use crate::contexts::ContextDefinition;

/// What a context takes besides its bytes, about: as many as a lease can look through.
const ENTRY_SIZE: usize = 64 << 10;

/// What the two ends of a link know of each other's contexts.
#[derive(Debug, Default)]
pub struct LinkContexts {
    /// Ours that the other end was told of.
    told: HashSet<ContextId>,
    /// What became there of those.
    states: HashMap<ContextId, ContextState>,
    /// What the other end's ids stand for here.
    by_theirs: BTreeMap<ContextId, Known>,
    size: usize,
}

#[derive(Debug)]
struct Known {
    ours: ContextId,
    size: usize,
    /// What the other end was told of it last.
    state: ContextState,
}

impl LinkContexts {
    /// What became of one of ours at the other end.
    pub fn state(&self, ours: ContextId) -> Option<&ContextState> {
        self.states.get(&ours)
    }

    /// What became there of all of them.
    pub fn states(&self) -> impl Iterator<Item = &ContextState> {
        self.states.values()
    }

    /// What one of the other end's ids stands for here.
    fn ours(&self, theirs: ContextId) -> Option<ContextId> {
        self.by_theirs.get(&theirs).map(|known| known.ours)
    }

    /// All contexts here that the other end's stand for.
    pub fn all_ours(&self) -> Vec<ContextId> {
        self.by_theirs.values().map(|known| known.ours).collect()
    }
}

/// Telling peers of contexts.
pub trait ContextTelling: LinkPort {
    /// Tells a peer what a context is that a task names which goes there; 0 is none.
    fn tell_context(&mut self, peer: PeerId, context: ContextId) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if context == ContextId(0) || !link.contexts.told.insert(context) {
            return;
        }
        let Some(definition) = self.contexts().get(context).cloned() else { return };
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        let digests: Vec<[u8; 32]> = definition.files.iter().map(|digest| digest.0).collect();
        let terms = ContextTerms {
            context,
            workers_max: definition.workers_max,
            is_fork_safe: definition.is_fork_safe,
            linger_ns: definition.linger_ns,
            demand: definition.demand,
            name: definition.name.as_bytes(),
            setup: &definition.setup,
            files: Files::of(&digests),
        };
        terms.write(&mut link.out);
    }

    /// Tells all peers that know a context that no task will name it any more.
    fn tell_dropped(&mut self, context: ContextId) {
        let links = self.links_mut();
        for peer in links.peers() {
            let Some(link) = links.get_mut(peer) else { continue };
            if link.contexts.told.remove(&context) {
                link.contexts.states.remove(&context);
                Control::ForgetContext { context }.write(&mut link.out);
                links.has_outgoing = true;
            }
        }
    }
}

impl<P: LinkPort> ContextTelling for P {}

/// Contexts of clients.
pub(super) trait ContextWork: LinkHome {
    /// Makes a peer's context one of this engine's.
    fn take_context(&mut self, peer: PeerId, terms: &ContextTerms<'_>) -> Result<(), LinkError> {
        let theirs = terms.context;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let files: Arc<[Digest]> = terms.files.iter().collect();
        let own = ENTRY_SIZE * (1 + files.len()) + terms.name.len() + terms.setup.len();
        let size = link.contexts.size.saturating_add(own);
        let name = String::from_utf8_lossy(terms.name).into_owned();
        let is_for_its_side = self.links().is_lease && theirs != ContextId(0);
        if !is_for_its_side || link.contexts.ours(theirs).is_some() {
            return Err(LinkError::Context(theirs));
        }
        if size > DEFINITIONS_MAX {
            return Err(LinkError::Definitions { name, size });
        }
        let definition = ContextDefinition {
            name: name.into(),
            setup: terms.setup.into(),
            workers_max: terms.workers_max.max(1),
            is_fork_safe: terms.is_fork_safe,
            linger_ns: terms.linger_ns,
            files: Arc::clone(&files),
            demand: terms.demand,
        };
        let options = definition.options();
        let ours = self.port_mut().contexts_mut().define(definition);
        self.parts().core.define_context(ours, options);
        if let Some(link) = self.links_mut().get_mut(peer) {
            let state = ContextState { context: theirs, ..ContextState::default() };
            link.contexts.by_theirs.insert(theirs, Known { ours, size: own, state });
            link.contexts.size = size;
        }
        if !files.is_empty() {
            self.provide_files(peer, ours);
        }
        Ok(())
    }

    /// A peer names a context no more.
    fn forget_context(&mut self, peer: PeerId, theirs: ContextId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        let Some(known) = link.contexts.by_theirs.remove(&theirs) else { return };
        link.contexts.size -= known.size;
        self.release_context(known.ours, now);
    }

    /// One use less of a context here.
    fn release_context(&mut self, ours: ContextId, now: u64) {
        if self.port_mut().contexts_mut().release(ours) {
            let Parts { core, port, .. } = self.parts();
            core.forget_context(ours, now, port);
        }
    }

    /// The context here that a task of a peer names; 0 is none.
    fn context_of(&self, peer: PeerId, theirs: ContextId) -> Result<ContextId, LinkError> {
        if theirs == ContextId(0) {
            return Ok(theirs);
        }
        let known = self.links().get(peer).and_then(|link| link.contexts.ours(theirs));
        known.ok_or(LinkError::Context(theirs))
    }

    /// Notes what became of one of ours at a peer.
    fn take_context_state(&mut self, peer: PeerId, state: ContextState) {
        if let Some(link) = self.links_mut().get_mut(peer)
            && link.contexts.told.contains(&state.context)
        {
            link.contexts.states.insert(state.context, state);
            // Its tasks may have waited for the context's files, and could not be given back.
            self.parts().core.peer_supplied(peer);
        }
    }

    /// Tells peers of contexts with which workers came up: before the first answers of those.
    fn tell_context_changes(&mut self) {
        let changes = self.core().context_changes();
        if self.links().told_changes == changes {
            return;
        }
        self.links_mut().told_changes = changes;
        for peer in self.links().peers() {
            self.tell_context_states(peer);
        }
    }

    /// Tells a peer what has changed of its contexts here.
    fn tell_context_states(&mut self, peer: PeerId) {
        let Some(link) = self.links().get(peer) else { return };
        let mut news = Vec::new();
        for (&theirs, known) in &link.contexts.by_theirs {
            let Some(stats) = self.core().context_stats(known.ours) else { continue };
            let setups = self.port().contexts().setups(known.ours);
            let state = ContextState {
                context: theirs,
                workers: stats.workers,
                deployments: stats.deployments,
                setups: setups.count,
                setup_ns: setups.took_ns,
                memory: setups.memory,
            };
            if state != known.state {
                news.push(state);
            }
        }
        self.links_mut().has_outgoing |= !news.is_empty();
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        for state in news {
            state.write(&mut link.out);
            if let Some(known) = link.contexts.by_theirs.get_mut(&state.context) {
                known.state = state;
            }
        }
    }
}

impl<H: LinkHome> ContextWork for H {}
