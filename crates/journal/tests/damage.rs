//! Reading returns a prefix of the entries that were written, whatever happens to the bytes of a journal.

mod support;

use std::io::{self, Read};
use std::path::Path;

use gristmill_journal::{Entries, Journal, JournalError, JournalOptions};
use proptest::prelude::*;
use support::Folder;

type Pair = (Vec<u8>, Vec<u8>);
const HEAD_SIZE: usize = 16;

/// Returns the bytes of a journal with these entries, and the offset at which each entry ends.
fn journal_of(folder: &Folder, pairs: &[Pair]) -> (Vec<u8>, Vec<usize>) {
    let path = folder.file("whole");
    let _ = std::fs::remove_file(&path);
    let mut journal = Journal::open(&path, JournalOptions::default()).expect("a new journal");
    let size = || std::fs::metadata(&path).expect("it was made").len();
    let mut ends = Vec::new();
    for (key, value) in pairs {
        journal.append(key, value).expect("there is room");
        ends.push(usize::try_from(size()).expect("it is small"));
    }
    (std::fs::read(&path).expect("it was made"), ends)
}

/// Returns the entries that can be read from these bytes, and the number of lost bytes.
fn read(bytes: &[u8]) -> Result<(Vec<Pair>, u64), JournalError> {
    let mut entries = Entries::new(bytes, bytes.len() as u64, Path::new("bytes"))?;
    let mut pairs = Vec::new();
    while let Some(entry) = entries.next()? {
        pairs.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    Ok((pairs, entries.lost()))
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let bytes = |limit| prop::collection::vec(any::<u8>(), 0..limit);
    prop::collection::vec((bytes(40), bytes(60)), 0..6)
}

/// Returns a configuration with few cases: each example is cut at, or flipped in, every one of its bytes.
fn few() -> ProptestConfig {
    let all = ProptestConfig::default();
    ProptestConfig { cases: all.cases / 8, ..all }
}

/// A source that fails once, at one of its bytes, and then goes on.
struct FailsOnce<'a> {
    bytes: &'a [u8],
    until: Option<usize>,
}

impl Read for FailsOnce<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let limit = match self.until {
            Some(0) => {
                self.until = None;
                return Err(io::Error::from_raw_os_error(5));
            }
            Some(left) => left.min(out.len()),
            None => out.len(),
        };
        let count = self.bytes.read(&mut out[..limit])?;
        self.until = self.until.map(|left| left - count);
        Ok(count)
    }
}

