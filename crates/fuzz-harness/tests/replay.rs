//! Replay of the committed corpora: no target finds a fault in an input that a fuzzer found worth keeping.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use gristmill_fuzz_harness::TARGETS;

/// A corpus has at most this many bytes, so that a checkout stays small and the replay takes seconds.
const CORPUS_BYTES_MAX: u64 = 256 << 10;

/// Returns the repository's folder `fuzz`.
fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the names in a folder, without their extension, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let stem = |entry: fs::DirEntry| {
        entry.path().file_stem().map(|stem| stem.to_string_lossy().into_owned())
    };
    let mut names: Vec<_> = entries.flatten().filter_map(stem).collect();
    names.sort();
    names
}

/// Runs a target on each input of its corpus; names the input of a finding.
fn replay(name: &str) {
    let (_, target) =
        TARGETS.iter().find(|(target, _)| *target == name).expect("a target of this name");
    let folder = fuzz_folder().join("seeds").join(name);
    let (mut count, mut size) = (0, 0);
    for input in names(&folder) {
        let bytes = fs::read(folder.join(&input)).expect("an input is readable");
        size += bytes.len() as u64;
        count += 1;
        let outcome = catch_unwind(|| target(&bytes));
        assert!(outcome.is_ok(), "fuzz target {name} finds a fault in fuzz/seeds/{name}/{input}");
    }
    assert!(count > 0, "fuzz/seeds/{name} has no input");
    assert!(size <= CORPUS_BYTES_MAX, "fuzz/seeds/{name} has {size} bytes: minimize it");
}

#[test]
fn every_target_has_an_entry_and_a_corpus() {
    let expected: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz_folder().join("targets")), expected);
    assert_eq!(names(&fuzz_folder().join("seeds")), expected);
}

/// One test a target, so that they run beside each other and a failure names its target.
macro_rules! replays {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

replays!(
    arrival, blob, frames, image, journal, keeper, library, peer, ring, segment, siege, task,
    transport
);
