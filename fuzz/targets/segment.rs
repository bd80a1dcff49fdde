//! A memory file that is not quite a segment: opened, and used as far as it lets itself be used.
#![no_main]

use gristmill_fuzz::Input;
use gristmill_shm::{Segment, SegmentOptions};
use gristmill_wire::{Epoch, SlotId};
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Three pages of a true segment, which the fuzzer alters: the header, the client's, the slot's.
const ALTERED: usize = 3 * 4096;
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
const OPTIONS: SegmentOptions =
    SegmentOptions { slot_count: 2, task_ring_size: 4096, result_ring_size: 4096 };

/// A memory file of `size` bytes that begins with `head`; sealed unless `seals` is 0.
fn memory(head: &[u8], size: u64, seals: libc::c_int) -> OwnedFd {
    // SAFETY: the name is a terminated string; what the call returns is ours alone.
    let file = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let descriptor = libc::memfd_create(c"fuzz".as_ptr(), flags);
        assert!(descriptor >= 0, "a descriptor is free");
        File::from(OwnedFd::from_raw_fd(descriptor))
    };
    file.write_all_at(head, 0).expect("there is memory");
    file.set_len(size).expect("there are addresses");
    let descriptor = OwnedFd::from(file);
    // SAFETY: the call takes no pointers.
    let sealed = unsafe {
        libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&descriptor), libc::F_ADD_SEALS, seals)
    };
    assert_eq!(sealed, 0);
    descriptor
}

fn use_lanes(segment: &Segment, slot: u16) {
    if let Ok(mut lane) = segment.worker_lane(SlotId(slot)) {
        while let Ok(Some(record)) = lane.tasks.peek() {
            let _ = record.word(0);
            let _ = lane.tasks.consume();
        }
        let _ =
            lane.results.begin(gristmill_wire::Kind::Answer, 0, 8).map(|record| record.commit());
        let _ = (lane.control.interrupt_requested(), lane.control.is_stopped());
    }
    let _ = segment.reset_lane(SlotId(slot), Epoch(1));
    if let Ok(mut lane) = segment.client_lane(SlotId(slot)) {
        let _ = lane.results.peek();
        let _ = (lane.tasks.free_bytes(), lane.control.progress().claimed());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let mut head = vec![0; ALTERED];
    let source = File::from(segment.as_fd().try_clone_to_owned().expect("a descriptor is free"));
    source.read_exact_at(&mut head, 0).expect("three pages are there");
    let true_size = source.metadata().expect("it is a file").len();
    let (choice, other_size) = (input.byte(), input.word() % (1 << 40));
    let size = if choice & 1 == 0 { true_size } else { other_size.max(ALTERED as u64) };
    let seals = if choice & 14 == 14 { 0 } else { SEALS };
    while !input.is_empty() {
        let place = usize::from(input.short()) % (ALTERED / 8) * 8;
        head[place..place + 8].copy_from_slice(&input.word().to_le_bytes());
    }
    if let Ok(opened) = Segment::open(memory(&head, size, seals), None) {
        assert!(seals != 0, "an unsealed file can be cut off under its mapping");
        let _ = (opened.tick_scale().to_ns(u64::MAX), opened.tick_scale().from_ns(u64::MAX));
        let count = opened.options().slot_count;
        for slot in [0, 1, count - 1, count] {
            use_lanes(&opened, slot);
        }
    }
});
