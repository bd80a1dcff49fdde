//! Tests of the segment: it serves two processes, and a descriptor that is no segment is refused.
#![cfg(not(gristmill_loom))]

use gristmill_shm::{
    BeginError, ClaimResult, ClientEnds, Segment, SegmentError, SegmentOptions, WorkerEnds,
};
use gristmill_sync::barrier::{BarrierMode, register};
use gristmill_wire::{Epoch, RecordKind, SlotId, WIRE_VERSION};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const OPTIONS: SegmentOptions =
    SegmentOptions { slot_count: 2, task_ring_size: 4096, result_ring_size: 4096 };

fn reopen(segment: &Segment) -> Segment {
    let descriptor = segment.as_fd().try_clone_to_owned().expect("a descriptor is free");
    Segment::open(descriptor, None).expect("it is a segment")
}

/// Runs a worker that answers each task with its word + 1, in batches, until it is told to exit.
fn echo(ends: &mut WorkerEnds) {
    let mode = ends.control.mode();
    let mut is_leaving = false;
    while !is_leaving {
        while let Some(record) = ends.tasks.peek().expect("no corruption") {
            is_leaving = record.header().kind == RecordKind::Stop;
            let (sequence, word) = (record.sequence(), record.word(0).expect("each has a word"));
            assert_eq!(ends.control.progress().claim(&record, mode), ClaimResult::Run);
            let _ = ends.tasks.consume();
            ends.control.progress().start(sequence, 0);
            answer(ends, word + 1);
            ends.control.progress().end(sequence);
            if ends.tasks.writer_waits(mode)
                && ends.tasks.publish_tail() == gristmill_shm::Tail::Published
            {
                ends.control.peer_bell().ring(mode);
            }
        }
        let _ = ends.tasks.publish_tail();
        ends.control.peer_bell().ring(mode);
        if !is_leaving {
            ends.control.own_bell().sleep(mode, || !ends.tasks.has_record(), None);
        }
    }
}

fn answer(ends: &mut WorkerEnds, word: u64) {
    let mode = ends.control.mode();
    loop {
        match ends.results.begin(RecordKind::Answer, 0, 8) {
            Ok(mut record) => {
                record.word(0, word);
                record.commit();
                break;
            }
            Err(BeginError::Full { .. }) => {
                ends.control.peer_bell().ring(mode);
                ends.results.want_room(true);
                let results = &mut ends.results;
                ends.control.own_bell().sleep(mode, || !results.has_room(8), None);
                ends.results.want_room(false);
            }
            Err(other) => panic!("{other}"),
        }
    }
    ends.control.peer_bell().ring(mode);
}

/// Sends `count` tasks and a stop, and reads every answer; sleeps when it has no work.
fn drive(ends: &mut ClientEnds, count: u64) {
    let mode = ends.control.mode();
    let (mut sent, mut answered) = (0, 0);
    while answered <= count {
        while sent <= count {
            let kind = if sent == count { RecordKind::Stop } else { RecordKind::Task };
            let Ok(mut record) = ends.tasks.begin(kind, 0, 8) else { break };
            record.word(0, sent);
            record.commit();
            sent += 1;
        }
        ends.control.peer_bell().ring(mode);
        while let Some(record) = ends.results.peek().expect("no corruption") {
            assert_eq!(record.word(0), Ok(answered + 1), "answers come in order");
            answered += 1;
            let _ = ends.results.consume();
        }
        if ends.results.publish_tail() == gristmill_shm::Tail::Published
            && ends.results.writer_waits(mode)
        {
            ends.control.peer_bell().ring(mode);
        }
        if answered <= count {
            ends.tasks.want_room(sent <= count);
            let (tasks, results) = (&mut ends.tasks, &ends.results);
            let nothing = || !(results.has_record() || (sent <= count && tasks.has_room(8)));
            ends.control.own_bell().sleep(mode, nothing, None);
            ends.tasks.want_room(false);
        }
    }
}

