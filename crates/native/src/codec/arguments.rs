//! The decoded arguments of a call, and the values of parents among them.

use pyo3::ffi;
use pyo3::prelude::*;

use super::outcome::malformed;
use crate::object::Owned;

/// Access to the values of a task's parents while its arguments are decoded.
pub trait ParentValues {
    /// Returns the value of parent `index` as a new reference. Fails if there is no such parent or its value does not
    /// decode.
    ///
    /// # Errors
    /// The Python exception that the call of the task raises.
    fn parent(&mut self, py: Python<'_>, index: u32) -> PyResult<Owned>;
}

/// No parents: for results.
impl ParentValues for () {
    fn parent(&mut self, _py: Python<'_>, index: u32) -> PyResult<Owned> {
        Err(malformed(&format!("it names parent {index} of a value that has none")))
    }
}

/// The arguments of one call, in the form that `PyObject_Vectorcall` takes.
pub struct Arguments {
    /// One free entry (which the callee may use), then positional and named values; all owned references.
    pub(super) values: Vec<*mut ffi::PyObject>,
    pub(super) positional: usize,
    pub(super) names: Option<Owned>,
}

impl Arguments {
    /// Creates an empty set, whose storage serves many calls.
    pub fn new() -> Box<Self> {
        Box::new(Self { values: vec![std::ptr::null_mut()], positional: 0, names: None })
    }

    /// Calls `function` with the arguments and drops them.
    ///
    /// # Safety
    /// The caller holds the interpreter; `function` is a live object.
    pub unsafe fn call(&mut self, function: *mut ffi::PyObject) -> *mut ffi::PyObject {
        let names = self.names.as_ref().map_or(std::ptr::null_mut(), Owned::as_ptr);
        // SAFETY: `values` holds a free entry and then as many live objects as the counts say.
        let result = unsafe {
            ffi::PyObject_Vectorcall(
                function,
                self.values.as_ptr().add(1),
                self.positional | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
                names,
            )
        };
        self.clear();
        result
    }

    /// Drops the arguments.
    pub fn clear(&mut self) {
        for value in self.values.drain(1..) {
            // SAFETY: this set owns each value as a reference, and decoding ran with the interpreter held.
            unsafe { ffi::Py_DECREF(value) };
        }
        self.positional = 0;
        self.names = None;
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Arguments {
    /// Fills in the arguments of a pickled call.
    pub(super) fn fill(
        &mut self,
        positional: &Bound<'_, pyo3::types::PyTuple>,
        named: &Bound<'_, pyo3::types::PyDict>,
    ) -> PyResult<()> {
        self.positional = positional.len();
        self.values.extend(positional.iter().map(|value| value.into_ptr()));
        if !named.is_empty() {
            self.values.extend(named.values().iter().map(|value| value.into_ptr()));
            let names = named.keys().to_tuple();
            self.names = Some(Owned::from_bound(names.into_any()));
        }
        Ok(())
    }
}
