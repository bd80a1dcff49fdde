//! Contexts across links. An engine tells a peer of a context before it sends the first task that names the context or that may
//! submit such a task. It defines the peer's contexts here, and tells the peer their states. Clients tell leases of the
//! program's contexts. Leases tell their clients of the contexts that tasks there have made, because tasks that name them may
//! run elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use gristmill_core::Floor;
use gristmill_wire::peer::{ContextState, ContextTerms, Control};
use gristmill_wire::{ContextId, Digest, PeerId};

use super::definitions::DefinitionWork;
use super::home::{EngineParts, LinkHome, LinkPort};
use super::link::LinkError;
use super::peer_functions::DEFINITIONS_MAX;
use super::refusals::Refusals;
use super::sending::{ENVELOPE_SIZE, Sending};
use super::size_errors::large_context;
use crate::contexts::ContextDefinition;

/// Approximate cost of a context besides its bytes: the limit then admits only as many contexts as a lease can scan.
pub const CONTEXT_SIZE: usize = 64 << 10;

/// Returns what the definition of a context counts as, whose name and setup have `size` bytes.
pub(crate) fn size_of_context(size: usize, file_count: usize) -> usize {
    size.saturating_add(CONTEXT_SIZE.saturating_mul(1 + file_count))
}

fn above_limit(size: usize) -> String {
    format!(
        "with it the definitions of your contexts take {size} bytes there, and the limit is {DEFINITIONS_MAX}"
    )
}

/// Returns why a task cannot define a context: its setup, of `size` bytes, is larger than all definitions of a worker may be.
/// Returns `None` if it is not.
#[must_use]
pub fn setup_excess(name: &str, size: usize) -> Option<String> {
    let sizes = || format!("its setup takes {size} bytes, and the limit is {DEFINITIONS_MAX}");
    (size > DEFINITIONS_MAX).then(|| large_context(Some(name), "the program", &sizes()))
}

/// Contexts of each end of a link that the other end knows.
#[derive(Debug, Default)]
pub struct LinkContexts {
    /// Contexts of this side that the other end was told of.
    defined: HashSet<ContextId>,
    /// Version of this side's contexts when the other end was last told of all of them.
    reported_version: u64,
    /// States of those contexts at the other end.
    states: HashMap<ContextId, ContextState>,
    /// Contexts here that the other end's ids stand for.
    by_theirs: BTreeMap<ContextId, Known>,
    size: usize,
    /// Ids of the other end whose contexts are too large to be kept here.
    refused: Refusals<ContextId>,
}

#[derive(Debug)]
struct Known {
    ours: ContextId,
    size: usize,
    /// State that the other end was told last.
    state: ContextState,
}

impl LinkContexts {
    /// Returns the state of one of this side's contexts at the other end.
    pub fn state(&self, ours: ContextId) -> Option<&ContextState> {
        self.states.get(&ours)
    }

    /// Returns the states of all of this side's contexts at the other end.
    pub fn states(&self) -> impl Iterator<Item = &ContextState> {
        self.states.values()
    }

    /// Returns the context here that one of the other end's ids stands for.
    fn ours(&self, theirs: ContextId) -> Option<ContextId> {
        self.by_theirs.get(&theirs).map(|known| known.ours)
    }

    /// Returns the other end's id of a context here.
    fn theirs(&self, ours: ContextId) -> Option<ContextId> {
        let mut known = self.by_theirs.iter().filter(|(_, known)| known.ours == ours);
        known.next().map(|(&theirs, _)| theirs)
    }

    /// Returns all contexts here that the other end's ids stand for.
    pub fn all_ours(&self) -> Vec<ContextId> {
        self.by_theirs.values().map(|known| known.ours).collect()
    }
}

/// Methods that tell peers of contexts.
pub trait ContextTelling: LinkPort {
    /// Returns the id of a context for a task that goes to a peer: the peer's own id if the peer has told of the context,
    /// otherwise this side's id. Tells the peer of the context first if it does not know it.
    ///
    /// # Errors
    /// A sentence if the context is too large for the peer.
    fn name_context(&mut self, peer: PeerId, context: ContextId) -> Result<ContextId, String> {
        let Some(link) = self.links().get(peer) else { return Ok(context) };
        if context == ContextId(0) || link.contexts.defined.contains(&context) {
            return Ok(context);
        }
        if let Some(theirs) = link.contexts.theirs(context) {
            return Ok(theirs.of_receiver());
        }
        self.tell_context(peer, context).map(|()| context)
    }

    /// Returns the id of a context at a peer that knows it; 0 stands for no context.
    fn known_name(&self, peer: PeerId, context: ContextId) -> Option<ContextId> {
        let contexts = &self.links().get(peer)?.contexts;
        if context == ContextId(0) || contexts.defined.contains(&context) {
            return Some(context);
        }
        contexts.theirs(context).map(ContextId::of_receiver)
    }

