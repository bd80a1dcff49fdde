//! A task record as the worker splits it: frame, extension, parents, payload.
#![no_main]

use gristmill_fuzz::{Input, with_record};
use gristmill_wire::Kind;
use gristmill_worker::fuzzing::{arena, parents, task};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static ARENA: gristmill_shm::WorkerArena = arena();
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (flags, count) = (input.byte(), input.short());
    // What an honest writer's ring holds, and what the bytes may have become while they were copied.
    ARENA.with(|arena| with_record(Kind::Task, flags, input.0, |record| task(record, arena)));
    parents(input.0, count);
});
