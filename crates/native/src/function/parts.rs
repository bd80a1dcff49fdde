//! The captured parts of a function by value: while each part is the same object, the function behaves the same.
//!
//! This module keeps nothing alive that the function itself does not keep alive, except constants: the function may be
//! reachable from its captured values, and would then never be freed. A context counts as the same until it is
//! released, which changes its *stamp*.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use super::held::{CapturedValue, Referent};
use crate::object::Owned;

/// The replaceable parts of a function object: its code, its defaults, and the number of its attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Addresses, each of a live object or 0.
    parts: [usize; 3],
    attributes: ffi::Py_ssize_t,
}

impl Own {
    /// Takes the parts of a callable. Also returns the objects that must be kept for as long as the parts are used.
    pub fn take(function: &Bound<'_, PyAny>) -> (Self, Vec<Py<PyAny>>) {
        let py = function.py();
        // SAFETY: the object is live, so its parts are live too, and we take references of our own.
        unsafe {
            let own = Self::now(function.as_ptr());
            let holders = own
                .parts
                .iter()
                .filter(|&&part| part != 0)
                .map(|&part| Bound::from_borrowed_ptr(py, part as *mut ffi::PyObject).unbind());
            (own, holders.collect())
        }
    }

    /// Returns whether `function` still has the same parts.
    ///
    /// # Safety
    /// `function` is the live object that they were taken from; the interpreter is held.
    #[inline]
    pub unsafe fn is_same(&self, function: *mut ffi::PyObject) -> bool {
        // SAFETY: the caller guarantees it.
        self.parts[0] == 0 || unsafe { Self::now(function) } == *self
    }

    /// Returns true for a function that has code, and neither defaults nor attributes.
    pub const fn is_only_code(&self) -> bool {
        self.parts[0] != 0 && self.parts[1] == 0 && self.parts[2] == 0 && self.attributes == 0
    }

    /// Returns the present parts of any object; one that is not a function has none.
    #[inline]
    unsafe fn now(object: *mut ffi::PyObject) -> Self {
        // SAFETY: the callers guarantee it; an object of the type of functions has their layout, and its attributes are
        // null or a dict.
        unsafe {
            if ffi::PyFunction_Check(object) == 0 {
                return Self { parts: [0; 3], attributes: 0 };
            }
            let function = &*object.cast::<ffi::PyFunctionObject>();
            let parts = [
                function.func_code as usize,
                function.func_defaults as usize,
                function.func_kwdefaults as usize,
            ];
            let attributes = function.func_dict.cast::<ffi::PyDictObject>();
            let attributes = if attributes.is_null() { 0 } else { (*attributes).ma_used };
            Self { parts, attributes }
        }
    }
}

/// All dependencies of a function: the parts of every function by value that it reaches, and the contexts.
pub struct Captured {
    functions: Vec<CapturedParts>,
    contexts: Vec<(Referent, Py<PyAny>, Stamp)>,
}

impl Captured {
    /// Captures the parts of each reached function, given as `(function, names of globals, names of globals that are
    /// contexts)`, and the contexts in their cells and defaults.
    pub fn take(functions: &Bound<'_, PyList>, contexts: &Bound<'_, PyList>) -> PyResult<Self> {
        let functions =
            functions.iter().map(|one| CapturedParts::take(&one)).collect::<PyResult<_>>()?;
        let stamped = |one: Bound<'_, PyAny>| {
            let (holder, referent) = Referent::take(&one, None);
            Ok((referent, holder, Stamp::take(&one)?))
        };
        Ok(Self { functions, contexts: contexts.iter().map(stamped).collect::<PyResult<_>>()? })
    }

    /// Returns whether nothing is captured: the function's object alone identifies it.
    pub fn is_nothing(&self) -> bool {
        self.functions.is_empty() && self.contexts.is_empty()
    }

    /// Returns true if only the code of `function` itself is captured.
    pub fn is_only_code_of(&self, function: &Bound<'_, PyAny>) -> bool {
        let [parts] = &self.functions[..] else { return false };
        let is_code_alone =
            parts.own.iter().filter(|held| !matches!(held, CapturedValue::Nothing)).count() == 1;
        // An empty cell may be filled later.
        // SAFETY: `function` is a function, because its parts were taken.
        let has_cells = unsafe { !ffi::PyFunction_GetClosure(function.as_ptr()).is_null() };
        self.contexts.is_empty()
            && parts.function.is(function.as_ptr())
            && is_code_alone
            && !has_cells
            && parts.globals.is_empty()
            && parts.contexts.is_empty()
    }

    /// Returns whether every part is still the same object. Runs no Python code.
    pub fn is_same(&self, py: Python<'_>) -> bool {
        self.functions.iter().all(|parts| parts.is_same(py))
            && self.contexts.iter().all(|(context, _, stamp)| {
                // SAFETY: the referent of the weak reference is live, and we take a reference of our own.
                let context =
                    context.get().map(|context| unsafe { Bound::from_borrowed_ptr(py, context) });
                context.is_some_and(|context| stamp.is_on(&context))
            })
    }
}

