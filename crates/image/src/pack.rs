//! Writing of images.
//!
//! Each thread takes the next frame, compresses it in memory, and waits for its turn to write it. The bytes of an image
//! therefore do not depend on the number of threads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use gristmill_store::Verifier;
use gristmill_wire::Digest;

use crate::entry::ImageEntry;
use crate::error::{ImageError, system};
use crate::frame::{FrameHead, FrameKind, ImageHeader};
use crate::header::{BLOCK, write_entry};
use crate::names::{fault_of_link, fault_of_name};

/// Size of files after which a frame ends, bytes. This gives many more frames than threads, and is long enough that a
/// compressor that starts afresh with each frame has filled most of its window.
const FRAME_SIZE: u64 = 4 << 20;

/// The options of [`pack`].
#[derive(Debug, Clone, Copy)]
pub struct PackOptions {
    /// Compression level of zstd, 1 to 19.
    pub level: i32,
    /// Number of threads that compress.
    pub thread_count: usize,
}

/// An image that was written.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    /// Hash of the image's bytes, which is its name.
    pub digest: Digest,
    /// Total size of the files in the image, bytes.
    pub content_size: u64,
}

/// Some entries that are compressed together.
struct Group<'a> {
    kind: FrameKind,
    entries: &'a [&'a ImageEntry],
}

/// The state that the threads share.
struct Turns<'a> {
    out: Out<'a>,
    /// Index of the next frame that no thread has taken.
    next: usize,
    /// Index of the next frame to write to the file.
    written: usize,
    /// True after an error or a panic: no further frame is written.
    is_over: bool,
    error: Option<ImageError>,
}

struct Out<'a> {
    file: BufWriter<File>,
    verifier: Verifier,
    path: &'a Path,
}

/// Writes an image to a new file. The file is complete and on the disk once this function returns.
///
/// # Errors
/// A name cannot be in an image or occurs twice ([`ImageError::Name`]), a file changed meanwhile ([`ImageError::Changed`]), or
/// the system refuses ([`ImageError::System`]). The caller must remove the file, unless `path` existed before the call,
/// which is an error too (its source is of kind [`io::ErrorKind::AlreadyExists`]).
pub fn pack(
    entries: &[ImageEntry],
    path: &Path,
    options: PackOptions,
) -> Result<Packed, ImageError> {
    let sorted = sort(entries)?;
    let groups = group(&sorted);
    let content_size = entries.iter().map(|entry| entry.content.size()).sum();
    let file = File::create_new(path).map_err(system(path, "make it"))?;
    let mut out = Out { file: BufWriter::new(file), verifier: Verifier::default(), path };
    out.write(&ImageHeader { content_size, entry_count: entries.len() as u64 }.encode())?;
    let turns = Turns { out, next: 0, written: 0, is_over: false, error: None };
    let turns =
        write_frames(&groups, turns, options.thread_count, |group| compress(group, options.level));
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

/// Writes entries to `out` as a plain tar archive. Errors name `out` by `path`.
///
/// # Errors
/// The errors of [`pack`]. No file is made, so the caller has none to remove.
pub fn write_tar(
    entries: &[ImageEntry],
    path: &Path,
    out: &mut impl Write,
) -> Result<(), ImageError> {
    for entry in sort(entries)? {
        write_entry(entry, out)?;
    }
    // A buffered writer that is dropped before it is flushed loses its last error.
    out.write_all(&[0; 2 * BLOCK]).and_then(|()| out.flush()).map_err(system(path, "write it"))
}

/// Returns the entries in the order of the image. Checks their names and targets.
fn sort(entries: &[ImageEntry]) -> Result<Vec<&ImageEntry>, ImageError> {
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

fn group<'a>(sorted: &'a [&'a ImageEntry]) -> Vec<Group<'a>> {
    let folders = sorted.partition_point(|entry| entry.content.is_folder());
    let links = sorted.partition_point(|entry| !entry.content.is_link());
    let mut groups = vec![Group { kind: FrameKind::Folders, entries: &sorted[..folders] }];
    let (mut from, mut size) = (folders, 0);
    for at in folders..links {
        size += sorted[at].content.size() + BLOCK as u64;
        if size >= FRAME_SIZE || at + 1 == links {
            groups.push(Group { kind: FrameKind::Files, entries: &sorted[from..=at] });
            (from, size) = (at + 1, 0);
        }
    }
    groups.push(Group { kind: FrameKind::Links, entries: &sorted[links..] });
    groups
}

fn lock<'a, 'b>(turns: &'a Mutex<Turns<'b>>) -> MutexGuard<'a, Turns<'b>> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compresses frames in threads and writes them in order. If `compress` panics, the other threads end and the panic goes on.
fn write_frames<'a>(
    groups: &[Group<'_>],
    turns: Turns<'a>,
    thread_count: usize,
    compress: impl Fn(&Group<'_>) -> Result<Vec<u8>, ImageError> + Sync,
) -> Turns<'a> {
    let turns = Mutex::new(turns);
    let moved = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 1..thread_count {
            scope.spawn(|| work(groups, &turns, &moved, &compress));
        }
        work(groups, &turns, &moved, &compress);
    });
    turns.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that ends the other threads if this one panics: they would wait forever for the turn of its frame.
struct EndOnPanic<'a, 'b>(&'a Mutex<Turns<'b>>, &'a Condvar);

impl Drop for EndOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).is_over = true;
            self.1.notify_all();
        }
    }
}