#[test]
fn after_an_error_of_the_source_no_entry_is_read() {
    let folder = Folder::new("source-error");
    let (inner, _) = journal_of(&folder, &[(b"never".to_vec(), b"appended".to_vec())]);
    let (bytes, ends) = journal_of(
        &folder,
        &[(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), inner[HEAD_SIZE..].to_vec())],
    );
    // The source fails at the second value, which holds the bytes of an entry.
    let inside =
        bytes.windows(inner.len() - HEAD_SIZE).position(|part| part == &inner[HEAD_SIZE..]);
    let source = FailsOnce { bytes: &bytes, until: inside };
    let mut entries = Entries::new(source, bytes.len() as u64, Path::new("bytes")).expect("a head");
    assert_eq!(entries.next().expect("the first is whole").expect("it is there").key, b"a");
    assert!(matches!(entries.next(), Err(JournalError::System { .. })));
    assert_eq!(entries.next().expect("no second error"), None);
    assert_eq!((entries.count(), entries.end()), (1, ends[0] as u64));
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn what_was_appended_comes_back(pairs in pairs()) {
        let folder = Folder::new("come-back");
        let (bytes, _) = journal_of(&folder, &pairs);
        prop_assert_eq!(read(&bytes).expect("a journal"), (pairs, 0));
    }

    #[test]
    fn cut_at_any_byte_a_journal_keeps_its_whole_entries(pairs in pairs()) {
        let folder = Folder::new("cut");
        let (bytes, ends) = journal_of(&folder, &pairs);
        let path = folder.file("cut");
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let end = if whole == 0 { HEAD_SIZE.min(cut) } else { ends[whole - 1] };
            let (found, lost) = read(&bytes[..cut]).expect("a torn journal is one");
            prop_assert_eq!(&found, &pairs[..whole]);
            let expected_lost = if cut < HEAD_SIZE { cut } else { cut - end };
            prop_assert_eq!(lost, expected_lost as u64);

            std::fs::write(&path, &bytes[..cut]).expect("there is room");
            let mut journal = Journal::open(&path, JournalOptions::default()).expect("a torn journal");
            prop_assert_eq!((journal.recovered(), journal.lost()), (whole as u64, lost));
            journal.append(b"after", b"the cut").expect("there is room");
            let mut expected = pairs[..whole].to_vec();
            expected.push((b"after".to_vec(), b"the cut".to_vec()));
            prop_assert_eq!(read(&std::fs::read(&path).expect("it is there")).expect("a journal"), (expected, 0));
        }
    }

    #[test]
    fn whichever_bit_flips_no_entry_is_changed(pairs in pairs()) {
        let folder = Folder::new("flip");
        let (mut bytes, ends) = journal_of(&folder, &pairs);
        for bit in 0..bytes.len() * 8 {
            let (at, mask) = (bit / 8, 1 << (bit % 8));
            bytes[at] ^= mask;
            match read(&bytes) {
                Ok((found, lost)) => {
                    prop_assert!(at >= HEAD_SIZE);
                    let before = ends.iter().filter(|end| **end <= at).count();
                    prop_assert_eq!(&found, &pairs[..before]);
                    prop_assert!(lost > 0);
                }
                Err(_) => prop_assert!(at < HEAD_SIZE),
            }
            bytes[at] ^= mask;
        }
    }

    #[test]
    fn any_bytes_can_be_opened(head in any::<bool>(), rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::new("any");
        let mut bytes = if head { journal_of(&folder, &[]).0 } else { Vec::new() };
        bytes.extend(rest);
        let size = bytes.len() as u64;
        if let Ok((_, lost)) = read(&bytes) {
            prop_assert!(lost <= size);
        }
    }
}

#[test]
fn zeros_behind_the_last_entry_end_a_journal() {
    let folder = Folder::new("zeros");
    let pairs = [(b"key".to_vec(), b"value".to_vec())];
    let (mut bytes, _) = journal_of(&folder, &pairs);
    bytes.resize(bytes.len() + 4096, 0);
    assert_eq!(read(&bytes).expect("a journal"), (pairs.to_vec(), 4096));
}

#[test]
fn an_entry_that_claims_more_than_there_is_takes_no_memory() {
    let folder = Folder::new("claim");
    let (mut bytes, ends) = journal_of(&folder, &[(b"key".to_vec(), b"value".to_vec())]);
    bytes[HEAD_SIZE + 2..HEAD_SIZE + 10].copy_from_slice(&u64::MAX.to_le_bytes());
    let lost = (ends[0] - HEAD_SIZE) as u64;
    assert_eq!(read(&bytes).expect("a journal"), (vec![], lost));
}

#[test]
fn what_is_no_journal_is_refused_and_not_touched() {
    let folder = Folder::new("foreign");
    for (bytes, code) in [
        (&b"a diary"[..], "not_a_journal"),
        (b"\x80\x04C\x0bgristmill\0\x020", "journal_unknown_version"),
    ] {
        let path = folder.file("diary");
        std::fs::write(&path, bytes).expect("there is room");
        assert_eq!(
            Journal::open(&path, JournalOptions::default()).expect_err("foreign").code(),
            code
        );
        assert_eq!(Entries::open(&path).expect_err("foreign").code(), code);
        assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
    }
    let refused =
        Journal::open(&folder.file("."), JournalOptions::default()).expect_err("a folder");
    assert_eq!(refused.code(), "not_a_journal");
}