    /// Returns the context here that a peer's id stands for, where 0 is no context; `None` if it is not known here any more.
    fn find_named(&self, peer: PeerId, named: ContextId) -> Option<ContextId> {
        let contexts = &self.links().get(peer)?.contexts;
        match named.own() {
            _ if named == ContextId(0) => Some(named),
            Some(ours) => contexts.defined.get(&ours).copied(),
            None => contexts.ours(named),
        }
    }

    /// Sends a peer the definition of a context.
    ///
    /// # Errors
    /// A sentence if the definition is too large for the peer.
    fn tell_context(&mut self, peer: PeerId, context: ContextId) -> Result<(), String> {
        let Some(definition) = self.contexts().get(context).cloned() else { return Ok(()) };
        let receiver = self.name_of(peer);
        let Some(link) = self.links_mut().get_mut(peer) else { return Ok(()) };
        let (name, file_count) = (&definition.name, definition.files.len());
        let size = name.len() + definition.setup.len();
        let kept = size_of_context(size, file_count);
        let sizes = match link.check(ENVELOPE_SIZE + size + size_of::<Digest>() * file_count) {
            Err(excess) => Some(excess.to_string()),
            Ok(()) => (kept > DEFINITIONS_MAX).then(|| above_limit(kept)),
        };
        if let Some(sizes) = sizes {
            return Err(large_context(Some(name), &receiver, &sizes));
        }
        link.contexts.defined.insert(context);
        definition.terms(context).write(&mut link.out);
        Ok(())
    }

    /// Tells a peer of all new contexts of this side before a task goes there: tasks that the peer submits may name them, and
    /// values that it received may hold only their keys.
    #[inline]
    fn tell_new_contexts(&mut self, peer: PeerId) {
        let version = self.contexts().version();
        if self.links().get(peer).is_some_and(|link| link.contexts.reported_version != version) {
            self.tell_all_contexts(peer, version);
        }
    }

    /// Tells a peer of the contexts of `from`, because a task of `from` goes to the peer.
    #[cold]
    fn tell_contexts_of(&mut self, peer: PeerId, from: PeerId) {
        let Some(link) = self.links().get(from) else { return };
        for context in link.contexts.all_ours() {
            // A task that names a context which is too large for the peer does not go there.
            let _ = self.name_context(peer, context);
        }
    }

    /// Tells a peer of all contexts of this side. A client does so even if the lease has told of the same context: the context
    /// may have no user left at the lease.
    #[cold]
    fn tell_all_contexts(&mut self, peer: PeerId, version: u64) {
        for (context, uses) in self.contexts().in_use() {
            let links = self.links();
            let Some(link) = links.get(peer) else { return };
            let all = links.peers().filter_map(|one| links.get(one));
            let received_here = all.filter(|one| one.contexts.theirs(context).is_some()).count();
            let is_own = uses as usize > received_here;
            let is_theirs = links.is_lease && link.contexts.theirs(context).is_some();
            if is_own && !is_theirs && !link.contexts.defined.contains(&context) {
                let _ = self.tell_context(peer, context);
            }
        }
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.contexts.reported_version = version;
        }
    }

    /// Tells all peers that know a context that no task will name it any more.
    fn tell_dropped(&mut self, context: ContextId) {
        let links = self.links_mut();
        for peer in links.peers() {
            let Some(link) = links.get_mut(peer) else { continue };
            if link.contexts.defined.remove(&context) {
                link.contexts.states.remove(&context);
                Control::ForgetContext { context }.write(&mut link.out);
                links.has_outgoing = true;
            }
        }
    }
}

impl<P: LinkPort> ContextTelling for P {}

/// Methods that handle the contexts of the other end.
pub(super) trait ContextWork: LinkHome {
    /// Defines a peer's context in this engine.
    fn take_context(&mut self, peer: PeerId, terms: &ContextTerms<'_>) -> Result<(), LinkError> {
        let theirs = terms.context;
        self.check_new_context(peer, theirs)?;
        let Some(link) = self.links().get(peer) else { return Ok(()) };
        let files: Arc<[Digest]> = terms.files.iter().collect();
        let own = size_of_context(terms.name.len() + terms.setup.len(), files.len());
        let size = link.contexts.size.saturating_add(own);
        if size > DEFINITIONS_MAX {
            let name = String::from_utf8_lossy(terms.name);
            self.refuse_context(peer, (theirs, Some(&name)), &above_limit(size));
            return Ok(());
        }
        let definition = ContextDefinition::received(terms);
        let options = definition.options();
        let ours = self.port_mut().contexts_mut().define(definition);
        self.parts().core.define_context(ours, options);
        if let Some(link) = self.links_mut().get_mut(peer) {
            let state = ContextState { context: theirs, ..ContextState::default() };
            link.contexts.by_theirs.insert(theirs, Known { ours, size: own, state });
            link.contexts.size = size;
            link.contexts.refused.remove(theirs);
        }
        if !files.is_empty() {
            self.provide_files(peer, ours);
        }
        if self.links().is_lease {
            self.untell_context(peer, ours);
        }
        Ok(())
    }