/// A stamp that shows whether a context has been released since.
struct Stamp {
    /// The type of contexts; the stamp of an object of this type is read without running Python code.
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

/// All captured parts of one function by value.
struct CapturedParts {
    function: Referent,
    _holder: Py<PyAny>,
    /// The parts that `each_part` visits.
    own: Vec<CapturedValue>,
    /// The globals that it names, each with its value.
    globals: Vec<(Py<PyAny>, CapturedValue)>,
    /// The globals that were contexts.
    contexts: Vec<(Py<PyAny>, Stamp)>,
}

impl CapturedParts {
    /// Captures the parts of one function, given as `(function, names of globals, names of globals that are contexts)`.
    fn take(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Names<'py> = Vec<Bound<'py, PyAny>>;
        let py = item.py();
        let (function, names, stamped): (Bound<'_, PyAny>, Names<'_>, Names<'_>) =
            item.extract()?;
        let mut own = Vec::new();
        // SAFETY: the module passes functions only; each visited part is live or null.
        unsafe {
            each_part(function.as_ptr(), &mut |part| {
                own.push(CapturedValue::take(py, part));
                true
            });
        }
        let value = |name: &Bound<'_, PyAny>| {
            let value = global(&function, name);
            // SAFETY: a live object, or null.
            unsafe {
                CapturedValue::take(py, value.map_or(std::ptr::null_mut(), |value| value.as_ptr()))
            }
        };
        let globals = names.iter().map(|name| (name.clone().unbind(), value(name))).collect();
        let stamp = |name: Bound<'_, PyAny>| {
            let context = global(&function, &name)?;
            Some(Stamp::take(&context).map(|stamp| (name.unbind(), stamp)))
        };
        let contexts = stamped.into_iter().filter_map(stamp).collect::<PyResult<_>>()?;
        let (holder, function) = Referent::take(&function, None);
        Ok(Self { function, _holder: holder, own, globals, contexts })
    }

    /// Returns whether every part is still the same object.
    fn is_same(&self, py: Python<'_>) -> bool {
        let Some(function) = self.function.get() else { return false };
        // SAFETY: the referent of the weak reference is live, and we take a reference of our own.
        let function = unsafe { &Bound::from_borrowed_ptr(py, function) };
        let mut own = self.own.iter();
        let mut is_same = true;
        // SAFETY: `function` is a live function and the interpreter is held; each visited part is live or null.
        unsafe {
            each_part(function.as_ptr(), &mut |part| {
                is_same = own.next().is_some_and(|held| held.is(part));
                is_same
            });
        }
        let is_global = |name: &Py<PyAny>, held: &CapturedValue| {
            let now = global(function, name.bind(py));
            // SAFETY: a live object, or null.
            unsafe { held.is(now.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr)) }
        };
        let is_stamped = |name: &Py<PyAny>, stamp: &Stamp| {
            global(function, name.bind(py)).is_some_and(|now| stamp.is_on(&now))
        };
        is_same
            && own.next().is_none()
            && self.globals.iter().all(|(name, held)| is_global(name, held))
            && self.contexts.iter().all(|(name, stamp)| is_stamped(name, stamp))
    }
}

/// Returns a global of a function.
fn global<'py>(
    function: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the callers pass a function, whose globals are a dict; the borrowed item is turned into a reference at
    // once, with the interpreter held.
    unsafe {
        let table = ffi::PyFunction_GetGlobals(function.as_ptr());
        Bound::from_borrowed_ptr_or_opt(function.py(), ffi::PyDict_GetItem(table, name.as_ptr()))
    }
}

/// Visits the code, the defaults, names and values of the keyword defaults and of the attributes, and the contents of
/// the cells, until `visit` returns false. The pointers are borrowed, and null for an absent part and between the
/// groups.
///
/// # Safety
/// `function` is a live Python function and the interpreter is held.
unsafe fn each_part(
    function: *mut ffi::PyObject,
    visit: &mut dyn FnMut(*mut ffi::PyObject) -> bool,
) {
    // SAFETY: the getters return borrowed references of a function, whose attributes are null or a dict; a closure is a
    // tuple of cells.
    unsafe {
        let code = ffi::PyFunction_GetCode(function);
        if !visit(code) || !visit(ffi::PyFunction_GetDefaults(function)) {
            return;
        }
        let attributes = (*function.cast::<ffi::PyFunctionObject>()).func_dict;
        for table in [ffi::PyFunction_GetKwDefaults(function), attributes] {
            let (mut position, mut name, mut value) =
                (0, std::ptr::null_mut(), std::ptr::null_mut());
            while !table.is_null()
                && ffi::PyDict_Next(table, &raw mut position, &raw mut name, &raw mut value) != 0
            {
                if !visit(name) || !visit(value) {
                    return;
                }
            }
            if !visit(std::ptr::null_mut()) {
                return;
            }
        }
        let closure = ffi::PyFunction_GetClosure(function);
        let count = if closure.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(closure) };
        for index in 0..count {
            let content = ffi::PyCell_Get(ffi::PyTuple_GET_ITEM(closure, index));
            // The cell keeps its content alive while no other code runs.
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
