//! Hashes, verified copies and headers of images.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use gristmill_store::Verifier;
use gristmill_wire::Digest;

use crate::error::{ImageError, system};
use crate::frame::{HEAD_SIZE, ImageHeader, NoHead};

/// Number of bytes that are read at a time.
const STEP: usize = 1 << 20;

/// A reader that hashes the bytes that pass through it.
pub struct Hashed<R> {
    inner: R,
    verifier: Verifier,
}

impl<R: Read> Hashed<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, verifier: Verifier::default() }
    }

    /// Reads and hashes the rest of the bytes. Returns the hash of all bytes.
    pub fn finish(&mut self) -> io::Result<Digest> {
        let mut space = vec![0; STEP];
        while self.read(&mut space)? > 0 {}
        Ok(self.verifier.digest())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(space)?;
        self.verifier.take(&space[..count]);
        Ok(count)
    }
}

/// Returns the name of an image, which is the hash of its bytes.
///
/// # Errors
/// The system refuses.
pub fn digest_of_file(path: &Path) -> Result<Digest, ImageError> {
    let file = File::open(path).map_err(system(path, "open it"))?;
    let mut hashed = Hashed::new(BufReader::with_capacity(STEP, file));
    hashed.finish().map_err(system(path, "read it"))
}

/// Copies an image to a new file. The file is complete once this function returns, but may not be on the disk yet.
///
/// # Errors
/// The image's bytes do not hash to `digest`, or the system refuses. The caller must remove the new file, unless `target`
/// existed before the call ([`io::ErrorKind::AlreadyExists`]).
pub fn copy(path: &Path, digest: &Digest, target: &Path) -> Result<(), ImageError> {
    let mut file = File::open(path).map_err(system(path, "open it"))?;
    let out = File::create_new(target).map_err(system(target, "make it"))?;
    let mut verifier = Verifier::default();
    let mut space = vec![0; STEP];
    loop {
        let count = match file.read(&mut space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(system(path, "read it"))?,
        };
        if count == 0 {
            break;
        }
        verifier.take(&space[..count]);
        (&out).write_all(&space[..count]).map_err(system(target, "write it"))?;
    }
    verify(path, digest, &verifier.digest())
}

/// Reads the header of an image, and nothing after it.
///
/// # Errors
/// The file is no image or has an unknown version, or the system refuses.
pub fn head_of(path: &Path) -> Result<ImageHeader, ImageError> {
    let mut file = File::open(path).map_err(system(path, "open it"))?;
    read_head(&mut file, path)
}

/// Reads the header at the start of a file.
pub fn read_head(file: &mut impl Read, path: &Path) -> Result<ImageHeader, ImageError> {
    let foreign = || ImageError::NotAnImage { path: path.to_owned() };
    let mut bytes = [0; HEAD_SIZE];
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(foreign()),
        read => read.map_err(system(path, "read it"))?,
    }
    ImageHeader::decode(&bytes).map_err(|fault| match fault {
        NoHead::Foreign => foreign(),
        NoHead::Version(version) => ImageError::UnknownVersion { path: path.to_owned(), version },
    })
}

/// Checks that a file has the expected hash.
pub fn verify(path: &Path, wanted: &Digest, found: &Digest) -> Result<(), ImageError> {
    if wanted == found {
        return Ok(());
    }
    Err(ImageError::Altered {
        path: path.to_owned(),
        wanted: wanted.to_string(),
        wanted_size: wanted.size(),
        found: found.to_string(),
        found_size: found.size(),
    })
}
