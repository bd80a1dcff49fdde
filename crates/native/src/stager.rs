//! The files of contexts on a node, staged by `gristmill._context.staging`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use gristmill_client::{BlockPart, FetchedFiles, FileStager, StagingId};
use gristmill_wire::Digest;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::image::{digits, parse};

const MODULE: &str = "gristmill._context.staging";
/// Bytes that are written at a time.
const STEP: usize = 1 << 20;

/// A file that was fetched to this node, in memory.
#[pyclass(frozen, module = "gristmill._native")]
pub struct BroughtFile {
    part: BlockPart,
    /// Its name: the digest of its bytes.
    #[pyo3(get)]
    digest: String,
}

#[pymethods]
impl BroughtFile {
    /// Returns its size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.part.range().size
    }

    /// Writes it to a new file that only its owner may read.
    ///
    /// # Errors
    /// `OSError`.
    fn write_to(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&path)?;
            self.copy(file)
        })
        .map_err(|error: std::io::Error| match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, error.to_string(), path)),
            None => PyOSError::new_err(error.to_string()),
        })
    }
}

impl BroughtFile {
    fn copy(&self, mut file: File) -> std::io::Result<()> {
        let (mut space, mut offset) = (vec![0; STEP], 0);
        loop {
            let count = self.part.read_at(offset, &mut space);
            if count == 0 {
                return Ok(());
            }
            file.write_all(&space[..count])?;
            offset += count as u64;
        }
    }
}

/// A file stager that calls Python.
#[derive(Debug)]
pub struct PythonStager;

impl PythonStager {
    /// Calls a function of the module. An error is the text of the exception that it raised.
    fn call<T>(
        name: &str,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, String> {
        let called = Python::try_attach(|py| {
            let function = py.import(MODULE).and_then(|module| module.getattr(name));
            let called = function.and_then(|function| call(py, &function));
            called.map_err(|error| error.value(py).to_string())
        });
        called.unwrap_or_else(|| Err("this node is ending".to_owned()))
    }
}

impl FileStager for PythonStager {
    fn look(&self, ticket: StagingId, setup: &[u8]) -> Result<Vec<Digest>, String> {
        Self::call("look", |py, look| {
            let lacking: Vec<String> = look.call1((ticket, PyBytes::new(py, setup)))?.extract()?;
            lacking.iter().map(|text| parse(text)).collect()
        })
    }

    fn provide(
        &self,
        ticket: StagingId,
        setup: &[u8],
        files: FetchedFiles,
    ) -> Result<Vec<u8>, String> {
        Self::call("provide", |py, provide| {
            let brought = |(digest, part): (Digest, BlockPart)| {
                Py::new(py, BroughtFile { part, digest: digits(&digest) })
            };
            let files: Vec<_> = files.into_iter().map(brought).collect::<PyResult<_>>()?;
            let files = PyList::new(py, files)?;
            provide.call1((ticket, PyBytes::new(py, setup), files))?.extract()
        })
    }

    fn let_go(&self, ticket: StagingId) {
        // No caller could handle an exception here, and locks are released at the latest when the process ends.
        let _ = Self::call("let_go", |_, let_go| let_go.call1((ticket,)).map(drop));
    }
}
