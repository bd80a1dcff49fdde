//! Task submission for apps: one call from Python makes a task and its app future.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::options::BoundTaskOptions;
use super::{CallOptions, Engine, OptionFields};
use crate::future::{AppCall, Ledger, has_app_futures, new_app_future};
use crate::object::{Owned, pointers, tuple_items};
use crate::raw::guard;

/// An engine, with the options of the tasks that apps submit to it.
#[pyclass(frozen, module = "gristmill._native")]
pub struct AppFastPath {
    terms: BoundTaskOptions,
    /// True if all options have their defaults, which costs the engine less.
    is_plain: bool,
    /// True if the dispatcher is told of the end of each task.
    tells: bool,
}

#[pymethods]
impl AppFastPath {
    #[new]
    #[pyo3(signature = (engine, options, tells=false))]
    fn new(
        py: Python<'_>,
        engine: Py<Engine>,
        options: OptionFields,
        tells: bool,
    ) -> PyResult<Self> {
        if !has_app_futures(py) {
            let text = "make_app_future_type is called before the first fast path";
            return Err(PyRuntimeError::new_err(text));
        }
        let is_plain = options.is_plain();
        Ok(Self { terms: BoundTaskOptions::new(engine, options)?, is_plain, tells })
    }
}

/// Implements `AppFastPath.submit(app, function, arguments, keywords, ledger, /)`.
pub unsafe extern "C" fn submit_app(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    guard(|py| {
        if count != 5 || !names.is_null() {
            let text = "submit takes an app, a function, its arguments, its keywords and a ledger";
            return Err(PyTypeError::new_err(text));
        }
        // SAFETY: CPython calls the method with an instance of the class and `count` live arguments.
        unsafe {
            let path = Bound::from_borrowed_ptr(py, object);
            let path = path.cast_unchecked::<AppFastPath>().get();
            let [app, function, arguments, keywords, ledger] =
                *arguments.cast::<[*mut ffi::PyObject; 5]>();
            let ledger = Bound::from_borrowed_ptr(py, ledger);
            let call = AppCall {
                app,
                arguments,
                keywords: given_keywords(arguments, keywords)?,
                ledger: ledger.cast::<Ledger>()?,
            };
            path.submit(py, function, &call)
        }
    })
}

/// Returns the dict of named arguments, or null if there are none.
///
/// # Errors
/// `TypeError` if the arguments are no tuple, or the named ones no dict.
///
/// # Safety
/// Both are live, and the interpreter is held.
#[inline]
unsafe fn given_keywords(
    arguments: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the caller guarantees it.
    unsafe {
        if ffi::PyTuple_Check(arguments) == 0 {
            return Err(PyTypeError::new_err("the arguments of an app must be a tuple"));
        }
        if keywords == ffi::Py_None() {
            return Ok(std::ptr::null_mut());
        }
        if ffi::PyDict_Check(keywords) == 0 {
            return Err(PyTypeError::new_err("the keywords of an app must be a dict or None"));
        }
        Ok(if ffi::PyDict_Size(keywords) == 0 { std::ptr::null_mut() } else { keywords })
    }
}

impl AppFastPath {
    /// Submits a call. If it fails, it has no effect.
    ///
    /// # Errors
    /// `ForeignFutureError`; an error about the function, the arguments or the engine.
    ///
    /// # Safety
    /// The function is live, and the fields of the call are what they are documented to be.
    #[inline]
    unsafe fn submit(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
        call: &AppCall<'_, '_>,
    ) -> PyResult<Owned> {
        let engine = self.terms.engine.get();
        let options = (!self.is_plain).then(|| self.terms.now(py)).transpose()?;
        // SAFETY: the caller guarantees it.
        unsafe {
            let task = if call.keywords.is_null() {
                let arguments = tuple_items(call.arguments);
                engine.submit_task(py, function, arguments, &[], options.as_ref())?
            } else {
                submit_named(py, engine, function, call, options.as_ref())?
            };
            let future = new_app_future(py, self.terms.engine.as_ptr(), task, call)
                .inspect_err(|_| engine.release(task))?;
            if self.tells {
                engine.running_client(py)?.notify(task);
            }
            Ok(future)
        }
    }
}

/// Submits a call with named arguments. Holds references to all of them meanwhile, because the dict may change.
///
/// # Safety
/// The same as for [`AppFastPath::submit`].
unsafe fn submit_named(
    py: Python<'_>,
    engine: &Engine,
    function: *mut ffi::PyObject,
    call: &AppCall<'_, '_>,
    options: Option<&CallOptions>,
) -> PyResult<gristmill_wire::TaskId> {
    // SAFETY: the caller guarantees it; no Python code runs before all of it is held.
    unsafe {
        let positional = tuple_items(call.arguments);
        let named = ffi::PyDict_Size(call.keywords).cast_unsigned();
        let mut held = Vec::with_capacity(positional.len() + 2 * named);
        held.extend(positional.iter().map(|&value| Owned::new_reference(value)));
        each_item(call.keywords, |_, value| held.push(Owned::new_reference(value)));
        each_item(call.keywords, |name, _| held.push(Owned::new_reference(name)));
        let (values, names) = pointers(&held).split_at(positional.len() + named);
        if names.iter().any(|&name| ffi::PyUnicode_Check(name) == 0) {
            return Err(PyTypeError::new_err("the names of an app's arguments must be strings"));
        }
        engine.submit_task(py, function, values, names, options)
    }
}

/// Calls `body` with each name and value of a dict.
///
/// # Safety
/// `dict` is a dict, the interpreter is held, and `body` runs no Python code.
unsafe fn each_item(
    dict: *mut ffi::PyObject,
    mut body: impl FnMut(*mut ffi::PyObject, *mut ffi::PyObject),
) {
    let (mut position, mut name, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller guarantees it.
    unsafe {
        while ffi::PyDict_Next(dict, &raw mut position, &raw mut name, &raw mut value) != 0 {
            body(name, value);
        }
    }
}
