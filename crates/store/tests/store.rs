//! A store over a real arena and a real disk.

use std::path::PathBuf;

use gristmill_shm::ClientArena;
use gristmill_store::{BlobLimits, Progress, Store, StoreCounts, Verifier, Want, digest_of};
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

/// Has a blob come that was missing.
fn fill(store: &Store, name: BlobName, seed: u8) {
    let bytes = content(seed);
    assert!(!store.append(name.digest, 1, &bytes[1..]), "bytes come in order");
    assert!(store.append(name.digest, 0, &bytes[..5000]));
    assert!(!store.append(name.digest, 0, &bytes[..5000]), "and once");
    assert!(store.append(name.digest, 5000, &bytes[5000..]));
    assert!(!store.append(name.digest, SIZE as u64, &[0]), "and no more than there are");
    let Progress { part, received, is_complete } = store.progress(name.digest).expect("it came");
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
    assert!(matches!(store.want(name), Ok(Want::Missing(_))));
    assert!(matches!(store.want(name), Ok(Want::Coming(_))));
    fill(&store, name, 1);
    let Ok(Want::Here(part)) = store.want(name) else { panic!("it came") };
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
fn what_nobody_uses_goes_to_disk_and_comes_back() {
    let (arena, store) = store(SIZE as u64, 10 * SIZE as u64);
    let names: Vec<_> = (0..3).map(|seed| name(&arena, seed)).collect();
    let mut kept = None;
    for (seed, &name) in (0..).zip(&names) {
        kept = kept.or(store.want(name).ok());
        fill(&store, name, seed);
    }
    assert!(store.trim().is_empty(), "there is room on the disk");
    assert!(matches!(kept, Some(Want::Missing(_))), "the first is in use");
    assert_eq!(store.counts(), StoreCounts { in_memory: SIZE as u64, on_disk: 2 * SIZE as u64 });
    let mut space = [0; 10];
    assert_eq!(store.read(names[1].digest, 7, &mut space).expect("the disk"), Some(10));
    assert_eq!(space, content(1)[7..17]);
    let beyond = names.iter().map(|name| store.read(name.digest, u64::MAX, &mut space));
    assert!(
        beyond.map(|read| read.expect("the disk")).all(|count| count == Some(0)),
        "whatever is asked for"
    );
    let Ok(Want::OnDisk(part)) = store.want(names[1]) else { panic!("it is on disk") };
    assert!(matches!(store.want(names[1]), Ok(Want::Coming(_))), "who comes next waits");
    store.restore(names[1].digest).expect("the disk");
    assert_eq!(part.to_vec(), content(1));
    assert!(matches!(store.want(names[1]), Ok(Want::Here(_))));
}

#[test]
fn what_was_made_here_is_there_and_takes_no_place_on_disk() {
    let (arena, store) = store(0, 10 * SIZE as u64);
    let part = arena.store(&content(1)).expect("a block");
    let name = BlobName { digest: digest_of(&part), size: SIZE as u64 };
    store.adopt(name, part.clone());
    store.adopt(name, arena.store(&content(1)).expect("a block"));
    let Ok(Want::Here(found)) = store.want(name) else { panic!("it was made here") };
    assert_eq!((found.range(), store.counts().in_memory), (part.range(), SIZE as u64));
    assert!(store.trim().is_empty(), "it is in use");
    drop((part, found));
    assert_eq!(store.trim(), [name.digest], "somebody else keeps it");
    assert_eq!(store.counts(), StoreCounts::default());
}

#[test]
fn what_is_pinned_stays_in_memory_or_on_disk() {
    for (disk, expected) in [(0, (SIZE as u64, 0)), (SIZE as u64, (0, SIZE as u64))] {
        let (arena, store) = store(0, disk);
        let part = arena.store(&content(1)).expect("a block");
        let name = BlobName { digest: digest_of(&part), size: SIZE as u64 };
        store.adopt(name, part);
        store.pin(name.digest);
        store.pin(name.digest);
        assert!(store.trim().is_empty() && store.make_room(1).is_empty());
        let StoreCounts { in_memory, on_disk } = store.counts();
        assert_eq!((in_memory, on_disk), expected);
        assert!(!store.unpin(name.digest), "once more");
        assert!(store.trim().is_empty());
        assert!(store.unpin(name.digest));
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
    assert!(matches!(store.want(names[0]), Ok(Want::Missing(_))));
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

    /// Whatever is wanted, used, trimmed and dropped: what is given out has the right bytes, and counts are right.
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
                        Want::Here(part) | Want::Coming(part) => part,
                        Want::Missing(part) => {
                            fill(&store, name, seed);
                            part
                        }
                        Want::OnDisk(part) => {
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
                prop_assert_eq!(part.to_vec(), content(*seed), "what is used stays");
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
