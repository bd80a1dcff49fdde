//! The living app futures of one kernel, and the count of its tasks.

use pyo3::ffi;
use pyo3::prelude::*;

use super::app::links;
use super::layout::FutureRef;
use crate::attached::Attached;
use crate::object::Owned;

/// The counter of one kernel's tasks, with a list of its app futures that does not keep them alive: each leaves the
/// list when it ends.
#[pyclass(frozen, module = "gristmill._native")]
pub struct Ledger {
    state: Attached<State>,
}

struct State {
    count: u64,
    watch: Option<Watch>,
    /// The newest app future, whose links lead to the others; borrowed, null if none is alive.
    newest: *mut ffi::PyObject,
}

/// A function that is called each time that `step` bytes of values were fetched.
struct Watch {
    step: u64,
    /// Bytes that were fetched since the last call.
    fetched: u64,
    callback: Py<PyAny>,
}

// SAFETY: the pointer is followed only with the interpreter held, which `Attached` ensures.
unsafe impl Send for State {}

/// An app future's neighbours in its ledger: borrowed, null at the ends.
pub(super) struct Links {
    pub newer: *mut ffi::PyObject,
    pub older: *mut ffi::PyObject,
}

#[pymethods]
impl Ledger {
    #[new]
    fn new() -> Self {
        Self { state: Attached::new(State { count: 0, watch: None, newest: std::ptr::null_mut() }) }
    }

    /// Returns the number of the next task, beginning with 0.
    fn next(&self, py: Python<'_>) -> u64 {
        self.state.with(py, State::next)
    }

    /// Returns how many numbers were assigned.
    #[getter]
    fn count(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.count)
    }

    /// Registers a function that is called, without arguments, each time that `step` bytes of values were fetched, in
    /// the thread that fetches.
    fn watch_fetched(&self, py: Python<'_>, step: u64, callback: Py<PyAny>) {
        let watch = Watch { step, fetched: 0, callback };
        // Outside the closure: dropping an earlier callback may run Python code.
        drop(self.state.with(py, |state| state.watch.replace(watch)));
    }

    /// Returns the app futures whose tasks are not final, ordered by number.
    fn living<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let found = self.state.with(py, |state| state.living(py));
        found.into_iter().rev().map(|future| future.into_bound(py)).collect()
    }
}

impl Ledger {
    /// Counts the bytes of a fetched value.
    ///
    /// # Errors
    /// Any exception that the function of [`Self::watch_fetched`] raises.
    #[inline]
    pub(super) fn count_fetched(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        match self.state.with(py, |state| state.take_step(py, size)) {
            Some(callback) => callback.call0(py).map(drop),
            None => Ok(()),
        }
    }

    /// Adds a new app future and returns its number.
    ///
    /// # Safety
    /// `future` is a live app future that is in no ledger, and stays alive or calls [`Self::leave`].
    #[inline]
    pub(super) unsafe fn enter(&self, py: Python<'_>, future: *mut ffi::PyObject) -> u64 {
        self.state.with(py, |state| {
            // SAFETY: the caller guarantees it of the new one; those in the list are alive, or they would have left.
            unsafe {
                *links(future) = Links { newer: std::ptr::null_mut(), older: state.newest };
                if !state.newest.is_null() {
                    links(state.newest).newer = future;
                }
            }
            state.newest = future;
            state.next()
        })
    }

    /// Removes an app future.
    ///
    /// # Safety
    /// `future` is an app future in this ledger, whose memory is not yet freed.
    #[inline]
    pub(super) unsafe fn leave(&self, py: Python<'_>, future: *mut ffi::PyObject) {
        self.state.with(py, |state| {
            // SAFETY: as for `enter`.
            unsafe {
                let &mut Links { newer, older } = links(future);
                if !older.is_null() {
                    links(older).newer = newer;
                }
                if newer.is_null() {
                    state.newest = older;
                } else {
                    links(newer).older = older;
                }
            }
        });
    }
}

impl State {
    /// Counts fetched bytes. Returns the function to call if they complete a step.
    #[inline]
    fn take_step(&mut self, py: Python<'_>, size: u64) -> Option<Py<PyAny>> {
        let watch = self.watch.as_mut()?;
        watch.fetched = watch.fetched.saturating_add(size);
        if watch.fetched < watch.step {
            return None;
        }
        watch.fetched = 0;
        Some(watch.callback.clone_ref(py))
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let number = self.count;
        self.count += 1;
        number
    }

    /// Returns the futures whose tasks are not final, the newest first. Runs no Python code, so that none leaves
    /// meanwhile.
    fn living(&self, py: Python<'_>) -> Vec<Owned> {
        let mut found = Vec::new();
        let mut next = self.newest;
        while let Some(future) = (!next.is_null()).then(|| FutureRef::from_ptr(py, next)).flatten()
        {
            // SAFETY: an app future in the list is alive: it leaves before it ends.
            unsafe {
                if !future.engine().is_final(future.task()) {
                    found.push(Owned::new_reference(next));
                }
                next = links(next).older;
            }
        }
        found
    }
}
