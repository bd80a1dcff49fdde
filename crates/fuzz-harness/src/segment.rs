//! A memory file that is almost a segment: opened, and used where its checks allow it.

use crate::input::Input;
use gristmill_shm::{Segment, SegmentOptions};
use gristmill_wire::{Epoch, SlotId};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bytes of the three pages of a true segment that the fuzzer alters: the header, the client's, the slot's.
const ALTERED: usize = 3 * 4096;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
const OPTIONS: SegmentOptions =
    SegmentOptions { slot_count: 2, task_ring_size: 4096, result_ring_size: 4096 };

/// Creates a memory file of `size` bytes that begins with `head`, with these seals.
fn memory(head: &[u8], size: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("fuzz", flags).expect("a descriptor is free"));
    file.write_all_at(head, 0).expect("there is memory");
    file.set_len(size).expect("there are addresses");
    fcntl_add_seals(&file, seals).expect("the file allows seals");
    file.into()
}

fn use_lanes(segment: &Segment, slot: u16) {
    if let Ok(mut ends) = segment.worker_ends(SlotId(slot)) {
        while let Ok(Some(record)) = ends.tasks.peek() {
            let _ = record.word(0);
            let _ = ends.tasks.consume();
        }
        let _ = ends
            .results
            .begin(gristmill_wire::RecordKind::Answer, 0, 8)
            .map(|record| record.commit());
        let _ = (ends.control.interrupt_requested(), ends.control.is_stopped());
    }
    let _ = segment.reset_slot(SlotId(slot), Epoch(1));
    if let Ok(mut ends) = segment.client_ends(SlotId(slot)) {
        let _ = ends.results.peek();
        let _ = (ends.tasks.free_bytes(), ends.control.progress().claimed());
    }
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let mut head = vec![0; ALTERED];
    let source = File::from(segment.as_fd().try_clone_to_owned().expect("a descriptor is free"));
    source.read_exact_at(&mut head, 0).expect("three pages are there");
    let true_size = source.metadata().expect("it is a file").len();
    let (choice, other_size) = (input.byte(), input.word() % (1 << 40));
    let size = if choice & 1 == 0 { true_size } else { other_size.max(ALTERED as u64) };
    let seals = if choice & 14 == 14 { SealFlags::empty() } else { SEALS };
    while !input.is_empty() {
        let place = usize::from(input.short()) % (ALTERED / 8) * 8;
        head[place..place + 8].copy_from_slice(&input.word().to_le_bytes());
    }
    if let Ok(opened) = Segment::open(memory(&head, size, seals), None) {
        assert!(!seals.is_empty(), "an unsealed file can be cut off under its mapping");
        let _ = (opened.tick_scale().to_ns(u64::MAX), opened.tick_scale().from_ns(u64::MAX));
        let count = opened.options().slot_count;
        for slot in [0, 1, count - 1, count] {
            use_lanes(&opened, slot);
        }
    }
}
