//! Entry points of the fuzz targets. The tests compile them too, so that a change cannot break them unnoticed.

use gristmill_shm::{ClientArena, RingRecord, Words, WorkerArena};
use gristmill_wire::{BatchCalls, SlotId, WorkerState};

use crate::callee::ParentList;
use crate::read::{read_definition, read_task};

/// Creates the arena of a worker whose client has put nothing into it.
pub fn arena() -> WorkerArena {
    let client = ClientArena::create(1).expect("memory");
    let descriptors =
        client.descriptors().map(|one| one.try_clone_to_owned().expect("a descriptor"));
    WorkerArena::open(descriptors, SlotId(0)).expect("an arena")
}

/// Reads a record as a task and as a definition, and checks that the parts lie within the record.
pub fn task<W: Words>(record: &RingRecord<'_, W>, arena: &WorkerArena) {
    let mut body = Vec::new();
    if let Ok(task) = read_task(record, (0, WorkerState::Hot), arena, &mut body) {
        assert!(task.payload_at <= body.len());
        let list = ParentList { bytes: &body[..task.payload_at], count: task.frame.parent_count };
        assert_eq!(list.iter().count(), list.count() as usize, "they were checked");
        let mut calls = BatchCalls::new(&body[task.payload_at..]);
        while let Ok(Some(call)) = calls.take() {
            assert!(call.len() < body.len());
        }
    }
    let _ = read_definition(record, arena, &mut body);
}

/// Iterates over parents that changed after they were checked.
pub fn parents(bytes: &[u8], count: u32) {
    let list = ParentList { bytes, count };
    let size: usize = list.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(size <= bytes.len());
}
