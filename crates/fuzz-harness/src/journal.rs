//! A journal of arbitrary bytes, as a reader and as the next writer find it.

use std::path::Path;

use crate::input::Input;
use gristmill_journal::{Entries, Journal, JournalOptions};

/// Returns the number of whole entries, the end of the last one, and the number of bytes behind it.
fn read(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let mut entries = Entries::new(bytes, bytes.len() as u64, Path::new("bytes")).ok()?;
    while entries.next().expect("memory can be read").is_some() {}
    Some((entries.count(), entries.end(), entries.lost()))
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let path = std::env::temp_dir().join(format!("gristmill-fuzz-journal-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    // A header and one good entry, so that the fuzzer need not guess checksums.
    if input.byte().is_multiple_of(2) {
        let mut journal = Journal::open(&path, JournalOptions::default()).expect("a new journal");
        journal.append(input.bytes(3), b"value").expect("there is room");
    }
    let mut whole = std::fs::read(&path).unwrap_or_default();
    whole.extend(input.0);
    std::fs::write(&path, &whole).expect("there is room");
    let Some((count, end, lost)) = read(&whole) else {
        assert!(Journal::open(&path, JournalOptions::default()).is_err());
        return;
    };
    assert_eq!(end + lost, whole.len() as u64);
    let mut journal = Journal::open(&path, JournalOptions::default()).expect("a reader could");
    assert_eq!((journal.recovered(), journal.lost()), (count, lost));
    journal.append(b"key", b"value").expect("there is room");
    let after = read(&std::fs::read(&path).expect("it is there")).expect("a journal");
    assert_eq!((after.0, after.2), (count + 1, 0));
}
