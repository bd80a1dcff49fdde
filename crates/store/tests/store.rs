//! Tests of a store over a real arena and a real disk.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gristmill_shm::ClientArena;
use gristmill_store::{
    BlobAvailability, BlobLimits, BlobProgress, InsertOutcome, Store, StoreCounts, Verifier,
    digest_of,
};
use gristmill_wire::BlobName;
use proptest::prelude::*;

const SIZE: usize = 20_000;

fn store(memory: u64, disk: u64) -> (ClientArena, Store) {
    let arena = ClientArena::create(0).expect("an arena");
    let limits = BlobLimits { memory, disk, directory: std::env::temp_dir() };
    (arena.clone(), Store::new(arena, limits))
}

fn content(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|place| seed.wrapping_add(place.to_le_bytes()[0])).collect()
}

fn name(arena: &ClientArena, seed: u8) -> BlobName {
    let digest = digest_of(&arena.store(&content(seed)).expect("a block"));
    BlobName { digest, size: SIZE as u64 }
}

/// Delivers the bytes of a missing blob in order, checks their hash, and completes the blob.
fn fill(store: &Store, name: BlobName, seed: u8) {
    let bytes = content(seed);
    assert!(!store.append(name.digest, 1, &bytes[1..]), "bytes come in order");
    assert!(store.append(name.digest, 0, &bytes[..5000]));
    assert!(!store.append(name.digest, 0, &bytes[..5000]), "and once");
    assert!(store.append(name.digest, 5000, &bytes[5000..]));
    assert!(!store.append(name.digest, SIZE as u64, &[0]), "and no more than there are");
    let BlobProgress { part, received, is_complete } =
        store.progress(name.digest).expect("it came");
    assert!(received == name.size && !is_complete);
    let mut verifier = Verifier::default();
    verifier.follow(&part, received);
    assert_eq!(verifier.digest(), name.digest);
    store.complete(name.digest);
}

#[test]
fn a_blob_comes_once_and_is_there() {
    let (arena, store) = store(1 << 20, 0);
    let name = name(&arena, 1);
    assert!(matches!(store.want(name), Ok(BlobAvailability::Missing(_))));
    assert!(matches!(store.want(name), Ok(BlobAvailability::Coming(_))));
    fill(&store, name, 1);
    let Ok(BlobAvailability::Here(part)) = store.want(name) else { panic!("it came") };
    assert_eq!(part.to_vec(), content(1));
    assert_eq!(store.counts(), StoreCounts { in_memory: SIZE as u64, on_disk: 0 });
}

#[test]
fn what_came_can_be_given_on_before_the_rest_comes() {
    let (arena, store) = store(1 << 20, 0);
    let name = name(&arena, 1);
    let _ = store.want(name);
    assert!(store.append(name.digest, 0, &content(1)[..100]));
    let mut space = [0; 64];
    assert_eq!(store.read(name.digest, 60, &mut space).expect("memory"), Some(40));
    assert_eq!(space[..40], content(1)[60..100]);
    assert_eq!(store.read(name.digest, 100, &mut space).expect("memory"), Some(0));
    store.begin_anew(name.digest);
    assert_eq!(store.read(name.digest, 0, &mut space).expect("memory"), Some(0));
}

#[test]
fn an_unused_blob_goes_to_disk_and_comes_back() {
    let (arena, store) = store(SIZE as u64, 10 * SIZE as u64);
    let names: Vec<_> = (0..3).map(|seed| name(&arena, seed)).collect();
    let mut kept = None;
    for (seed, &name) in (0..).zip(&names) {
        kept = kept.or(store.want(name).ok());
        fill(&store, name, seed);
    }
    assert!(store.trim().is_empty(), "there is room on the disk");
    assert!(matches!(kept, Some(BlobAvailability::Missing(_))), "the first is in use");
    assert_eq!(store.counts(), StoreCounts { in_memory: SIZE as u64, on_disk: 2 * SIZE as u64 });
    let mut space = [0; 10];
    assert_eq!(store.read(names[1].digest, 7, &mut space).expect("the disk"), Some(10));
    assert_eq!(space, content(1)[7..17]);
    let beyond = names.iter().map(|name| store.read(name.digest, u64::MAX, &mut space));
    assert!(
        beyond.map(|read| read.expect("the disk")).all(|count| count == Some(0)),
        "whatever is asked for"
    );
    let Ok(BlobAvailability::OnDisk(part)) = store.want(names[1]) else { panic!("it is on disk") };
    assert!(matches!(store.want(names[1]), Ok(BlobAvailability::Coming(_))), "the next blob waits");
    store.restore(names[1].digest).expect("the disk");
    assert_eq!(part.to_vec(), content(1));
    assert!(matches!(store.want(names[1]), Ok(BlobAvailability::Here(_))));
}

