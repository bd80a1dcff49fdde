//! A value that Python code makes when it is first needed.

use std::sync::OnceLock;

use pyo3::prelude::*;

/// A value that Python code makes at its first use.
///
/// A signal handler or a finalizer can run in the middle of that code and need the value too. With a `PyOnceLock` it
/// would wait forever on its own thread. Here each user makes the value, and the first one made stays.
#[derive(Debug)]
pub struct MadeOnce<T>(OnceLock<T>);

impl<T> MadeOnce<T> {
    /// Creates a cell without a value.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the value, if it was made.
    pub fn get(&self, _py: Python<'_>) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, and makes it if there is none. Never waits: the interpreter is held while the value is
    /// stored.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn get_or_make(&self, _py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        if let Some(made) = self.0.get() {
            return Ok(made);
        }
        let made = make()?;
        Ok(self.0.get_or_init(|| made))
    }
}
