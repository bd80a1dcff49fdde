//! Images for Python: what goes into one is said in lists, what comes of it are names, sizes and errors.

use std::fs::File;
use std::io::BufWriter;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use gristmill_image::{Content, Entry, ImageError, PackOptions};
use gristmill_wire::Digest;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::error;

/// A file's name in the image, its path, where its bytes begin there if not all are meant, how many, and whether it can be run.
type Piece = (PathBuf, PathBuf, Option<u64>, u64, bool);

/// What goes into an image.
#[derive(FromPyObject)]
pub struct Contents {
    folders: Vec<PathBuf>,
    files: Vec<Piece>,
    made: Vec<(PathBuf, Vec<u8>, bool)>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl Contents {
    fn entries(self) -> Vec<Entry> {
        let folders = self.folders.into_iter().map(|name| (name, Content::Folder));
        let files = self.files.into_iter().map(|(name, path, offset, size, is_executable)| {
            (name, Content::Piece { path, offset, size, is_executable })
        });
        let made = self.made.into_iter();
        let made =
            made.map(|(name, bytes, is_executable)| (name, Content::Made { bytes, is_executable }));
        let links = self.links.into_iter().map(|(name, target)| (name, Content::Link(target)));
        let all = folders.chain(files).chain(made).chain(links);
        all.map(|(name, content)| Entry { name, content }).collect()
    }
}

/// An error as Python's own: the operating system's with its number, which says whether the disk is full.
fn raised(py: Python<'_>, error: ImageError) -> PyErr {
    match error {
        ImageError::System { path, action, source } => {
            let text = format!("cannot {action}: {source}");
            match source.raw_os_error() {
                Some(number) => PyOSError::new_err((number, text, path)),
                None => PyOSError::new_err(format!("{}: {text}", path.display())),
            }
        }
        error @ ImageError::Altered { .. } => error::named(py, "AlteredImage", &error.to_string()),
        error => error::named(py, "ImageError", &error.to_string()),
    }
}

/// A digest as 64 digits.
pub fn digits(digest: &Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest from 64 digits.
///
/// # Errors
/// `ValueError`.
pub fn parse(text: &str) -> PyResult<Digest> {
    let fault = || PyValueError::new_err(format!("{text:?} is no digest: 64 hexadecimal digits"));
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(fault());
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| fault())?;
    }
    Ok(Digest(digest))
}

/// Writes an image to a new file; gives its digest.
#[pyfunction]
pub fn image_pack(
    py: Python<'_>,
    contents: Contents,
    path: PathBuf,
    level: i32,
    thread_count: usize,
) -> PyResult<String> {
    let options = PackOptions { level, thread_count };
    let packed = py.detach(|| gristmill_image::pack(&contents.entries(), &path, options));
    packed.map(|packed| digits(&packed.digest)).map_err(|error| raised(py, error))
}

/// Writes the same as a plain tar archive to a descriptor, which is closed then.
#[pyfunction]
pub fn image_write_tar(py: Python<'_>, contents: Contents, descriptor: i32) -> PyResult<()> {
    // SAFETY: the caller gives the descriptor away.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let written = py.detach(|| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        gristmill_image::write_tar(&contents.entries(), "the archive".as_ref(), &mut out)
    });
    written.map_err(|error| raised(py, error))
}

/// Unpacks an image into a new folder, if its bytes are those that the digest names.
#[pyfunction]
pub fn image_unpack(
    py: Python<'_>,
    path: PathBuf,
    digest: &str,
    folder: PathBuf,
    thread_count: usize,
) -> PyResult<()> {
    let digest = parse(digest)?;
    let unpacked = py.detach(|| gristmill_image::unpack(&path, &digest, &folder, thread_count));
    unpacked.map(drop).map_err(|error| raised(py, error))
}

/// Copies an image to a new file, if its bytes are those that the digest names.
#[pyfunction]
pub fn image_copy(py: Python<'_>, path: PathBuf, digest: &str, target: PathBuf) -> PyResult<()> {
    let digest = parse(digest)?;
    let copied = py.detach(|| gristmill_image::copy(&path, &digest, &target));
    copied.map_err(|error| raised(py, error))
}

/// What a file's bytes hash to.
#[pyfunction]
pub fn image_digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let digest = py.detach(|| gristmill_image::digest_of_file(&path));
    digest.map(|digest| digits(&digest)).map_err(|error| raised(py, error))
}

/// How many bytes and how many entries an image says it holds.
#[pyfunction]
pub fn image_head(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    let head = gristmill_image::head_of(&path).map_err(|error| raised(py, error))?;
    Ok((head.content_size, head.entry_count))
}

/// Adds all functions of images to the module.
///
/// # Errors
/// There is no memory.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(image_copy, module)?,
        wrap_pyfunction!(image_digest, module)?,
        wrap_pyfunction!(image_head, module)?,
        wrap_pyfunction!(image_pack, module)?,
        wrap_pyfunction!(image_unpack, module)?,
        wrap_pyfunction!(image_write_tar, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