#[test]
fn what_was_made_here_is_there_and_takes_no_place_on_disk() {
    let (arena, store) = store(0, 10 * SIZE as u64);
    let part = arena.store(&content(1)).expect("a block");
    let name = BlobName { digest: digest_of(&part), size: SIZE as u64 };
    assert!(matches!(store.adopt(name, &part), InsertOutcome::Here(_)));
    let same = arena.store(&content(1)).expect("a block");
    let InsertOutcome::Here(kept) = store.adopt(name, &same) else { panic!("it is there") };
    assert_eq!(kept.range(), part.range(), "its user keeps it here");
    drop(kept);
    let Ok(BlobAvailability::Here(found)) = store.want(name) else { panic!("it was made here") };
    assert_eq!((found.range(), store.counts().in_memory), (part.range(), SIZE as u64));
    assert!(store.trim().is_empty(), "it is in use");
    drop((part, found));
    assert_eq!(store.trim(), [name.digest], "another user keeps it");
    assert_eq!(store.counts(), StoreCounts::default());
}

#[test]
fn what_was_made_here_is_at_once_where_it_was_waited_for() {
    let (arena, store) = store(1 << 20, 0);
    let made = arena.store(&content(1)).expect("a block");
    let name = name(&arena, 1);
    let Ok(BlobAvailability::Missing(part)) = store.want(name) else {
        panic!("no blob of that name is there")
    };
    assert!(store.append(name.digest, 0, &[7; 100]), "what comes may be wrong");
    assert!(matches!(store.adopt(name, &made), InsertOutcome::Came(_)));
    assert_eq!(part.to_vec(), content(1));
    assert!(!store.append(name.digest, 100, &[7; 100]), "nothing more is taken");
    assert!(store.coming().is_empty());
    let Ok(BlobAvailability::Here(found)) = store.want(name) else { panic!("it was made here") };
    assert_eq!(found.range(), part.range());
}

/// Returns the name of a blob that is on disk.
fn on_disk(arena: &ClientArena, store: &Store) -> BlobName {
    let name = name(arena, 1);
    let _ = store.want(name);
    fill(store, name, 1);
    assert!(store.trim().is_empty());
    assert_eq!(store.counts(), StoreCounts { in_memory: 0, on_disk: SIZE as u64 });
    name
}

#[test]
fn what_is_made_again_need_not_come_from_disk() {
    let (arena, store) = store(0, SIZE as u64);
    let made = arena.store(&content(1)).expect("a block");
    let name = on_disk(&arena, &store);
    let Ok(BlobAvailability::OnDisk(part)) = store.want(name) else { panic!("it is on disk") };
    assert!(matches!(store.adopt(name, &made), InsertOutcome::Came(_)));
    assert_eq!(part.to_vec(), content(1));
    assert_eq!(store.counts(), StoreCounts { in_memory: SIZE as u64, on_disk: 0 });
    store.restore(name.digest).expect("it is here");
    drop(part);
    assert!(store.trim().is_empty(), "to disk again");
    assert!(matches!(store.adopt(name, &made), InsertOutcome::Here(_)));
    assert_eq!(store.counts(), StoreCounts { in_memory: SIZE as u64, on_disk: 0 });
}

#[test]
fn what_does_not_come_is_given_up_and_what_has_come_is_not() {
    let (arena, store) = store(0, SIZE as u64);
    let name = on_disk(&arena, &store);
    store.give_up(name.digest);
    let Ok(BlobAvailability::OnDisk(part)) = store.want(name) else { panic!("it is on disk") };
    store.give_up(name.digest);
    store.restore(name.digest).expect("the disk");
    store.give_up(name.digest);
    assert_eq!(part.to_vec(), content(1));
    assert!(matches!(store.want(name), Ok(BlobAvailability::Here(_))));
}

/// Returns the files that stores have open in a directory. They have no names any more.
fn files_of(directory: &Path) -> Vec<File> {
    let links = std::fs::read_dir("/proc/self/fd").expect("it is there");
    let of_store =
        |path: &PathBuf| std::fs::read_link(path).is_ok_and(|to| to.starts_with(directory));
    let paths = links.filter_map(|link| Some(link.ok()?.path())).filter(of_store);
    paths.filter_map(|path| OpenOptions::new().write(true).open(path).ok()).collect()
}

