//! One writer at a time, whose entries survive it however it ends.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

use gristmill_journal::{Entries, Journal, JournalOptions};
use support::Folder;

/// Number of times that the writer is killed, each time after another number of entries.
const KILLS: u64 = 16;

/// A generator of pseudo-random numbers from a seed. Source: Vigna, splitmix64, 2015.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Environment variable with the path of a child's journal.
const PATH: &str = "GRISTMILL_JOURNAL_OF_TEST";

/// Returns a command that runs the ignored test `name` of this program on a journal, after the shell commands
/// `preparation`.
fn child(name: &str, journal: &Path, preparation: &str) -> Command {
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{preparation} exec \"$0\" \"$@\"")).arg(program);
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(PATH, journal);
    command
}

/// Returns the journal of this child process; `None` in any other process.
fn path_of_child() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

/// Returns the value of an entry: mostly small, and for one in 64 so large that it takes several writes.
fn value_of(number: u64) -> Vec<u8> {
    let size = if number % 64 == 63 { 70_000 + number } else { number % 300 };
    (0..size).map(|at| (number * 31 + at * 7).to_le_bytes()[0]).collect()
}

fn append(journal: &mut Journal, number: u64) {
    let appended = journal.append(&number.to_le_bytes(), &value_of(number));
    appended.expect("there is room");
}

/// Returns the number of entries in a journal. Asserts that each entry is the one expected at its index.
fn count_checked(path: &Path) -> u64 {
    let mut entries = Entries::open(path).expect("a journal");
    let mut number = 0_u64;
    while let Some(entry) = entries.next().expect("it can be read") {
        assert_eq!(entry.key, number.to_le_bytes());
        assert_eq!(entry.value, value_of(number));
        number += 1;
    }
    number
}

#[test]
#[ignore = "runs in the children of the next test"]
fn appends_and_says_so_until_it_is_killed() {
    let Some(path) = path_of_child() else { return };
    let mut journal =
        Journal::open(&path, JournalOptions::default()).expect("no other process writes");
    let mut number = journal.recovered();
    loop {
        append(&mut journal, number);
        number += 1;
        // The test framework would capture output of its own macros.
        let line = format!("appended {number}\n");
        std::io::stderr().write_all(line.as_bytes()).expect("the parent listens");
    }
}

/// Reads up to `at_most` lines. Returns the number of the last entry that the writer acknowledged.
fn acknowledged(lines: &mut BufReader<ChildStderr>, at_most: u64) -> Option<u64> {
    let (mut last, mut line, mut count) = (None, String::new(), 0);
    while count < at_most && lines.read_line(&mut line).expect("text") > 0 {
        // The kill may cut the last line; then its number is wrong and not counted.
        let number = line.strip_suffix('\n').and_then(|line| line.strip_prefix("appended "));
        last = number.and_then(|number| number.parse().ok()).or(last);
        (count, line) = (count + 1, String::new());
    }
    last
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_at_any_moment() {
    let folder = Folder::new("kill");
    let path = folder.file("journal");
    let mut numbers = Numbers(20);
    let mut count = 0;
    for _ in 0..KILLS {
        let mut child = child("appends_and_says_so_until_it_is_killed", &path, "")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this program can be run");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let early = acknowledged(&mut lines, 1 + numbers.below(150));
        child.kill().expect("it runs until it is killed");
        let last = acknowledged(&mut lines, u64::MAX).or(early).expect("it said something");
        child.wait().expect("it was killed");
        let found = count_checked(&path);
        assert!(found >= last, "{last} entries were acknowledged, {found} are there");
        assert!(found > count, "the entries of earlier lives stay");
        count = found;
    }
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let folder = Folder::new("lock");
    let path = folder.file("journal");
    let mut journal = Journal::open(&path, JournalOptions::default()).expect("a new journal");
    append(&mut journal, 0);
    let second = Journal::open(&path, JournalOptions::default()).expect_err("the first has it");
    assert_eq!(second.code(), "journal_locked");
    assert!(second.to_string().contains("is being written by another process"));
    assert_eq!(count_checked(&path), 1);
    drop(journal);
    let journal = Journal::open(&path, JournalOptions::default()).expect("the first is gone");
    assert_eq!((journal.recovered(), journal.lost()), (1, 0));
}

#[test]
fn many_entries_at_once_are_as_many_appended_alone() {
    let folder = Folder::new("many");
    let (alone, together) = (folder.file("alone"), folder.file("together"));
    let values: Vec<_> =
        (0..200).map(|number: u64| (number.to_le_bytes(), value_of(number))).collect();
    let mut journal = Journal::open(&alone, JournalOptions::default()).expect("a new journal");
    (0..200).for_each(|number| append(&mut journal, number));
    let mut journal =
        Journal::open(&together, JournalOptions { durable: true }).expect("a new journal");
    journal.append_all(values.iter().map(|(key, value)| (&key[..], &value[..]))).expect("room");
    journal.sync().expect("a disk");
    assert_eq!(std::fs::read(alone).expect("made"), std::fs::read(&together).expect("made"));
    assert_eq!(count_checked(&together), 200);
}

#[test]
fn an_append_that_fails_leaves_the_journal_as_it_was() {
    let folder = Folder::new("refused");
    let path = folder.file("journal");
    let mut journal = Journal::open(&path, JournalOptions::default()).expect("a new journal");
    append(&mut journal, 0);
    let key = [0; 1000];
    let batch = [(&b"good"[..], &b"value"[..]), (&key[..], &b"value"[..])];
    assert_eq!(journal.append_all(batch).expect_err("a long key").code(), "journal_key_too_long");
    append(&mut journal, 1);
    assert_eq!(count_checked(&path), 2);
}

#[test]
#[ignore = "runs in the child of the next test"]
fn appends_until_there_is_no_room_and_then_something_small() {
    let Some(path) = path_of_child() else { return };
    let mut journal =
        Journal::open(&path, JournalOptions::default()).expect("no other process writes");
    append(&mut journal, 0);
    let large = vec![7; 1 << 20];
    let refused = journal.append(b"large", &large).expect_err("the file must not grow so far");
    assert!(refused.is_retryable(), "{refused}");
    append(&mut journal, 1);
}

#[test]
fn without_room_an_append_fails_and_smaller_ones_go_on() {
    let folder = Folder::new("room");
    let path = folder.file("journal");
    // The shell's limit for the size of files, without the signal that comes with it.
    let limit = "trap '' XFSZ; ulimit -f 256;";
    let name = "appends_until_there_is_no_room_and_then_something_small";
    let output = child(name, &path, limit).output().expect("this program can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(count_checked(&path), 2);
}
