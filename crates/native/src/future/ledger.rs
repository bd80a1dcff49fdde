//! Which app futures of one kernel are alive, and how many tasks it has numbered.

use pyo3::ffi;
use pyo3::prelude::*;

use super::app::links;
use super::layout::FutureRef;
use crate::engine::Attached;
use crate::object::Owned;

/// Numbers the tasks of one kernel, and knows its app futures without holding them: each leaves when it goes.
#[pyclass(frozen, module = "gristmill._native")]
pub struct Ledger {
    state: Attached<State>,
}

struct State {
    count: u64,
    /// The app future that came last, whose links lead to the others; borrowed, null if none is alive.
    newest: *mut ffi::PyObject,
}

// SAFETY: the pointer is followed with the interpreter held only, as `Attached` sees to.
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
        Self { state: Attached::new(State { count: 0, newest: std::ptr::null_mut() }) }
    }

    /// Gives the next task's number, the first time 0.
    fn next(&self, py: Python<'_>) -> u64 {
        self.state.with(py, State::next)
    }

    /// How many numbers were given.
    #[getter]
    fn count(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.count)
    }

    /// The app futures whose tasks are not final, by number.
    fn living<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let found = self.state.with(py, |state| state.living(py));
        found.into_iter().rev().map(|future| future.into_bound(py)).collect()
    }
}

impl Ledger {
    /// Takes in a new app future; gives its number.
    ///
    /// # Safety
    /// `future` is a live app future that is in no ledger, and stays alive or calls [`Self::leave`].
    #[inline]
    pub(super) unsafe fn enter(&self, py: Python<'_>, future: *mut ffi::PyObject) -> u64 {
        self.state.with(py, |state| {
            // SAFETY: the new one is passed on from the caller; those of the list are alive, or they would have left.
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

    /// Forgets an app future.
    ///
    /// # Safety
    /// `future` is an app future in this ledger, whose memory is still there.
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
    #[inline]
    fn next(&mut self) -> u64 {
        let number = self.count;
        self.count += 1;
        number
    }

    /// Those whose tasks are not final, the newest first. Runs no Python code, so that nobody leaves meanwhile.
    fn living(&self, py: Python<'_>) -> Vec<Owned> {
        let mut found = Vec::new();
        let mut next = self.newest;
        while let Some(future) = (!next.is_null()).then(|| FutureRef::from_ptr(py, next)).flatten()
        {
            // SAFETY: an app future in the list is alive: it leaves before it goes.
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
