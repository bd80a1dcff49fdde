//! Client and worker in one process, each with its own mapping of one arena.
#![cfg(not(gristmill_loom))]

use gristmill_shm::{ArenaError, ClientArena, PAGE_SIZE, WorkerArena};
use gristmill_wire::{BlockRange, SlotId};
use std::os::fd::AsFd;
use std::sync::Arc;

const SLOT: SlotId = SlotId(1);

fn pair() -> (ClientArena, Arc<WorkerArena>) {
    let client = ClientArena::create(2).expect("there is memory");
    client.renew(SLOT);
    let worker = open(&client);
    (client, worker)
}

fn open(client: &ClientArena) -> Arc<WorkerArena> {
    let descriptor = client.as_fd().try_clone_to_owned().expect("there are descriptors");
    Arc::new(WorkerArena::open(descriptor, SLOT).expect("it is an arena"))
}

fn store(worker: &WorkerArena, bytes: &[u8]) -> BlockRange {
    // SAFETY: a slice is as many readable bytes as it is long.
    unsafe { worker.store(bytes.as_ptr(), bytes.len()) }.expect("there is memory")
}

#[test]
fn arguments_reach_the_worker_and_results_the_client() {
    let (client, worker) = pair();
    let sent = client.store(&[7; 100_000]).expect("there is memory");
    let mut read = Vec::new();
    worker.append_to(sent.range(), &mut read).expect("it is there");
    assert_eq!(read, [7; 100_000]);
    let range = store(&worker, &[9; 70_000]);
    let result = client.adopt(SLOT, range).expect("it is the worker's");
    assert_eq!(result.to_vec(), [9; 70_000]);
    assert!(result.is_sole());
    drop(result);
    assert!(client.has_releases());
    assert_eq!(client.take_releases(), [(SLOT, range.offset)]);
    worker.free(range.offset);
    assert_eq!(store(&worker, &[1; 70_000]), range, "warm pages are used first");
}

#[test]
fn a_worker_can_name_what_lives_and_what_is_its_own_and_nothing_else() {
    let (client, worker) = pair();
    let argument = client.store(&[1; 100_000]).expect("there is memory");
    let inside = BlockRange { offset: argument.range().offset + 8, size: 99_000 };
    assert!(client.adopt(SLOT, inside).is_ok(), "a piece of an argument");
    let own = store(&worker, &[2; 100_000]);
    let _held = client.adopt(SLOT, own).expect("it is the worker's");
    let behind = BlockRange { size: 100_001, ..inside };
    let overlapping = BlockRange { offset: own.offset - PAGE_SIZE, size: 2 * PAGE_SIZE };
    let crooked = BlockRange { offset: own.offset + (1 << 20) + 8, size: 8 };
    let huge = BlockRange { offset: own.offset + (1 << 20), size: u64::MAX };
    let nothing = BlockRange { offset: own.offset + (1 << 20), size: 0 };
    let header = BlockRange { offset: 0, size: 8 };
    for range in [behind, overlapping, crooked, huge, nothing, header] {
        let refused = client.adopt(SLOT, range);
        assert!(matches!(refused, Err(ArenaError::BadRange { .. })), "{range:?}");
    }
    let other = client.adopt(SlotId(0), BlockRange { offset: own.offset + (1 << 20), size: 8 });
    assert!(other.is_err(), "the region of another worker");
    assert!(worker.pointer(header).is_err() && worker.pointer(huge).is_err());
}

#[test]
fn a_block_outlives_its_worker_and_the_next_one_stays_clear_of_it() {
    let (client, worker) = pair();
    let range = store(&worker, &[3; 1 << 20]);
    let held = client.adopt(SLOT, range).expect("it is the worker's");
    drop(worker);
    client.renew(SLOT);
    let next = open(&client);
    for _ in 0..4 {
        let fresh = store(&next, &[4; 1 << 20]);
        let apart =
            fresh.offset >= range.offset + range.size || fresh.offset + fresh.size <= range.offset;
        assert!(apart, "{fresh:?} overlaps {range:?}");
    }
    assert_eq!(held.to_vec(), vec![3; 1 << 20]);
    drop(held);
    assert!(!client.has_releases(), "nobody is told of a dead worker's block");
}

#[test]
fn what_a_task_keeps_is_told_once_and_returned_once() {
    let (client, worker) = pair();
    let sent = client.store(&[5; 100_000]).expect("there is memory");
    let view = worker.begin_use(sent.range().offset);
    assert_eq!(worker.take_keeps(), [sent.range().offset]);
    let again = worker.begin_use(sent.range().offset);
    assert!(worker.take_keeps().is_empty());
    drop(view);
    assert!(worker.take_returns().is_empty());
    drop(again);
    assert!(worker.has_news());
    assert_eq!(worker.take_returns(), [sent.range().offset]);
    let short = worker.begin_use(sent.range().offset);
    drop(short);
    assert!(worker.take_keeps().is_empty() && worker.take_returns().is_empty());
}

#[test]
fn freed_pages_are_bounded_and_go_when_nobody_asks() {
    let (client, worker) = pair();
    let bytes = vec![6; 80 << 20];
    for _ in 0..20 {
        drop(client.store(&bytes).expect("there is memory"));
        let range = store(&worker, &bytes);
        worker.free(range.offset);
    }
    assert!(client.resident_size() < 200 << 20, "the same pages every time");
    for _ in 0..8 {
        client.look();
        worker.look();
    }
    assert_eq!(client.resident_size(), 0);
    assert_eq!(client.live_count(), 0);
}

#[test]
fn more_than_the_machine_has_is_refused_with_its_size() {
    let (client, _worker) = pair();
    let error = client.allocate(usize::MAX / 2).expect_err("nobody has that much");
    assert!(matches!(error, ArenaError::Full { size, .. } if size == (usize::MAX / 2) as u64));
}

#[test]
fn a_reserved_block_counts_and_gets_its_pages_bit_by_bit() {
    let arena = ClientArena::create(0).expect("an arena");
    let before = arena.resident_size();
    let part = arena.reserve(1 << 20).expect("a block");
    assert_eq!(arena.resident_size(), before + (1 << 20));
    for offset in [0, 5000, 900_000, 1 << 20, 1 << 30] {
        part.populate(offset, 200_000).expect("there is memory");
    }
    assert!(part.write_at((1 << 20) - 3, b"end"));
    let mut space = [0; 8];
    assert_eq!((part.read_at((1 << 20) - 3, &mut space), &space[..3]), (3, b"end".as_slice()));
    assert!(!part.write_at((1 << 20) - 2, b"end"), "it would not fit");
    assert_eq!(part.read_at(1 << 20, &mut space), 0);
    drop(part);
    assert!(arena.reserve(usize::MAX / 2).is_err());
}
