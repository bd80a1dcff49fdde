//! Tasks that tasks submit: requests come on result rings, replies go out on task rings.

use gristmill_wire::{Kind, SlotId, TaskId};

use crate::inner::Inner;

/// Replies under way.
#[derive(Debug, Default)]
pub(crate) struct Nested {}

impl Nested {
    pub fn has_obligations(&self) -> bool {
        false
    }
}

impl Inner {
    pub fn nested_arrival(&mut self, _slot: SlotId, _kind: Kind, _body: &[u8], _now: u64) {}
    pub fn reply_nested(&mut self, _task: TaskId, _handle: u64) {}
    pub fn drop_nested(&mut self, _slot: SlotId) {}
}
