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

/// Records the function behind a worker's number. Records only a reason if the worker's functions would take too much
/// memory, or if what the function needs was refused.
pub(super) fn define(
    inner: &mut Inner,
    slot: SlotId,
    theirs: u32,
    (definition, name): (&[u8], &str),
) {
    let limit = inner.nested.functions_max;
    let functions = &inner.nested.session(slot).functions;
    let size = definition.len() + name.len();
    if let Err(size) = functions.known.check(FunctionId(theirs), size, limit) {
        return refuse(inner, slot, theirs, size);
    }
    if let Some(reason) = functions.known.refusal_of_need()
        && !inner.port.functions.has_needs(definition)
    {
        return refuse_for(inner, slot, theirs, reason);
    }
    let ours = inner.port.functions.define(definition, name);
    let functions = &mut inner.nested.session(slot).functions;
    if let Some(old) = functions.known.insert(FunctionId(theirs), ours, size) {
        inner.forget_nested(old);
    }
}

/// Records that a worker's number stands for no function, because all definitions would take `size` bytes with this one.
pub(super) fn refuse(inner: &mut Inner, slot: SlotId, theirs: u32, size: usize) {
    let limit = inner.nested.functions_max;
    let reason = format!(
        "with its function, or a library that it needs, the definitions of the functions that this worker's tasks submit \
         take {size} bytes, and the limit is {limit}: pass large data as arguments, not as captured values, and submit \
         functions of large libraries in the program"
    );
    refuse_for(inner, slot, theirs, reason.into());
}

fn refuse_for(inner: &mut Inner, slot: SlotId, theirs: u32, reason: Arc<str>) {
    let functions = &mut inner.nested.session(slot).functions;
    if let Some(ours) = functions.known.refuse(FunctionId(theirs), reason) {
        inner.forget_nested(ours);
    }
}

/// Forgets a function that a worker does not name any more.
pub(super) fn forget(inner: &mut Inner, slot: SlotId, theirs: u32) {
    let functions = &mut inner.nested.session(slot).functions;
    if let Some(ours) = functions.known.remove(FunctionId(theirs)) {
        inner.forget_nested(ours);
    }
}
