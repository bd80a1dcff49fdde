//! A segment serves two processes, and refuses what is not one.
#![cfg(not(gristmill_loom))]

use gristmill_shm::{
    BeginError, Claim, ClientLane, Segment, SegmentError, SegmentOptions, WorkerLane,
};
use gristmill_sync::barrier::{BarrierMode, register};
use gristmill_wire::{Epoch, Kind, SlotId};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const OPTIONS: SegmentOptions =
    SegmentOptions { slot_count: 2, task_ring_size: 4096, result_ring_size: 4096 };

fn reopen(segment: &Segment) -> Segment {
    let descriptor = segment.as_fd().try_clone_to_owned().expect("a descriptor is free");
    Segment::open(descriptor, None).expect("it is a segment")
}

/// A worker that answers each task with its word + 1, in batches, until it is told to leave.
fn echo(lane: &mut WorkerLane) {
    let mode = lane.control.mode();
    let mut is_leaving = false;
    while !is_leaving {
        while let Some(record) = lane.tasks.peek().expect("no corruption") {
            is_leaving = record.header().kind == Kind::Stop;
            let (sequence, word) = (record.sequence(), record.word(0).expect("each has a word"));
            assert_eq!(lane.control.progress().claim(&record, mode), Claim::Run);
            let _ = lane.tasks.consume();
            lane.control.progress().start(sequence, 0);
            answer(lane, word + 1);
            lane.control.progress().end(sequence);
            if lane.tasks.writer_waits(mode)
                && lane.tasks.publish_tail() == gristmill_shm::Tail::Published
            {
                lane.control.peer_bell().ring(mode);
            }
        }
        let _ = lane.tasks.publish_tail();
        lane.control.peer_bell().ring(mode);
        if !is_leaving {
            lane.control.own_bell().sleep(mode, || !lane.tasks.has_record(), None);
        }
    }
}

fn answer(lane: &mut WorkerLane, word: u64) {
    let mode = lane.control.mode();
    loop {
        match lane.results.begin(Kind::Answer, 0, 8) {
            Ok(mut record) => {
                record.word(0, word);
                record.commit();
                break;
            }
            Err(BeginError::Full { .. }) => {
                lane.control.peer_bell().ring(mode);
                lane.results.want_room(true);
                let results = &mut lane.results;
                lane.control.own_bell().sleep(mode, || !results.has_room(8), None);
                lane.results.want_room(false);
            }
            Err(other) => panic!("{other}"),
        }
    }
    lane.control.peer_bell().ring(mode);
}

/// Sends `count` tasks and a stop, and reads every answer, sleeping whenever there is nothing to do.
fn drive(lane: &mut ClientLane, count: u64) {
    let mode = lane.control.mode();
    let (mut sent, mut answered) = (0, 0);
    while answered <= count {
        while sent <= count {
            let kind = if sent == count { Kind::Stop } else { Kind::Task };
            let Ok(mut record) = lane.tasks.begin(kind, 0, 8) else { break };
            record.word(0, sent);
            record.commit();
            sent += 1;
        }
        lane.control.peer_bell().ring(mode);
        while let Some(record) = lane.results.peek().expect("no corruption") {
            assert_eq!(record.word(0), Ok(answered + 1), "answers come in order");
            answered += 1;
            let _ = lane.results.consume();
        }
        if lane.results.publish_tail() == gristmill_shm::Tail::Published
            && lane.results.writer_waits(mode)
        {
            lane.control.peer_bell().ring(mode);
        }
        if answered <= count {
            lane.tasks.want_room(sent <= count);
            let (tasks, results) = (&mut lane.tasks, &lane.results);
            let nothing = || !(results.has_record() || (sent <= count && tasks.has_room(8)));
            lane.control.own_bell().sleep(mode, nothing, None);
            lane.tasks.want_room(false);
        }
    }
}

fn echo_through_threads(mode: BarrierMode) {
    let segment = Segment::create_with_mode(&OPTIONS, mode).expect("there is memory");
    let mut worker = reopen(&segment).worker_lane(SlotId(1)).expect("slot 1 exists");
    let thread = std::thread::spawn(move || echo(&mut worker));
    drive(&mut segment.client_lane(SlotId(1)).expect("slot 1 exists"), 30_000);
    thread.join().expect("the worker returns");
}

#[test]
fn every_task_is_answered_with_membarrier() {
    if register() == BarrierMode::Membarrier {
        echo_through_threads(BarrierMode::Membarrier);
    }
}

#[test]
fn every_task_is_answered_with_fences() {
    echo_through_threads(BarrierMode::Fence);
}

#[test]
fn every_task_is_answered_by_another_process() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let mut client = segment.client_lane(SlotId(0)).expect("slot 0 exists");
    // SAFETY: the child uses its copy of the descriptor, memory that was allocated before, and the
    // allocator, which the C library keeps usable over a fork; it leaves without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can be made");
    if child == 0 {
        let outcome = std::panic::catch_unwind(|| {
            echo(&mut reopen(&segment).worker_lane(SlotId(0)).expect("slot 0 exists"));
        });
        // SAFETY: ends the child at once, without the test harness's exit handlers.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    drive(&mut client, 30_000);
    let mut status = 0;
    // SAFETY: `status` is valid to write to and the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the worker left by itself");
}

