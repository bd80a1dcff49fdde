//! Reading images from the first byte to the last, and what they hash to.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use gristmill_store::Verifier;
use gristmill_wire::Digest;

use crate::error::{ImageError, system};
use crate::frame::{HEAD_SIZE, Head, NoHead};

/// Bytes that are read at a time.
const STEP: usize = 1 << 20;

/// Hashes what passes through it.
pub struct Hashed<R> {
    inner: R,
    verifier: Verifier,
}

impl<R: Read> Hashed<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, verifier: Verifier::default() }
    }

    /// Hashes the rest of the bytes, too; what all of them hash to.
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

/// The name of an image: what its bytes hash to.
///
/// # Errors
/// The system refuses.
pub fn digest_of_file(path: &Path) -> Result<Digest, ImageError> {
    let file = File::open(path).map_err(system(path, "open it"))?;
    let mut hashed = Hashed::new(BufReader::with_capacity(STEP, file));
    hashed.finish().map_err(system(path, "read it"))
}

/// Copies an image to a new file. It is all there once this returns, but the disk need not have it yet.
///
/// # Errors
/// Its bytes are not those that its name says, or the system refuses; what was written is left for the caller to remove.
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

/// What an image says of itself; its bytes are not looked at further.
///
/// # Errors
/// It is no image, or of an unknown version, or the system refuses.
pub fn head_of(path: &Path) -> Result<Head, ImageError> {
    let mut file = File::open(path).map_err(system(path, "open it"))?;
    read_head(&mut file, path)
}

/// Reads the head that a file begins with.
pub fn read_head(file: &mut impl Read, path: &Path) -> Result<Head, ImageError> {
    let foreign = || ImageError::NotAnImage { path: path.to_owned() };
    let mut bytes = [0; HEAD_SIZE];
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(foreign()),
        read => read.map_err(system(path, "read it"))?,
    }
    Head::decode(&bytes).map_err(|fault| match fault {
        NoHead::Foreign => foreign(),
        NoHead::Version(version) => ImageError::UnknownVersion { path: path.to_owned(), version },
    })
}

/// Whether a file has the name that it should have.
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
