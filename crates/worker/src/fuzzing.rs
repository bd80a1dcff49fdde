//! Doors for the fuzz targets, built for them alone.

use std::os::fd::AsFd;

use gristmill_shm::{ClientArena, Record, Words, WorkerArena};
use gristmill_wire::{BatchCalls, SlotId, Temperature};

use crate::callee::ParentList;
use crate::read::{read_definition, read_task};

/// The arena of a worker whose client has put nothing into it.
pub fn arena() -> WorkerArena {
    let client = ClientArena::create(1).expect("memory");
    let descriptor = client.as_fd().try_clone_to_owned().expect("a descriptor");
    WorkerArena::open(descriptor, SlotId(0)).expect("an arena")
}

/// Splits a record as a task and as a definition; checks that the parts are what was there.
pub fn task<W: Words>(record: &Record<'_, W>, arena: &WorkerArena) {
    let mut body = Vec::new();
    if let Ok(task) = read_task(record, (0, Temperature::Hot), arena, &mut body) {
        assert!(task.payload_at <= body.len());
        let list = ParentList { bytes: &body[..task.payload_at], count: task.frame.parent_count };
        assert_eq!(list.iter().count(), usize::from(list.count()), "they were checked");
        let mut calls = BatchCalls::new(&body[task.payload_at..]);
        while let Ok(Some(call)) = calls.take() {
            assert!(call.len() < body.len());
        }
    }
    let _ = read_definition(record, arena, &mut body);
}

/// Goes through parents that changed after they were checked.
pub fn parents(bytes: &[u8], count: u16) {
    let list = ParentList { bytes, count };
    let size: usize = list.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(size <= bytes.len());
}
