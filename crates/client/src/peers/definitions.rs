//! Functions that a peer defines, and the reasons why some are refused.

use std::sync::Arc;

use gristmill_wire::{FunctionId, PeerId, short_name};

use super::home::{LinkHome, LinkPort};
use super::peer_functions::DEFINITIONS_MAX;
use super::size_errors::large_function;

/// Methods that record the functions of peers.
pub(super) trait DefinitionWork: LinkHome {
    /// Records the function that a peer's function id stands for from now on, or why there is none.
    fn take_definition(
        &mut self,
        peer: PeerId,
        function: FunctionId,
        definition: &[u8],
        name: &str,
    ) {
        let Some(link) = self.links().get(peer) else { return };
        let size = definition.len() + name.len();
        if let Err(size) = link.functions.check(function, size, DEFINITIONS_MAX) {
            let sizes = format!(
                "with {} the definitions of your functions take {size} bytes there, and the limit is {DEFINITIONS_MAX}",
                short_name(name)
            );
            return self.refuse_function(peer, function, &sizes);
        }
        if let Some(reason) = link.functions.refusal_of_need()
            && !self.port_mut().writing().1.has_needs(definition)
        {
            return self.refuse_function_for(peer, function, reason);
        }
        let ours = self.port_mut().writing().1.define(definition, name);
        let link = self.links_mut().get_mut(peer);
        if let Some(before) = link.and_then(|link| link.functions.insert(function, ours, size)) {
            self.release_function(before);
        }
    }

    /// Forgets the function that a peer's function id stood for, because no task of the peer names the id any more.
    fn forget_definition(&mut self, peer: PeerId, function: FunctionId) {
        let link = self.links_mut().get_mut(peer);
        if let Some(ours) = link.and_then(|link| link.functions.remove(function)) {
            self.release_function(ours);
        }
    }

    fn release_function(&mut self, function: FunctionId) {
        let port = self.port_mut();
        if port.writing().1.release(function) {
            port.function_freed(function);
        }
    }

    /// Notes that a peer's function id stands for no function: its definition is too large, as `sizes` says.
    fn refuse_function(&mut self, peer: PeerId, function: FunctionId, sizes: &str) {
        let reason = large_function(&self.own_name(peer), sizes);
        self.refuse_function_for(peer, function, reason.into());
    }

    /// Notes that a peer's function id stands for no function, for a reason.
    fn refuse_function_for(&mut self, peer: PeerId, function: FunctionId, reason: Arc<str>) {
        let link = self.links_mut().get_mut(peer);
        if let Some(before) = link.and_then(|link| link.functions.refuse(function, reason)) {
            self.release_function(before);
        }
    }

    /// Returns what a peer's program knows this end as, in words.
    fn own_name(&self, peer: PeerId) -> String {
        match self.links().get(peer).map_or("", |link| &link.names.ours) {
            "" => "the program".to_owned(),
            name => format!("node {name}"),
        }
    }
}

impl<H: LinkHome> DefinitionWork for H {}
