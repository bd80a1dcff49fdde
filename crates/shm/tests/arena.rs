//! Tests of the arena with client and worker in one process, each with its own mapping.
#![cfg(not(gristmill_loom))]

use gristmill_shm::{
    ArenaError, ArenaOptions, BlockPart, ClientArena, PAGE_SIZE, WorkerArena, find_spill_directory,
};
use gristmill_wire::{BlockRange, SlotId};
use std::sync::Arc;

const SLOT: SlotId = SlotId(1);

fn pair() -> (ClientArena, Arc<WorkerArena>) {
    let client = ClientArena::create(2).expect("there is memory");
    client.renew(SLOT);
    let worker = open(&client);
    (client, worker)
}

fn open(client: &ClientArena) -> Arc<WorkerArena> {
    let descriptors =
        client.descriptors().map(|one| one.try_clone_to_owned().expect("there are descriptors"));
    Arc::new(WorkerArena::open(descriptors, SLOT).expect("it is an arena"))
}

fn store(worker: &WorkerArena, bytes: &[u8]) -> BlockRange {
    // SAFETY: `bytes.len()` bytes of a slice are readable.
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
    assert!(!client.has_releases(), "no report names a block of a dead worker");
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
    assert!(worker.has_unsent());
    assert_eq!(worker.take_returns(), [sent.range().offset]);
    let short = worker.begin_use(sent.range().offset);
    drop(short);
    assert!(worker.take_keeps().is_empty() && worker.take_returns().is_empty());
}

#[test]
fn freed_pages_are_bounded_and_go_without_requests() {
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
    let error = client.allocate(usize::MAX / 2).expect_err("no machine has that much");
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

/// Creates an empty directory on a disk for one test. The test must leave no file in it.
fn disk_directory(name: &str) -> Option<std::path::PathBuf> {
    let root = option_env!("CARGO_TARGET_TMPDIR").unwrap_or("/var/tmp");
    let directory = std::path::Path::new(root).join(format!("spill-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the target folder can be written to");
    let (place, _) = find_spill_directory(std::slice::from_ref(&directory));
    place.map(|place| place.directory)
}

#[test]
fn what_memory_has_no_room_for_goes_to_disk_and_comes_back() {
    let Some(directory) = disk_directory("both") else { return };
    let options = ArenaOptions { memory: Some(4 << 20), spill: vec![directory.clone()] };
    let client = ClientArena::create_with(2, &options).expect("there is memory");
    client.renew(SLOT);
    let worker = open(&client);
    let bytes = |seed: u8| vec![seed; 1 << 20];
    let arguments: Vec<_> = (0..8).map(|seed| client.store(&bytes(seed)).expect("room")).collect();
    assert!(arguments.iter().any(BlockPart::is_spilled), "4 MiB are in memory at most");
    assert!(client.resident_size() <= 4 << 20);
    for (seed, part) in (0..).zip(&arguments) {
        let mut read = Vec::new();
        worker.append_to(part.range(), &mut read).expect("it is there");
        assert_eq!(read, bytes(seed));
    }
    let results: Vec<_> = (100..108).map(|seed| store(&worker, &bytes(seed))).collect();
    let adopted: Vec<_> =
        results.iter().map(|&range| client.adopt(SLOT, range).expect("its own")).collect();
    for (seed, part) in (100..).zip(&adopted) {
        assert_eq!(part.to_vec(), bytes(seed));
    }
    assert!(client.spilled_size() >= 8 << 20);
    assert_eq!(std::fs::read_dir(&directory).expect("it is there").count(), 0, "without a name");
    drop((arguments, adopted));
    for (_, offset) in client.take_releases() {
        worker.free(offset);
    }
    assert_eq!(client.spilled_size(), 0, "room on disk is given back at once");
    std::fs::remove_dir(directory).expect("it is empty");
}

#[test]
fn blocks_on_disk_outlive_their_worker() {
    let Some(directory) = disk_directory("death") else { return };
    let options = ArenaOptions { memory: Some(0), spill: vec![directory.clone()] };
    let client = ClientArena::create_with(2, &options).expect("there is memory");
    client.renew(SLOT);
    let first = open(&client);
    let range = store(&first, &[7; 1 << 20]);
    let held = client.adopt(SLOT, range).expect("its own");
    let _lost = store(&first, &[8; 1 << 20]);
    drop(first);
    client.renew(SLOT);
    let second = open(&client);
    let next = store(&second, &[9; 1 << 20]);
    assert_ne!(next.offset, range.offset);
    assert_eq!(held.to_vec(), [7; 1 << 20]);
    drop(held);
    second.free(next.offset);
    assert_eq!(client.spilled_size(), 0, "what the dead worker had is not counted twice");
    std::fs::remove_dir(directory).expect("it is empty");
}

#[test]
fn without_room_in_memory_and_on_disk_the_error_says_both() {
    let Some(directory) = disk_directory("none") else { return };
    let options = ArenaOptions { memory: Some(0), spill: vec![directory.clone()] };
    let client = ClientArena::create_with(0, &options).expect("there is memory");
    let error = client.reserve_or_spill(usize::MAX / 4).expect_err("no disk is as large");
    assert!(matches!(error, ArenaError::Unspilled { .. }), "{error}");
    let unspilled = ClientArena::create_with(0, &ArenaOptions { spill: vec![], ..options });
    let error = unspilled.expect("there is memory").store(&[1; 100]).expect_err("there is no disk");
    assert!(matches!(error, ArenaError::Full { .. }), "{error}");
    std::fs::remove_dir(directory).expect("it is empty");
}

#[test]
fn a_process_has_room_for_many_arenas() {
    const SIZE: usize = 256 << 20;
    let Some(directory) = disk_directory("many") else { return };
    let options = ArenaOptions { memory: Some(SIZE as u64), spill: vec![directory.clone()] };
    let make = || ClientArena::create_with(64, &options).expect("there are addresses");
    let arenas: Vec<_> = (0..60).map(|_| make()).collect();
    let last = arenas.last().expect("there are sixty");
    let in_memory = last.reserve(SIZE).expect("memory has room");
    let on_disk = last.reserve_or_spill(SIZE / 4).expect("the disk has room");
    assert!(on_disk.is_spilled() && !in_memory.is_spilled());
    drop((in_memory, on_disk, arenas));
    std::fs::remove_dir(directory).expect("it is empty");
}

#[test]
fn a_directory_in_memory_takes_no_payloads() {
    let directories = ["/dev/shm", "/does/not/exist"].map(std::path::PathBuf::from);
    let (place, refusals) = find_spill_directory(&directories);
    assert_eq!(place, None);
    let reasons: Vec<_> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    assert!(reasons[0].contains("memory") && reasons[1].contains("No such file"), "{reasons:?}");
}
