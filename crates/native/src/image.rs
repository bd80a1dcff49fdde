//! Image functions for Python: they take the contents as lists, and return names, sizes and errors.

use std::fs::File;
use std::io::BufWriter;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use gristmill_image::{Content, ImageEntry, ImageError, PackOptions};
use gristmill_wire::Digest;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::error;

/// A file's name in the image, its path, the offset of its bytes there if it is only a part, their size, and whether it
/// is executable.
type Piece = (PathBuf, PathBuf, Option<u64>, u64, bool);

/// The contents of an image.
#[derive(FromPyObject)]
pub struct ImageContents {
    folders: Vec<PathBuf>,
    files: Vec<Piece>,
    made: Vec<(PathBuf, Vec<u8>, bool)>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl ImageContents {
    fn entries(self) -> Vec<ImageEntry> {
        let folders = self.folders.into_iter().map(|name| (name, Content::Folder));
        let files = self.files.into_iter().map(|(name, path, offset, size, is_executable)| {
            (name, Content::Piece { path, offset, size, is_executable })
        });
        let made = self.made.into_iter();
        let made =
            made.map(|(name, bytes, is_executable)| (name, Content::Made { bytes, is_executable }));
        let links = self.links.into_iter().map(|(name, target)| (name, Content::Link(target)));
        let all = folders.chain(files).chain(made).chain(links);
        all.map(|(name, content)| ImageEntry { name, content }).collect()
    }
}

/// Converts an error to Python's own: an `OSError` with its number, which shows for example that the disk is full.
fn raised(py: Python<'_>, error: ImageError) -> PyErr {
    let code = error.code();
    let raised = match error {
        ImageError::System { path, action, source } => {
            let text = format!("cannot {action}: {source}");
            match source.raw_os_error() {
                Some(number) => PyOSError::new_err((number, text, path)),
                None => PyOSError::new_err(format!("{}: {text}", path.display())),
            }
        }
        error @ ImageError::Altered { .. } => {
            error::named(py, "AlteredImageError", &error.to_string())
        }
        error => error::named(py, "ImageError", &error.to_string()),
    };
    error::coded(py, raised, code)
}

/// Formats a digest as 64 hexadecimal digits.
pub fn digits(digest: &Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a digest of 64 hexadecimal digits.
///
/// # Errors
/// `ValueError`.
pub fn parse(text: &str) -> PyResult<Digest> {
    let fault =
        || PyValueError::new_err(format!("{text:?} is not a digest of 64 hexadecimal digits"));
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(fault());
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| fault())?;
    }
    Ok(Digest(digest))
}

/// Writes an image to a new file, and returns its digest.
#[pyfunction]
pub fn image_pack(
    py: Python<'_>,
    contents: ImageContents,
    path: PathBuf,
    level: i32,
    thread_count: usize,
) -> PyResult<String> {
    let options = PackOptions { level, thread_count };
    let packed = py.detach(|| gristmill_image::pack(&contents.entries(), &path, options));
    packed.map(|packed| digits(&packed.digest)).map_err(|error| raised(py, error))
}

/// Writes the same contents as a plain tar archive to a descriptor, and closes it.
#[pyfunction]
pub fn image_write_tar(py: Python<'_>, contents: ImageContents, descriptor: i32) -> PyResult<()> {
    // SAFETY: the caller passes ownership of the descriptor.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let written = py.detach(|| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        gristmill_image::write_tar(&contents.entries(), "the archive".as_ref(), &mut out)
    });
    written.map_err(|error| raised(py, error))
}

/// Unpacks an image into a new folder, if its bytes match the digest.
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

/// Copies an image to a new file, if its bytes match the digest.
#[pyfunction]
pub fn image_copy(py: Python<'_>, path: PathBuf, digest: &str, target: PathBuf) -> PyResult<()> {
    let digest = parse(digest)?;
    let copied = py.detach(|| gristmill_image::copy(&path, &digest, &target));
    copied.map_err(|error| raised(py, error))
}

/// Returns the digest of a file's bytes.
#[pyfunction]
pub fn image_digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let digest = py.detach(|| gristmill_image::digest_of_file(&path));
    digest.map(|digest| digits(&digest)).map_err(|error| raised(py, error))
}

/// Returns the bytes and the number of entries of an image, as its header states them.
#[pyfunction]
pub fn image_head(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    let head = gristmill_image::head_of(&path).map_err(|error| raised(py, error))?;
    Ok((head.content_size, head.entry_count))
}

/// Adds all functions of images to the module.
///
/// # Errors
/// `MemoryError`.
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
