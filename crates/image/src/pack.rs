//! Writing images.
//!
//! Each thread takes the next frame, compresses it into memory, and waits for its turn to write it: the bytes of an image
//! do not depend on how many threads there are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use gristmill_store::Verifier;
use gristmill_wire::Digest;

use crate::entry::Entry;
use crate::error::{ImageError, system};
use crate::frame::{FrameHead, Head, Kind};
use crate::header::{BLOCK, write_entry};
use crate::names::{fault_of_link, fault_of_name};

/// Bytes of files after which a frame ends: there are many more frames than threads, and a compressor that begins anew with
/// each one has seen most of what it may look back to.
const FRAME_SIZE: u64 = 4 << 20;

/// How an image is written.
#[derive(Debug, Clone, Copy)]
pub struct PackOptions {
    /// zstd's level, 1 to 19.
    pub level: i32,
    /// Threads that compress.
    pub thread_count: usize,
}

/// An image that was written.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    /// Its name.
    pub digest: Digest,
    /// Bytes of what is in it.
    pub content_size: u64,
}

/// Some entries that are compressed together.
struct Group<'a> {
    kind: Kind,
    entries: &'a [&'a Entry],
}

/// What the threads share.
struct Turns<'a> {
    out: Out<'a>,
    /// The next frame that nobody has taken.
    next: usize,
    /// The next frame of the file.
    written: usize,
    error: Option<ImageError>,
}

struct Out<'a> {
    file: BufWriter<File>,
    verifier: Verifier,
    path: &'a Path,
}

/// Writes an image to a new file, which is all there, and on the disk, once this returns.
///
/// # Errors
/// A name cannot be in an image or is there twice, a file changed meanwhile, or the system refuses; what was written is
/// left for the caller to remove.
pub fn pack(entries: &[Entry], path: &Path, options: PackOptions) -> Result<Packed, ImageError> {
    let sorted = sort(entries)?;
    let groups = group(&sorted);
    let content_size = entries.iter().map(|entry| entry.content.size()).sum();
    let file = File::create_new(path).map_err(system(path, "make it"))?;
    let mut out = Out { file: BufWriter::new(file), verifier: Verifier::default(), path };
    out.write(&Head { content_size, entry_count: entries.len() as u64 }.encode())?;
    let turns = Mutex::new(Turns { out, next: 0, written: 0, error: None });
    let moved = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 1..options.thread_count {
            scope.spawn(|| work(&groups, options.level, &turns, &moved));
        }
        work(&groups, options.level, &turns, &moved);
    });
    let turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = turns.error {
        return Err(error);
    }
    let digest = turns.out.verifier.digest();
    let file = turns
        .out
        .file
        .into_inner()
        .map_err(|error| system(path, "write it")(error.into_error()))?;
    file.sync_all().map_err(system(path, "write it"))?;
    Ok(Packed { digest, content_size })
}

/// Writes entries as a plain tar archive.
///
/// # Errors
/// As [`pack`].
pub fn write_tar(entries: &[Entry], path: &Path, out: &mut impl Write) -> Result<(), ImageError> {
    for entry in sort(entries)? {
        write_entry(entry, out)?;
    }
    out.write_all(&[0; 2 * BLOCK]).map_err(system(path, "write it"))
}

/// The entries in the order of the image.
fn sort(entries: &[Entry]) -> Result<Vec<&Entry>, ImageError> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by(|one, other| one.order(other));
    let mut names: Vec<_> = entries.iter().map(|entry| &entry.name).collect();
    names.sort();
    let is_twice = |pair: &&[&std::path::PathBuf]| pair[0] == pair[1];
    if let Some(pair) = names.windows(2).find(is_twice) {
        return Err(ImageError::Name { name: pair[0].clone(), what: "it is there twice" });
    }
    for entry in &sorted {
        let fault = fault_of_name(&entry.name).or_else(|| match &entry.content {
            crate::Content::Link(target) => fault_of_link(&entry.name, target),
            _ => None,
        });
        if let Some(what) = fault {
            return Err(ImageError::Name { name: entry.name.clone(), what });
        }
    }
    Ok(sorted)
}

fn group<'a>(sorted: &'a [&'a Entry]) -> Vec<Group<'a>> {
    let folders = sorted.partition_point(|entry| entry.content.is_folder());
    let links = sorted.partition_point(|entry| !entry.content.is_link());
    let mut groups = vec![Group { kind: Kind::Folders, entries: &sorted[..folders] }];
    let (mut from, mut size) = (folders, 0);
    for at in folders..links {
        size += sorted[at].content.size() + BLOCK as u64;
        if size >= FRAME_SIZE || at + 1 == links {
            groups.push(Group { kind: Kind::Files, entries: &sorted[from..=at] });
            (from, size) = (at + 1, 0);
        }
    }
    groups.push(Group { kind: Kind::Links, entries: &sorted[links..] });
    groups
}

fn lock<'a, 'b>(turns: &'a Mutex<Turns<'b>>) -> MutexGuard<'a, Turns<'b>> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What each thread does until nothing is left.
fn work(groups: &[Group<'_>], level: i32, turns: &Mutex<Turns<'_>>, moved: &Condvar) {
    loop {
        let mut held = lock(turns);
        let at = held.next;
        let Some(group) = groups.get(at).filter(|_| held.error.is_none()) else { return };
        held.next += 1;
        drop(held);
        let compressed = compress(group, level);
        let waits = |turns: &mut Turns<'_>| turns.written != at && turns.error.is_none();
        let held = moved.wait_while(lock(turns), waits);
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        if held.error.is_none() {
            let written = compressed.and_then(|bytes| held.out.write_frame(group.kind, &bytes));
            held.error = written.err();
            held.written += 1;
        }
        moved.notify_all();
    }
}

fn compress(group: &Group<'_>, level: i32) -> Result<Vec<u8>, ImageError> {
    let none = Path::new("zstd");
    let mut encoder =
        zstd::Encoder::new(Vec::new(), level).map_err(system(none, "start compressing"))?;
    // Whoever opens an image without knowing its digest from elsewhere is not to use one that was damaged before.
    encoder.include_checksum(true).map_err(system(none, "start compressing"))?;
    for entry in group.entries {
        write_entry(entry, &mut encoder)?;
    }
    if group.kind == Kind::Links {
        encoder.write_all(&[0; 2 * BLOCK]).map_err(system(none, "compress"))?;
    }
    encoder.finish().map_err(system(none, "compress"))
}

impl Out<'_> {
    fn write_frame(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), ImageError> {
        self.write(&FrameHead { kind, size: bytes.len() as u64 }.encode())?;
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.verifier.take(bytes);
        let written: io::Result<()> = self.file.write_all(bytes);
        written.map_err(system(self.path, "write it"))
    }
}