fn echo_through_threads(mode: BarrierMode) {
    let segment = Segment::create_with_mode(&OPTIONS, mode).expect("there is memory");
    let mut worker = reopen(&segment).worker_ends(SlotId(1)).expect("slot 1 exists");
    let thread = std::thread::spawn(move || echo(&mut worker));
    drive(&mut segment.client_ends(SlotId(1)).expect("slot 1 exists"), 30_000);
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
    let mut client = segment.client_ends(SlotId(0)).expect("slot 0 exists");
    // SAFETY: the child uses its copy of the descriptor, memory that was allocated before, and the
    // allocator, which the C library keeps usable over a fork; it leaves without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can be made");
    if child == 0 {
        let outcome = std::panic::catch_unwind(|| {
            echo(&mut reopen(&segment).worker_ends(SlotId(0)).expect("slot 0 exists"));
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
        segment.reset_slot(SlotId(0), Epoch(epoch)).expect("slot 0 exists");
        let mut client = segment.client_ends(SlotId(0)).expect("slot 0 exists");
        let mut worker = reopen(&segment).worker_ends(SlotId(0)).expect("slot 0 exists");
        assert_eq!(worker.control.epoch(), Epoch(epoch));
        worker.results.begin_growing(RecordKind::Results, 64).expect("there is room");
        for part in 0..2 {
            let written = worker.results.grow(&[part; 8]).expect("there is room");
            worker.control.progress().written(written);
        }
        drop(worker); // killed before it committed
        assert!(client.results.peek().expect("no corruption").is_none());
        let written = client.control.progress().written();
        let record =
            client.results.peek_growing(RecordKind::Results, written).expect("no corruption");
        let mut parts = Vec::new();
        record.expect("it grew").append_parts(0, &mut parts).expect("all of it");
        assert_eq!(parts, [[0; 8], [1; 8]].concat());
    }
}

#[test]
fn orders_reach_the_worker() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let client = segment.client_ends(SlotId(0)).expect("slot 0 exists").control;
    let worker = reopen(&segment).worker_ends(SlotId(0)).expect("slot 0 exists").control;
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

/// Returns the flags of the mappings of segments in this process.
fn mapping_flags() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel returns the status");
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
    // SAFETY: the call just returned the descriptor, so it is open and has no other owner.
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
    assert!(matches!(error, SegmentError::NotMemory { .. }), "{error}");
    let error = Segment::open(memory(&[0; 8192], 0), None).expect_err("it can shrink");
    assert!(matches!(error, SegmentError::NotSealed { .. }), "{error}");
    let sealed = libc::F_SEAL_SHRINK;
    let error = Segment::open(memory(&[0; 100], sealed), None).expect_err("it is too small");
    assert!(matches!(error, SegmentError::WrongSize { .. }), "{error}");
    let error = Segment::open(memory(&[1; 8192], sealed), None).expect_err("it has no magic");
    assert!(matches!(error, SegmentError::NotASegment { .. }), "{error}");
}

#[test]
fn any_changed_header_word_is_refused_or_harmless() {
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let size = 2 * 4096 + 2 * (4096 + 2 * 8192);
    let mut bytes = vec![0; size];
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("one is free"));
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("it is that long");
    for word in 0..10 {
        for value in [0, u64::from(WIRE_VERSION) + 1, 1 << 63, u64::MAX] {
            let mut changed = bytes.clone();
            changed[word * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
            let opened = Segment::open(memory(&changed, libc::F_SEAL_SHRINK), None);
            // The segment size is not read: it follows from the other words.
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
        let error = segment.worker_ends(SlotId(0)).expect_err("the ring is outside");
        assert!(matches!(error, SegmentError::BadRing { offset: found, .. } if found == offset));
    }
}

#[test]
fn impossible_sizes_say_so() {
    let create = |options| Segment::create(&options).expect_err("it is impossible");
    let none = create(SegmentOptions { slot_count: 0, ..OPTIONS });
    assert!(matches!(none, SegmentError::BadSize { .. }), "{none}");
    let odd = SegmentOptions { task_ring_size: 5000, ..OPTIONS };
    assert!(matches!(create(odd), SegmentError::Ring(_)));
    let segment = Segment::create(&OPTIONS).expect("there is memory");
    let error = segment.client_ends(SlotId(2)).expect_err("there are two");
    assert_eq!(error.to_string(), "there is no slot 2: the segment has 2");
}
