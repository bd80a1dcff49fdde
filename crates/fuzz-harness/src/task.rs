//! A task record, as the worker splits it: frame, extension, parents, payload.

use crate::input::{Input, with_record};
use gristmill_wire::RecordKind;
use gristmill_worker::fuzzing::{arena, parents, task};

thread_local! {
    static ARENA: gristmill_shm::WorkerArena = arena();
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (flags, count) = (input.byte(), input.short());
    // First the record as an honest writer's ring holds it, then arbitrary bytes that a copy of it may contain.
    ARENA.with(|arena| with_record(RecordKind::Task, flags, input.0, |record| task(record, arena)));
    parents(input.0, count.into());
}
