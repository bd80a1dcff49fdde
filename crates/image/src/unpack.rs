//! Unpacking of images.
//!
//! The program makes folders first and links last, whatever the image says. No link exists while files are written, so each
//! file lands where its name says. Several threads take frames of files in turn. One thread at a time reads and hashes a frame,
//! and threads that need the next frame wait for it. Threads that have read their frames unpack them in parallel.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gristmill_wire::Digest;

use crate::error::{ImageError, system};
use crate::frame::{FRAME_HEAD_SIZE, FrameHead, FrameKind, ImageHeader};
use crate::header::{BLOCK, Fault, Form, padding, read_entry};
use crate::names::{fault_of_link, fault_of_name};
use crate::read::{Hashed, read_head, verify};

/// Largest frame that is read into memory and unpacked in parallel with others, bytes. A larger frame, which `pack` makes only
/// for a large file, is unpacked while it is read, and no other frame is read meanwhile.
const BESIDE_SIZE_MAX: u64 = 64 << 20;
/// Number of bytes that are written at a time.
const COPY_STEP: usize = 256 << 10;
/// Base-2 logarithm of zstd's largest window, bytes: no compression level of images needs more.
const WINDOW: u32 = 23;

/// An image that was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of folders, files and links.
    pub entry_count: u64,
    /// Total size of the files, bytes.
    pub content_size: u64,
}

/// The image as its bytes are read, by one thread at a time.
struct Input<'a> {
    file: &'a mut Hashed<File>,
    /// Header of the last frame, once it has been read.
    links: Option<FrameHead>,
    error: Option<ImageError>,
}

/// The state of one unpacking that all threads share.
struct Unpacking<'a> {
    path: &'a Path,
    folder: &'a Path,
    /// Folders of the image: entries are made in these only.
    folders: BTreeSet<PathBuf>,
    /// Files, links and bytes that may still follow, by the image's header.
    left: Mutex<ImageHeader>,
}

/// Unpacks an image into a new folder.
///
/// # Errors
/// The file is no image, the image is altered or hostile, or the system refuses, for example because the disk is full. The
/// caller must remove the folder and use nothing of it, unless the folder existed before the call
/// ([`io::ErrorKind::AlreadyExists`]).
pub fn unpack(
    path: &Path,
    digest: &Digest,
    folder: &Path,
    thread_count: usize,
) -> Result<Unpacked, ImageError> {
    let mut file = Hashed::new(File::open(path).map_err(system(path, "open it"))?);
    let done = unpack_all(path, &mut file, folder, thread_count);
    if let Err(error @ ImageError::System { .. }) = done {
        return Err(error);
    }
    // An alteration may also break a rule of the format. Report the alteration, which is the cause.
    let found = file.finish().map_err(system(path, "read it"))?;
    verify(path, digest, &found)?;
    done
}

fn unpack_all(
    path: &Path,
    file: &mut Hashed<File>,
    folder: &Path,
    thread_count: usize,
) -> Result<Unpacked, ImageError> {
    let head = read_head(file, path)?;
    let (folders, left) = (BTreeSet::new(), Mutex::new(head));
    let mut unpacking = Unpacking { path, folder, folders, left };
    unpacking.make_folders(file)?;
    let input = Mutex::new(Input { file, links: None, error: None });
    std::thread::scope(|scope| {
        for _ in 1..thread_count {
            scope.spawn(|| unpacking.work(&input));
        }
        unpacking.work(&input);
    });
    let Input { file, links, error } = input.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = error {
        return Err(error);
    }
    let links = links.ok_or_else(|| unpacking.hostile("it has no last frame", Path::new("")))?;
    unpacking.unpack_frame(file.take(links.size), FrameKind::Links)?;
    if *lock(&unpacking.left) != (ImageHeader { content_size: 0, entry_count: 0 }) {
        return Err(unpacking.hostile("it holds less than it says", Path::new("")));
    }
    Ok(Unpacked { entry_count: head.entry_count, content_size: head.content_size })
}