/// Compresses and writes frames until none is left. Each thread runs this.
fn work(
    groups: &[Group<'_>],
    turns: &Mutex<Turns<'_>>,
    moved: &Condvar,
    compress: &impl Fn(&Group<'_>) -> Result<Vec<u8>, ImageError>,
) {
    let _guard = EndOnPanic(turns, moved);
    loop {
        let mut held = lock(turns);
        let at = held.next;
        let Some(group) = groups.get(at).filter(|_| !held.is_over) else { return };
        held.next += 1;
        drop(held);
        let compressed = compress(group);
        let waits = |turns: &mut Turns<'_>| turns.written != at && !turns.is_over;
        let held = moved.wait_while(lock(turns), waits);
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        if !held.is_over {
            let written = compressed.and_then(|bytes| held.out.write_frame(group.kind, &bytes));
            held.error = written.err();
            held.is_over = held.error.is_some();
            held.written += 1;
        }
        moved.notify_all();
    }
}

fn compress(group: &Group<'_>, level: i32) -> Result<Vec<u8>, ImageError> {
    // Errors of the compressor concern no file, and name `zstd` instead.
    let none = Path::new("zstd");
    let mut encoder =
        zstd::Encoder::new(Vec::new(), level).map_err(system(none, "start compressing"))?;
    // A program that opens an image without a trusted digest detects damage by this checksum.
    encoder.include_checksum(true).map_err(system(none, "start compressing"))?;
    for entry in group.entries {
        write_entry(entry, &mut encoder)?;
    }
    if group.kind == FrameKind::Links {
        encoder.write_all(&[0; 2 * BLOCK]).map_err(system(none, "compress"))?;
    }
    encoder.finish().map_err(system(none, "compress"))
}

impl Out<'_> {
    fn write_frame(&mut self, kind: FrameKind, bytes: &[u8]) -> Result<(), ImageError> {
        self.write(&FrameHead { kind, size: bytes.len() as u64 }.encode())?;
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.verifier.take(bytes);
        let written: io::Result<()> = self.file.write_all(bytes);
        written.map_err(system(self.path, "write it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_one_thread_ends_the_others() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("gristmill-pack-panic-{}", std::process::id()));
        let file = File::create_new(&path).expect("a new file");
        std::fs::remove_file(&path).expect("it was made");
        let out = Out { file: BufWriter::new(file), verifier: Verifier::default(), path: &path };
        let turns = Turns { out, next: 0, written: 0, is_over: false, error: None };
        let groups = [FrameKind::Folders, FrameKind::Files, FrameKind::Links]
            .map(|kind| Group { kind, entries: &[] });
        let is_first = Mutex::new(true);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write_frames(&groups, turns, 3, |_| {
                let is_first =
                    std::mem::take(&mut *is_first.lock().expect("no thread panics here"));
                assert!(!is_first, "on purpose");
                Ok(Vec::new())
            })
        }));
        assert!(ended.is_err(), "the panic goes on in the caller");
    }
}
