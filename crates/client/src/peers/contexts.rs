//! Contexts across links: told to peers before the first task that names them, or that may submit such a task; taken in from
//! them, and their state told back. Clients tell leases of those of the program, and leases their clients of those that tasks
//! there have made: such tasks may be run elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use gristmill_wire::peer::{ContextState, ContextTerms, Control};
use gristmill_wire::{ContextId, Digest, PeerId};

use super::definitions::DEFINITIONS_MAX;
use super::home::{LinkHome, LinkPort, Parts};
use super::link::LinkError;
use super::sending::Sending;
use crate::contexts::ContextDefinition;

/// What a context takes besides its bytes, about: as many as a lease can look through.
pub const CONTEXT_SIZE: usize = 64 << 10;

/// What the two ends of a link know of each other's contexts.
#[derive(Debug, Default)]
pub struct LinkContexts {
    /// Ours that the other end was told of.
    told: HashSet<ContextId>,
    /// How far ours had changed when it was told of all.
    told_version: u64,
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

    /// Which of the other end's ids stands for a context here.
    fn theirs(&self, ours: ContextId) -> Option<ContextId> {
        let mut known = self.by_theirs.iter().filter(|(_, known)| known.ours == ours);
        known.next().map(|(&theirs, _)| theirs)
    }

    /// All contexts here that the other end's stand for.
    pub fn all_ours(&self) -> Vec<ContextId> {
        self.by_theirs.values().map(|known| known.ours).collect()
    }
}

/// Telling peers of contexts.
pub trait ContextTelling: LinkPort {
    /// What a context that a task names which goes to a peer is called there: by this side's number, of which the peer is told
    /// first; by the peer's own, if that has told of it.
    fn name_context(&mut self, peer: PeerId, context: ContextId) -> ContextId {
        let Some(link) = self.links().get(peer) else { return context };
        if context == ContextId(0) || link.contexts.told.contains(&context) {
            return context;
        }
        if let Some(theirs) = link.contexts.theirs(context) {
            return theirs.of_receiver();
        }
        self.tell_context(peer, context);
        context
    }

    /// Tells a peer what a context is.
    fn tell_context(&mut self, peer: PeerId, context: ContextId) {
        let Some(definition) = self.contexts().get(context).cloned() else { return };
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        link.contexts.told.insert(context);
        definition.terms(context).write(&mut link.out);
    }

    /// Tells a peer of all contexts of this side that are new, before a task goes there: tasks that it submits may name them,
    /// and what it has got may hold their keys alone.
    #[inline]
    fn tell_new_contexts(&mut self, peer: PeerId) {
        let version = self.contexts().version();
        if self.links().get(peer).is_some_and(|link| link.contexts.told_version != version) {
            self.tell_all_contexts(peer, version);
        }
    }

    /// Tells a peer of the contexts of the one whose task goes there.
    #[cold]
    fn tell_contexts_of(&mut self, peer: PeerId, from: PeerId) {
        let Some(link) = self.links().get(from) else { return };
        for context in link.contexts.all_ours() {
            self.name_context(peer, context);
        }
    }

    /// Tells a peer of all contexts of this side. A client does so even where the lease has told of one: there may be nobody
    /// left there who uses it.
    #[cold]
    fn tell_all_contexts(&mut self, peer: PeerId, version: u64) {
        for (context, uses) in self.contexts().in_use() {
            let links = self.links();
            let Some(link) = links.get(peer) else { return };
            let all = links.peers().filter_map(|one| links.get(one));
            let told_here = all.filter(|one| one.contexts.theirs(context).is_some()).count();
            let is_own = uses as usize > told_here;
            let is_theirs = links.is_lease && link.contexts.theirs(context).is_some();
            if is_own && !is_theirs && !link.contexts.told.contains(&context) {
                self.tell_context(peer, context);
            }
        }
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.contexts.told_version = version;
        }
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

/// Contexts of the other end.
pub(super) trait ContextWork: LinkHome {
    /// Makes a peer's context one of this engine's.
    fn take_context(&mut self, peer: PeerId, terms: &ContextTerms<'_>) -> Result<(), LinkError> {
        let theirs = terms.context;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let files: Arc<[Digest]> = terms.files.iter().collect();
        let own = CONTEXT_SIZE * (1 + files.len()) + terms.name.len() + terms.setup.len();
        let size = link.contexts.size.saturating_add(own);
        let is_name = theirs != ContextId(0) && theirs.own().is_none();
        if !is_name || link.contexts.ours(theirs).is_some() {
            return Err(LinkError::Context(theirs));
        }
        if size > DEFINITIONS_MAX {
            let name = String::from_utf8_lossy(terms.name).into_owned();
            return Err(LinkError::Definitions { name, size });
        }
        let definition = ContextDefinition::told(terms);
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
        if self.links().is_lease {
            self.untell_context(peer, ours);
        }
        Ok(())
    }

    /// A client has told of a context of which this side has told it. This side gives way, and names the client's from now
    /// on: else each would keep it for the other, for ever.
    fn untell_context(&mut self, peer: PeerId, ours: ContextId) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if link.contexts.told.remove(&ours) {
            link.contexts.states.remove(&ours);
            self.port_mut().say(peer, &Control::ForgetContext { context: ours });
        }
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

    /// The context here that a task of a peer names, 0 being none; nothing for one that is known here no more, which the peer
    /// had not heard. One of this side's own gains a use until [`Self::release_context`].
    fn take_named(
        &mut self,
        peer: PeerId,
        named: ContextId,
    ) -> Result<Option<ContextId>, LinkError> {
        let Some(link) = self.links().get(peer) else { return Ok(None) };
        if named == ContextId(0) {
            return Ok(Some(named));
        }
        let Some(ours) = named.own() else {
            return link.contexts.ours(named).map(Some).ok_or(LinkError::Context(named));
        };
        if !link.contexts.told.contains(&ours) {
            return Ok(None);
        }
        let contexts = self.port_mut().contexts_mut();
        let options = contexts.get(ours).map(ContextDefinition::options);
        let Some(options) = options.filter(|_| contexts.use_again(ours)) else { return Ok(None) };
        // Nobody here would name it any more, perhaps: but for this task.
        self.parts().core.define_context(ours, options);
        Ok(Some(ours))
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

    /// Tells peers of contexts with which workers came up or ran what tasks submitted: before the answers of those.
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
                calls: stats.nested_calls,
                busy_ns: self.port().scale().to_ns(stats.nested_ticks),
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