impl Unpacking<'_> {
    /// Unpacks the first frame, which has all folders.
    fn make_folders(&mut self, file: &mut Hashed<File>) -> Result<(), ImageError> {
        let mut builder = DirBuilder::new();
        builder.mode(0o755);
        builder.create(self.folder).map_err(system(self.folder, "make it"))?;
        let head = self.read_frame_head(file)?;
        if head.kind != FrameKind::Folders {
            return Err(self.hostile("its first frame holds no folders", Path::new("")));
        }
        let mut rest = file.take(head.size);
        let mut decoder = self.decoder(&mut rest)?;
        while let Some(found) = read_entry(&mut decoder).map_err(|fault| self.fault(fault))? {
            self.admit(&found.name, 0)?;
            if found.form != Form::Folder {
                return Err(self.hostile("something else is among the folders", &found.name));
            }
            let made = builder.create(self.folder.join(&found.name));
            made.map_err(|error| self.refused(error, &found.name))?;
            self.folders.insert(found.name);
        }
        drop(decoder);
        io::copy(&mut rest, &mut io::sink()).map_err(system(self.path, "read it"))?;
        Ok(())
    }

    /// Unpacks frames of files until the last frame is reached. Each thread runs this.
    fn work(&self, input: &Mutex<Input<'_>>) {
        loop {
            let mut held = lock(input);
            if held.error.is_some() || held.links.is_some() {
                return;
            }
            let size = match self.read_frame_head(held.file) {
                Ok(FrameHead { kind: FrameKind::Files, size }) => size,
                Ok(head @ FrameHead { kind: FrameKind::Links, .. }) => {
                    return held.links = Some(head);
                }
                Ok(_) => {
                    held.error = Some(self.hostile("folders come behind files", Path::new("")));
                    return;
                }
                Err(error) => return held.error = Some(error),
            };
            let done = if size > BESIDE_SIZE_MAX {
                let done = self.unpack_frame(held.file.take(size), FrameKind::Files);
                drop(held);
                done
            } else {
                let read = self.read_frame(held.file, size);
                drop(held);
                read.and_then(|bytes| self.unpack_frame(&bytes[..], FrameKind::Files))
            };
            if let Err(error) = done {
                lock(input).error.get_or_insert(error);
                return;
            }
        }
    }

    fn read_frame_head(&self, file: &mut impl Read) -> Result<FrameHead, ImageError> {
        let mut bytes = [0; FRAME_HEAD_SIZE];
        file.read_exact(&mut bytes).map_err(|error| self.fault(Fault::Bytes(error)))?;
        let cut = || self.hostile("a frame does not begin where it should", Path::new(""));
        FrameHead::decode(&bytes).ok_or_else(cut)
    }

    fn read_frame(&self, file: &mut impl Read, size: u64) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let read = file.take(size).read_to_end(&mut bytes);
        read.map_err(system(self.path, "read it"))?;
        Ok(bytes)
    }

    /// Unpacks a frame of files or links.
    fn unpack_frame(&self, mut bytes: impl Read, kind: FrameKind) -> Result<(), ImageError> {
        let mut decoder = self.decoder(&mut bytes)?;
        let mut space = vec![0; COPY_STEP];
        while let Some(found) = read_entry(&mut decoder).map_err(|fault| self.fault(fault))? {
            let name = &found.name;
            let parent = name.parent().unwrap_or(Path::new(""));
            if parent != Path::new("") && !self.folders.contains(parent) {
                return Err(self.hostile("a name is in no folder of the image", name));
            }
            match found.form {
                Form::File { size, is_executable } if kind == FrameKind::Files => {
                    self.admit(name, size)?;
                    // Unpacked files are read-only, whatever the archive says.
                    let mode = if is_executable { 0o555 } else { 0o444 };
                    let mut open = OpenOptions::new();
                    let file = open.write(true).create_new(true).mode(mode);
                    let file = file.open(self.folder.join(name));
                    let mut file = file.map_err(|error| self.refused(error, name))?;
                    self.fill(&mut file, &mut decoder, size, &mut space, name)?;
                }
                Form::Link(target) if kind == FrameKind::Links => {
                    self.admit(name, 0)?;
                    if let Some(what) = fault_of_link(name, &target) {
                        return Err(self.hostile(what, name));
                    }
                    // Only a link to an interpreter has an absolute target. A folder is none.
                    if target.is_absolute() && target.is_dir() {
                        return Err(self.hostile("a link leads to a folder outside", name));
                    }
                    let made = symlink(&target, self.folder.join(name));
                    made.map_err(|error| self.refused(error, name))?;
                }
                _ => return Err(self.hostile("an entry is in a frame of others", name)),
            }
        }
        drop(decoder);
        io::copy(&mut bytes, &mut io::sink()).map_err(system(self.path, "read it"))?;
        Ok(())
    }

    fn fill(
        &self,
        file: &mut File,
        from: &mut impl Read,
        size: u64,
        space: &mut [u8],
        name: &Path,
    ) -> Result<(), ImageError> {
        let mut left = size;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
            from.read_exact(&mut space[..step]).map_err(|error| self.fault(Fault::Bytes(error)))?;
            let written = file.write_all(&space[..step]);
            written.map_err(system(&self.folder.join(name), "write it"))?;
            left -= step as u64;
        }
        let pad = &mut [0; BLOCK][..padding(size)];
        from.read_exact(pad).map_err(|error| self.fault(Fault::Bytes(error)))
    }

    /// Checks a name, and counts the entry against the image's header.
    fn admit(&self, name: &Path, size: u64) -> Result<(), ImageError> {
        if let Some(what) = fault_of_name(name) {
            return Err(self.hostile(what, name));
        }
        let mut left = lock(&self.left);
        let count = left.entry_count.checked_sub(1);
        let (Some(entry_count), Some(content_size)) = (count, left.content_size.checked_sub(size))
        else {
            return Err(self.hostile("it holds more than it says", name));
        };
        *left = ImageHeader { content_size, entry_count };
        Ok(())
    }

    fn decoder<R: Read>(
        &self,
        bytes: R,
    ) -> Result<zstd::Decoder<'static, BufReader<R>>, ImageError> {
        let mut decoder = zstd::Decoder::new(bytes).map_err(system(self.path, "decompress it"))?;
        decoder.window_log_max(WINDOW).map_err(system(self.path, "decompress it"))?;
        Ok(decoder.single_frame())
    }

    fn hostile(&self, what: &'static str, name: &Path) -> ImageError {
        ImageError::Hostile {
            path: self.path.to_owned(),
            what,
            name: name.to_string_lossy().into_owned(),
        }
    }

    fn fault(&self, fault: Fault) -> ImageError {
        match fault {
            Fault::Rule(what) => self.hostile(what, Path::new("")),
            // Errors of the system have a number; all others mean that the bytes do not make sense.
            Fault::Bytes(error) if error.raw_os_error().is_some() => {
                system(self.path, "read it")(error)
            }
            Fault::Bytes(_) => self.hostile("its bytes are damaged or cut off", Path::new("")),
        }
    }

    /// Returns the error for an entry that the system did not create.
    fn refused(&self, error: io::Error, name: &Path) -> ImageError {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return self.hostile("a name is there twice", name);
        }
        system(&self.folder.join(name), "make it")(error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