#[test]
fn bytes_that_changed_on_disk_are_not_given_out() {
    let directory = std::env::temp_dir().join(format!("gristmill-changed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let arena = ClientArena::create(0).expect("an arena");
    let limits = BlobLimits { memory: 0, disk: 2 * SIZE as u64, directory: directory.clone() };
    let store = Store::new(arena.clone(), limits);
    let name = on_disk(&arena, &store);
    let [file] = &files_of(&directory)[..] else { panic!("it has one file") };
    file.write_all_at(&[content(1)[777] ^ 1], 777).expect("the disk");
    let Ok(BlobAvailability::OnDisk(_)) = store.want(name) else { panic!("it is on disk") };
    assert_eq!(store.restore(name.digest).expect_err("it is seen").kind(), ErrorKind::InvalidData);
    let Ok(BlobAvailability::Coming(part)) = store.want(name) else {
        panic!("it has to come again")
    };
    fill(&store, name, 1);
    assert_eq!(part.to_vec(), content(1));
    drop(part);
    assert!(store.trim().is_empty(), "there is room on the disk, elsewhere");
    assert_eq!(store.counts(), StoreCounts { in_memory: 0, on_disk: 2 * SIZE as u64 });
    file.write_all_at(&[0; SIZE], 0).expect("the disk");
    let Ok(BlobAvailability::OnDisk(part)) = store.want(name) else { panic!("it is on disk") };
    store.restore(name.digest).expect("the rest of the disk is good");
    assert_eq!(part.to_vec(), content(1));
    std::fs::remove_dir(&directory).expect("nothing is in it");
}

#[test]
fn what_is_pinned_stays_in_memory_or_on_disk() {
    for (disk, expected) in [(0, (SIZE as u64, 0)), (SIZE as u64, (0, SIZE as u64))] {
        let (arena, store) = store(0, disk);
        let part = arena.store(&content(1)).expect("a block");
        let name = BlobName { digest: digest_of(&part), size: SIZE as u64 };
        assert!(matches!(store.adopt(name, &part), InsertOutcome::Here(_)));
        drop(part);
        store.pin(name.digest);
        assert!(store.trim().is_empty() && store.make_room(1).is_empty());
        let StoreCounts { in_memory, on_disk } = store.counts();
        assert_eq!((in_memory, on_disk), expected);
        store.unpin(name.digest);
        assert_eq!(store.trim().is_empty(), disk > 0, "on disk it stays until there is no room");
    }
}

#[test]
fn without_room_on_disk_it_is_gone() {
    let (arena, store) = store(SIZE as u64, 0);
    let names: Vec<_> = (0..2).map(|seed| name(&arena, seed)).collect();
    for (seed, &name) in (0..).zip(&names) {
        let _ = store.want(name);
        fill(&store, name, seed);
    }
    assert_eq!(store.trim(), [names[0].digest], "wanted longest ago");
    assert!(matches!(store.want(names[0]), Ok(BlobAvailability::Missing(_))));
    assert_eq!(store.make_room(1), [names[1].digest], "one that comes is in use");
    store.give_up(names[0].digest);
    assert_eq!(store.counts(), StoreCounts::default());
}

#[test]
fn a_disk_that_cannot_be_used_is_none() {
    let arena = ClientArena::create(0).expect("an arena");
    let directory = PathBuf::from("/nonexistent");
    let store = Store::new(arena.clone(), BlobLimits { memory: 0, disk: u64::MAX, directory });
    let name = name(&arena, 1);
    let _ = store.want(name);
    fill(&store, name, 1);
    assert_eq!(store.trim(), [name.digest]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Checks that every blob handed out has the right bytes and the counts are right, for any sequence of requests, uses
    /// and trims.
    #[test]
    fn what_is_given_out_is_right(program in proptest::collection::vec((0_u8..5, 0_u8..4), 0..60)) {
        let (arena, store) = store(2 * SIZE as u64, 2 * SIZE as u64);
        let names: Vec<_> = (0..5).map(|seed| name(&arena, seed)).collect();
        let mut used = Vec::new();
        for (seed, act) in program {
            let name = names[usize::from(seed)];
            match act {
                0 | 1 => {
                    let part = match store.want(name).expect("there is memory") {
                        BlobAvailability::Here(part) | BlobAvailability::Coming(part) => part,
                        BlobAvailability::Missing(part) => {
                            fill(&store, name, seed);
                            part
                        }
                        BlobAvailability::OnDisk(part) => {
                            store.restore(name.digest).expect("the disk");
                            part
                        }
                    };
                    prop_assert_eq!(part.to_vec(), content(seed));
                    if act == 1 {
                        used.push((seed, part));
                    }
                }
                2 => drop(store.trim()),
                _ => used.clear(),
            }
            for (seed, part) in &used {
                prop_assert_eq!(part.to_vec(), content(*seed), "a used blob stays");
            }
        }
        used.clear();
        store.trim();
        let counts = store.counts();
        prop_assert!(counts.in_memory <= 2 * SIZE as u64 && counts.on_disk <= 2 * SIZE as u64);
        store.make_room(u64::MAX);
        prop_assert_eq!(store.counts().in_memory, 0);
    }
}
