//! Functions that the tasks of a worker submit. The worker defines each before the first task that names it.

use std::borrow::Cow;

use gristmill_wire::{FunctionId, SlotId};

use crate::inner::Inner;
use crate::peers::PeerFunctions;

/// The functions behind the numbers of one worker.
#[derive(Debug, Default)]
pub(super) struct NestedFunctions {
    known: PeerFunctions,
    /// The last function that was not kept, and the size that all definitions would have had with it, bytes.
    refused: Option<(u32, usize)>,
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

    /// Returns why a number stands for no function, if definitions may take `limit` bytes.
    pub fn reason(&self, theirs: u32, limit: usize) -> Cow<'static, str> {
        let Some((_, size)) = self.refused.filter(|(refused, _)| *refused == theirs) else {
            let text =
                "its function is unknown: the worker sent no definition that the engine could read";
            return text.into();
        };
        format!(
            "with its function the definitions of the functions that this worker's tasks submit take {size} bytes, and the \
             limit is {limit}: pass large data as arguments, not as captured values"
        )
        .into()
    }
}

impl Inner {
    /// Records the function behind a worker's number. Records nothing if the worker's functions would take too much memory.
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
        let ours = self.port.functions.define(definition, name);
        let functions = &mut self.nested.session(slot).functions;
        if let Some(old) = functions.known.insert(FunctionId(theirs), ours, size) {
            self.forget_nested(old);
        }
    }

    /// Records that a worker's number stands for no function, because all definitions would take `size` bytes with this one.
    pub(super) fn refuse_nested_function(&mut self, slot: SlotId, theirs: u32, size: usize) {
        self.forget_nested_function(slot, theirs);
        self.nested.session(slot).functions.refused = Some((theirs, size));
    }

    /// Forgets a function that a worker does not name any more.
    pub(super) fn forget_nested_function(&mut self, slot: SlotId, theirs: u32) {
        let functions = &mut self.nested.session(slot).functions;
        if let Some(ours) = functions.known.remove(FunctionId(theirs)) {
            self.forget_nested(ours);
        }
    }
}