#[test]
fn a_killed_worker_s_last_results_are_read_and_its_slot_is_used_again() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    for epoch in 1..4 {
        segment.reset_lane(SlotId(0), Epoch(epoch)).expect("slot 0 exists");
        let mut client = segment.client_lane(SlotId(0)).expect("slot 0 exists");
        let mut worker = reopen(&segment).worker_lane(SlotId(0)).expect("slot 0 exists");
        assert_eq!(worker.control.epoch(), Epoch(epoch));
        worker.results.begin_growing(Kind::Results, 64).expect("there is room");
        for part in 0..2 {
            let written = worker.results.grow(&[part; 8]).expect("there is room");
            worker.control.progress().written(written);
        }
        drop(worker); // killed before it committed
        assert!(client.results.peek().expect("no corruption").is_none());
        let written = client.control.progress().written();
        let record = client.results.peek_growing(Kind::Results, written).expect("no corruption");
        let mut parts = Vec::new();
        record.expect("it grew").append_parts(0, &mut parts).expect("all of it");
        assert_eq!(parts, [[0; 8], [1; 8]].concat());
    }
}

#[test]
fn orders_reach_the_worker() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let client = segment.client_lane(SlotId(0)).expect("slot 0 exists").control;
    let worker = reopen(&segment).worker_lane(SlotId(0)).expect("slot 0 exists").control;
    assert_eq!((worker.interrupt_requested(), worker.is_stopped()), (None, false));
    assert_eq!(worker.valid_until(), u64::MAX);
    client.interrupt(Some(4));
    client.set_valid_until(99);
    client.stop();
    assert_eq!((worker.interrupt_requested(), worker.is_stopped()), (Some(4), true));
    assert_eq!(worker.valid_until(), 99);
    client.interrupt(None);
    assert_eq!(worker.interrupt_requested(), None);
}

#[test]
fn a_child_of_the_client_does_not_inherit_the_mapping() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let flags = mapping_flags();
    assert!(flags.iter().any(|line| line.split(' ').any(|flag| flag == "dc")), "{flags:?}");
    drop(segment);
}

/// The flags of the mappings of segments in this process.
fn mapping_flags() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
    let behind = maps.split("memfd:gristmill").skip(1);
    behind
        .filter_map(|part| part.lines().find(|line| line.starts_with("VmFlags")))
        .map(str::to_owned)
        .collect()
}

fn memory(bytes: &[u8], seals: i32) -> OwnedFd {
    // SAFETY: the name is a terminated string that outlives the call.
    let descriptor = unsafe { libc::memfd_create(c"other".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(descriptor >= 0, "a descriptor is free");
    // SAFETY: the call just returned it, so it is open and nobody else owns it.
    let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    file.write_all(bytes).expect("there is memory");
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file.into()
}

#[test]
fn what_is_not_a_segment_is_refused() {
    let pipe = std::io::pipe().expect("descriptors are free").0;
    let error = Segment::open(pipe.into(), None).expect_err("a pipe is not memory");
    assert_eq!(error.code(), "segment_not_memory");
    let error = Segment::open(memory(&[0; 8192], 0), None).expect_err("it can shrink");
    assert_eq!(error.code(), "segment_not_sealed");
    let sealed = libc::F_SEAL_SHRINK;
    let error = Segment::open(memory(&[0; 100], sealed), None).expect_err("it is too small");
    assert_eq!(error.code(), "segment_wrong_size");
    let error = Segment::open(memory(&[1; 8192], sealed), None).expect_err("it has no magic");
    assert_eq!(error.code(), "segment_not_one");
}

#[test]
fn any_changed_header_word_is_refused_or_harmless() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let size = 2 * 4096 + 2 * (4096 + 2 * 8192);
    let mut bytes = vec![0; size];
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("one is free"));
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("it is that long");
    for word in 0..10 {
        for value in [0, 5, 1 << 63, u64::MAX] {
            let mut changed = bytes.clone();
            changed[word * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
            let opened = Segment::open(memory(&changed, libc::F_SEAL_SHRINK), None);
            // The size of the whole is not read: it follows from the others.
            assert!(opened.is_err() || word == 9, "word {word} as {value:#x} is accepted");
        }
    }
}

#[test]
fn a_table_that_points_outside_is_refused() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("one is free"));
    for offset in [0_u64, 4097, 1 << 20, u64::MAX] {
        std::os::unix::fs::FileExt::write_all_at(&file, &offset.to_le_bytes(), 8192 + 384)
            .expect("the memory is writable");
        let error = segment.worker_lane(SlotId(0)).expect_err("the ring is outside");
        assert!(matches!(error, SegmentError::BadRing { offset: found, .. } if found == offset));
    }
}

#[test]
fn impossible_sizes_say_so() {
    let create = |options| Segment::create(&options).expect_err("it is impossible").code();
    assert_eq!(create(SegmentOptions { slot_count: 0, ..OPTIONS }), "segment_bad_size");
    let odd = SegmentOptions { task_ring_size: 5000, ..OPTIONS };
    assert_eq!(create(odd), "segment_bad_ring_size");
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let error = segment.client_lane(SlotId(2)).expect_err("there are two");
    assert_eq!(error.to_string(), "there is no slot 2: the segment has 2");
}
