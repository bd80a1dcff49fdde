//! Functions that the tasks of a worker submit. The worker defines each before the first task that names it.

use std::sync::Arc;

use gristmill_wire::{FunctionId, SlotId};

use crate::inner::Inner;
use crate::peers::PeerFunctions;

/// The functions behind the numbers of one worker.
#[derive(Debug, Default)]
pub(super) struct NestedFunctions {
    known: PeerFunctions,
}

impl NestedFunctions {
    /// Returns the function of this client behind a worker's number.
    pub fn get(&self, theirs: u32) -> Option<FunctionId> {
        self.known.get(FunctionId(theirs))
    }

    /// Returns all functions of this client that the worker has defined.
    pub fn ours(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.known.ours()
    }

    /// Returns the number of functions, and the size of their definitions together in bytes.
    pub fn audit(&self) -> (usize, usize) {
        self.known.audit()
    }

    /// Returns why a number stands for no function.
    pub fn reason(&self, theirs: u32) -> Arc<str> {
        let unknown =
            "its function is unknown: the worker sent no definition that the engine could read";
        self.known.refusal(FunctionId(theirs)).unwrap_or_else(|| unknown.into())
    }
}

impl Inner {
    /// Records the function behind a worker's number. Records only a reason if the worker's functions would take too much
    /// memory, or if what the function needs was refused.
    pub(super) fn define_nested_function(
        &mut self,
        slot: SlotId,
        theirs: u32,
        (definition, name): (&[u8], &str),
    ) {
        let limit = self.nested.functions_max;
        let functions = &self.nested.session(slot).functions;
        let size = definition.len() + name.len();
        if let Err(size) = functions.known.check(FunctionId(theirs), size, limit) {
            return self.refuse_nested_function(slot, theirs, size);
        }
        if let Some(reason) = functions.known.refusal_of_need()
            && !self.port.functions.has_needs(definition)
        {
            return self.refuse_nested_for(slot, theirs, reason);
        }
        let ours = self.port.functions.define(definition, name);
        let functions = &mut self.nested.session(slot).functions;
        if let Some(old) = functions.known.insert(FunctionId(theirs), ours, size) {
            self.forget_nested(old);
        }
    }

    /// Records that a worker's number stands for no function, because all definitions would take `size` bytes with this one.
    pub(super) fn refuse_nested_function(&mut self, slot: SlotId, theirs: u32, size: usize) {
        let limit = self.nested.functions_max;
        let reason = format!(
            "with its function, or a library that it needs, the definitions of the functions that this worker's tasks submit \
             take {size} bytes, and the limit is {limit}: pass large data as arguments, not as captured values, and submit \
             functions of large libraries in the program"
        );
        self.refuse_nested_for(slot, theirs, reason.into());
    }

    fn refuse_nested_for(&mut self, slot: SlotId, theirs: u32, reason: Arc<str>) {
        let functions = &mut self.nested.session(slot).functions;
        if let Some(ours) = functions.known.refuse(FunctionId(theirs), reason) {
            self.forget_nested(ours);
        }
    }

    /// Forgets a function that a worker does not name any more.
    pub(super) fn forget_nested_function(&mut self, slot: SlotId, theirs: u32) {
        let functions = &mut self.nested.session(slot).functions;
        if let Some(ours) = functions.known.remove(FunctionId(theirs)) {
            self.forget_nested(ours);
        }
    }
}
