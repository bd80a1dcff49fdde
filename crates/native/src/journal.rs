//! Journals for Python: appending, and reading the entries found when a journal is opened.
//!
//! A small append keeps the interpreter lock: it is one `write(2)` into the kernel's memory, and to release the lock
//! for so short a time can cost 5 ms, the time that another thread may keep it. Calls that wait for a disk, or write
//! much, release it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use gristmill_journal::{Entries, Journal, JournalError, JournalOptions};
use gristmill_sync::process;
use pyo3::exceptions::{PyBlockingIOError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;

/// Bytes from which on an append releases the interpreter lock.
const SLOW_SIZE: usize = 1 << 20;

/// Converts an error to Python's own: an `OSError` with its number, which decides its class.
fn raised(py: Python<'_>, error: JournalError) -> PyErr {
    let code = error.code();
    let raised = match error {
        JournalError::System { path, action, source } => {
            let number = source.raw_os_error();
            let text = format!("cannot {action}: {source}");
            match number {
                Some(number) => PyOSError::new_err((number, text, path)),
                None => PyOSError::new_err(format!("{}: {text}", path.display())),
            }
        }
        JournalError::Locked { .. } => PyBlockingIOError::new_err(error.to_string()),
        JournalError::Broken { .. } => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    };
    error::coded(py, raised, code)
}

/// An append-only file of checksummed entries, open for writing.
#[pyclass(frozen, name = "Journal", module = "gristmill._native")]
pub struct PyJournal {
    journal: Mutex<Option<Journal>>,
    path: PathBuf,
    durable: bool,
    lost: u64,
    recovered: u64,
    /// The fork generation of the process that opened it: a forked child would overwrite its parent's entries.
    generation: u32,
}

impl PyJournal {
    /// Locks the open journal. While another thread's disk write has it, the wait releases the interpreter lock, which
    /// that thread needs.
    fn open(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Journal>>> {
        if self.generation != process::generation() {
            let text =
                "a journal cannot be written by a forked child of the process that opened it";
            return Err(PyRuntimeError::new_err(text));
        }
        let guard = loop {
            match self.journal.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| {
                    drop(self.journal.lock().unwrap_or_else(PoisonError::into_inner));
                }),
            }
        };
        if guard.is_none() {
            return Err(PyValueError::new_err("the journal is closed"));
        }
        Ok(guard)
    }

    fn append_pairs(&self, py: Python<'_>, pairs: &[(&[u8], &[u8])]) -> PyResult<()> {
        let mut guard = self.open(py)?;
        let journal = guard.as_mut().expect("this operation needs an open journal");
        let mut append = || journal.append_all(pairs.iter().copied());
        let size: usize = pairs.iter().map(|(_, value)| value.len()).sum();
        let is_slow = self.durable || size >= SLOW_SIZE;
        let done = if is_slow { py.detach(append) } else { append() };
        done.map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl PyJournal {
    #[new]
    #[pyo3(signature = (path, durable=false))]
    fn new(py: Python<'_>, path: PathBuf, durable: bool) -> PyResult<PyJournal> {
        let opened = py.detach(|| Journal::open(&path, JournalOptions { durable }));
        let journal = opened.map_err(|error| raised(py, error))?;
        let (lost, recovered) = (journal.lost(), journal.recovered());
        let generation = process::generation();
        Ok(PyJournal {
            journal: Mutex::new(Some(journal)),
            path,
            durable,
            lost,
            recovered,
            generation,
        })
    }

    /// Opens a file for reading only, which others may be writing, and returns an iterator over its entries.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<JournalEntries> {
        JournalEntries::open(py, &path, None)
    }

    /// Returns an iterator over the entries found when the journal was opened.
    fn entries(&self, py: Python<'_>) -> PyResult<JournalEntries> {
        JournalEntries::open(py, &self.path, Some(self.recovered))
    }

    /// Appends one entry. Once this returns, the entry survives the end of this process.
    fn append(&self, key: &Bound<'_, PyBytes>, value: &Bound<'_, PyBytes>) -> PyResult<()> {
        self.append_pairs(key.py(), &[(key.as_bytes(), value.as_bytes())])
    }

    /// Appends pairs of keys and values with as few system calls as possible. On an error it appends none of them.
    fn append_all(
        &self,
        py: Python<'_>,
        pairs: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
    ) -> PyResult<()> {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        self.append_pairs(py, &pairs)
    }

    /// Waits until the disk has every entry.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.open(py)?;
        let journal = guard.as_ref().expect("this operation needs an open journal");
        py.detach(|| journal.sync()).map_err(|error| raised(py, error))
    }

    /// Closes the journal, so that others may write it. Does nothing if it is closed already.
    fn close(&self, py: Python<'_>) {
        if let Ok(mut guard) = self.open(py) {
            *guard = None;
        }
    }

    /// Returns the bytes that were torn or damaged when the journal was opened, and were cut off.
    #[getter]
    fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of entries found when the journal was opened.
    #[getter]
    fn recovered(&self) -> u64 {
        self.recovered
    }
}

/// An iterator over the entries of a journal: pairs of key and value.
#[pyclass(frozen, module = "gristmill._native")]
pub struct JournalEntries {
    entries: Mutex<Entries<File>>,
    /// Maximum entries that it yields.
    limit: Option<u64>,
}

impl JournalEntries {
    fn open(py: Python<'_>, path: &Path, limit: Option<u64>) -> PyResult<JournalEntries> {
        let entries = py.detach(|| Entries::open(path)).map_err(|error| raised(py, error))?;
        Ok(JournalEntries { entries: Mutex::new(entries), limit })
    }

    fn lock(&self) -> MutexGuard<'_, Entries<File>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl JournalEntries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        let mut entries = self.lock();
        if self.limit == Some(entries.count()) {
            return Ok(None);
        }
        let entry = entries.next().map_err(|error| raised(py, error))?;
        Ok(entry.map(|entry| (PyBytes::new(py, entry.key), PyBytes::new(py, entry.value))))
    }

    /// Returns the bytes behind the last whole entry, torn or damaged; 0 until the iterator is exhausted.
    #[getter]
    fn lost(&self) -> u64 {
        self.lock().lost()
    }
}