    /// Checks that a peer may define a context by this id.
    ///
    /// # Errors
    /// [`LinkError::Context`]: the id is not the peer's, or stands for a context.
    fn check_new_context(&self, peer: PeerId, theirs: ContextId) -> Result<(), LinkError> {
        let link = self.links().get(peer);
        let is_known = link.is_some_and(|link| link.contexts.ours(theirs).is_some());
        if is_known || theirs == ContextId(0) || theirs.own().is_some() {
            return Err(LinkError::Context(theirs));
        }
        Ok(())
    }

    /// Notes that a peer's id stands for no context: its definition is too large, as `sizes` says.
    fn refuse_context(
        &mut self,
        peer: PeerId,
        (theirs, name): (ContextId, Option<&str>),
        sizes: &str,
    ) {
        let reason = large_context(name, &self.own_name(peer), sizes);
        if let Some(link) = self.links_mut().get_mut(peer) {
            link.contexts.refused.insert(theirs, reason.into());
        }
    }

    /// Returns why the context that a peer's task names is not here, if it was refused.
    fn context_refusal(&self, peer: PeerId, named: ContextId) -> Option<Arc<str>> {
        let contexts = &self.links().get(peer)?.contexts;
        let may_be = named != ContextId(0) && named.own().is_none();
        if may_be && contexts.ours(named).is_none() {
            contexts.refused.reason(named).cloned()
        } else {
            None
        }
    }

    /// Withdraws this side's id of a context that the client has told of as well, and uses the client's id from now on.
    /// Otherwise each side would keep the context for the other, for ever.
    fn untell_context(&mut self, peer: PeerId, ours: ContextId) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        if link.contexts.defined.remove(&ours) {
            link.contexts.states.remove(&ours);
            self.port_mut().say(peer, &Control::ForgetContext { context: ours });
        }
    }

    /// Forgets a context that a peer does not name any more.
    fn forget_context(&mut self, peer: PeerId, theirs: ContextId, now: u64) {
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        link.contexts.refused.remove(theirs);
        let Some(known) = link.contexts.by_theirs.remove(&theirs) else { return };
        link.contexts.size -= known.size;
        let EngineParts { core, port, .. } = self.parts();
        core.set_peers_floor((peer, known.ours), (Floor::NONE, 0), now, port);
        self.release_context(known.ours, now);
    }

    /// Releases one use of a context here; forgets the context after its last use.
    fn release_context(&mut self, ours: ContextId, now: u64) {
        if self.port_mut().contexts_mut().release(ours) {
            let EngineParts { core, port, .. } = self.parts();
            core.forget_context(ours, now, port);
        }
    }

    /// Returns the context here that a peer's task names, where 0 is no context. Returns `None` if this side does not know the
    /// context any more and the peer had not heard of that. A context of this side gains a use, which [`Self::release_context`]
    /// takes away.
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
        if !link.contexts.defined.contains(&ours) {
            return Ok(None);
        }
        let contexts = self.port_mut().contexts_mut();
        let options = contexts.get(ours).map(ContextDefinition::options);
        let Some(options) = options.filter(|_| contexts.use_again(ours)) else { return Ok(None) };
        // This task may be the only user of the context here.
        self.parts().core.define_context(ours, options);
        Ok(Some(ours))
    }

    /// Records the state of one of this side's contexts at a peer.
    fn take_context_state(&mut self, peer: PeerId, state: ContextState) {
        if let Some(link) = self.links_mut().get_mut(peer)
            && link.contexts.defined.contains(&state.context)
        {
            link.contexts.states.insert(state.context, state);
            // Tasks there may have waited for the context's files, and could not be given back until now.
            self.parts().core.peer_supplied(peer);
        }
    }

    /// Tells peers of contexts with which workers came up or ran nested tasks. This precedes the answers of those tasks.
    fn tell_context_changes(&mut self) {
        let changes = self.core().context_changes();
        if self.links().reported_changes == changes {
            return;
        }
        self.links_mut().reported_changes = changes;
        for peer in self.links().peers() {
            self.tell_context_states(peer);
        }
    }

    /// Sends a peer the states of its contexts here that have changed.
    fn tell_context_states(&mut self, peer: PeerId) {
        let Some(link) = self.links().get(peer) else { return };
        let mut changed = Vec::new();
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
                changed.push(state);
            }
        }
        self.links_mut().has_outgoing |= !changed.is_empty();
        let Some(link) = self.links_mut().get_mut(peer) else { return };
        for state in changed {
            state.write(&mut link.out);
            if let Some(known) = link.contexts.by_theirs.get_mut(&state.context) {
                known.state = state;
            }
        }
    }
}

impl<H: LinkHome> ContextWork for H {}
