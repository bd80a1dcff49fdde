//! What a function by value takes from around it: as long as each part is the same object, so is its behaviour.
//!
//! A context is the same until it is released, which its *stamp* tells. Of one that is a global the stamp alone is kept, so
//! that it goes when the program drops it; cells and defaults are kept by their function anyhow.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::object::Owned;

/// All that a function depends on: the parts of every function by value that it reaches, and the contexts.
pub struct Captured {
    functions: Vec<Parts>,
    contexts: Vec<(Py<PyAny>, Stamp)>,
}

impl Captured {
    /// Takes stock of `(function, names of globals, names of globals that are contexts)` of each function that is reached,
    /// and of the contexts that their cells and defaults hold.
    pub fn take(functions: &Bound<'_, PyList>, contexts: &Bound<'_, PyList>) -> PyResult<Self> {
        let functions = functions.iter().map(|one| Parts::take(&one)).collect::<PyResult<_>>()?;
        let stamped = |one: Bound<'_, PyAny>| Ok((one.clone().unbind(), Stamp::take(&one)?));
        Ok(Self { functions, contexts: contexts.iter().map(stamped).collect::<PyResult<_>>()? })
    }

    /// Whether nothing was found: the object says it all.
    pub fn is_nothing(&self) -> bool {
        self.functions.is_empty() && self.contexts.is_empty()
    }

    /// Whether every part is still the same object. Runs no Python code.
    pub fn is_same(&self, py: Python<'_>) -> bool {
        self.functions.iter().all(|parts| parts.is_same(py))
            && self.contexts.iter().all(|(context, stamp)| stamp.is_on(context.bind(py)))
    }
}

/// What tells that a context has not been released since.
struct Stamp {
    /// The type of contexts, where the stamp is read without Python code.
    kind: Py<PyType>,
    stamp: Py<PyAny>,
}

impl Stamp {
    fn take(context: &Bound<'_, PyAny>) -> PyResult<Self> {
        let stamp = context.getattr(intern!(context.py(), "_stamp"))?.unbind();
        Ok(Self { kind: context.get_type().unbind(), stamp })
    }

    fn is_on(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.kind)
            && object
                .getattr(intern!(object.py(), "_stamp"))
                .is_ok_and(|stamp| stamp.is(&self.stamp))
    }
}

/// Everything that one function by value takes from around it.
struct Parts {
    function: Py<PyAny>,
    /// Code, defaults, keyword defaults and the contents of its cells; null for what is not there.
    own: Vec<Option<Py<PyAny>>>,
    /// The globals it names, each with the value it had.
    globals: Vec<(Py<PyAny>, Option<Py<PyAny>>)>,
    /// Those that were contexts.
    contexts: Vec<(Py<PyAny>, Stamp)>,
}

impl Parts {
    /// Takes stock of `(function, names of globals, names of globals that are contexts)`.
    fn take(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Names<'py> = Vec<Bound<'py, PyAny>>;
        let py = item.py();
        let (function, names, stamped): (Bound<'_, PyAny>, Names<'_>, Names<'_>) =
            item.extract()?;
        let mut own = Vec::new();
        // SAFETY: the module hands out functions only; what is borrowed is turned into references of our own.
        unsafe {
            each_part(function.as_ptr(), &mut |part| {
                own.push((!part.is_null()).then(|| Bound::from_borrowed_ptr(py, part).unbind()));
                true
            });
        }
        let value = |name: &Bound<'_, PyAny>| global(&function, name).map(Bound::unbind);
        let globals = names.iter().map(|name| (name.clone().unbind(), value(name))).collect();
        let stamp = |name: Bound<'_, PyAny>| {
            let context = global(&function, &name)?;
            Some(Stamp::take(&context).map(|stamp| (name.unbind(), stamp)))
        };
        let contexts = stamped.into_iter().filter_map(stamp).collect::<PyResult<_>>()?;
        Ok(Self { function: function.unbind(), own, globals, contexts })
    }

    /// Whether every part is still the same object.
    fn is_same(&self, py: Python<'_>) -> bool {
        let function = self.function.bind(py);
        let mut own = self.own.iter();
        let same = |known: Option<&Py<PyAny>>, now: *mut ffi::PyObject| {
            known.map_or(std::ptr::null_mut(), Py::as_ptr) == now
        };
        let mut is_same = true;
        // SAFETY: it is a live function and the interpreter is held.
        unsafe {
            each_part(function.as_ptr(), &mut |part| {
                is_same = own.next().is_some_and(|known| same(known.as_ref(), part));
                is_same
            });
        }
        let is_global = |name: &Py<PyAny>, known: Option<&Py<PyAny>>| {
            let now = global(function, name.bind(py));
            same(known, now.map_or(std::ptr::null_mut(), |now| now.as_ptr()))
        };
        let is_stamped = |name: &Py<PyAny>, stamp: &Stamp| {
            global(function, name.bind(py)).is_some_and(|now| stamp.is_on(&now))
        };
        is_same
            && own.next().is_none()
            && self.globals.iter().all(|(name, value)| is_global(name, value.as_ref()))
            && self.contexts.iter().all(|(name, stamp)| is_stamped(name, stamp))
    }
}

/// A global of a function.
fn global<'py>(
    function: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the callers have a function, whose globals are a dict; what is borrowed from that is turned into a reference
    // at once, with the interpreter held.
    unsafe {
        let table = ffi::PyFunction_GetGlobals(function.as_ptr());
        Bound::from_borrowed_ptr_or_opt(function.py(), ffi::PyDict_GetItem(table, name.as_ptr()))
    }
}

/// Visits code, defaults, keyword defaults and cell contents (borrowed, null where absent) until `visit` says false.
///
/// # Safety
/// `function` is a live Python function and the interpreter is held.
unsafe fn each_part(
    function: *mut ffi::PyObject,
    visit: &mut dyn FnMut(*mut ffi::PyObject) -> bool,
) {
    // SAFETY: the getters give borrowed references of a function; a closure is a tuple of cells.
    unsafe {
        let parts = [
            ffi::PyFunction_GetCode(function),
            ffi::PyFunction_GetDefaults(function),
            ffi::PyFunction_GetKwDefaults(function),
        ];
        if !parts.into_iter().all(&mut *visit) {
            return;
        }
        let closure = ffi::PyFunction_GetClosure(function);
        let count = if closure.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(closure) };
        for index in 0..count {
            let content = ffi::PyCell_Get(ffi::PyTuple_GET_ITEM(closure, index));
            // The cell keeps its content alive while nobody else runs.
            let borrowed = content;
            if !content.is_null() {
                drop(Owned::or_raise(Python::assume_attached(), content));
            }
            if !visit(borrowed) {
                return;
            }
        }
    }
}
