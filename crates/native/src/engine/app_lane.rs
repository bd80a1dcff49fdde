//! Submission for apps: one call in Python gives a task with an app future.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::options::Terms;
use super::{CallOptions, Engine};
use crate::future::{AppCall, Ledger, has_app_futures, new_app_future};
use crate::object::Owned;
use crate::raw::guard;

/// An engine and the options of the tasks that apps submit to it.
#[pyclass(frozen, module = "gristmill._native")]
pub struct AppLane {
    terms: Terms,
    /// All options are what a task has without any, which costs the engine less.
    is_plain: bool,
}

#[pymethods]
impl AppLane {
    #[new]
    #[pyo3(signature = (engine, timeout=None, deadline=None, retries=0, loss_retries=0, timeout_retries=0, priority=0, grace=1.0, views=false))]
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python")]
    fn new(
        py: Python<'_>,
        engine: Py<Engine>,
        timeout: Option<f64>,
        deadline: Option<f64>,
        retries: u16,
        loss_retries: u16,
        timeout_retries: u16,
        priority: i32,
        grace: f64,
        views: bool,
    ) -> PyResult<Self> {
        if !has_app_futures(py) {
            let text = "make_app_future_type comes before the first lane";
            return Err(PyRuntimeError::new_err(text));
        }
        let is_plain = timeout.is_none()
            && deadline.is_none()
            && (retries, loss_retries, timeout_retries, priority, views) == (0, 0, 0, 0, false);
        let values =
            (timeout, deadline, retries, loss_retries, timeout_retries, priority, grace, views);
        Ok(Self { terms: Terms::new(engine, values)?, is_plain })
    }
}

/// `AppLane.submit(app, function, arguments, keywords, ledger, /)`.
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
            let lane = Bound::from_borrowed_ptr(py, object);
            let lane = lane.cast_unchecked::<AppLane>().get();
            let [app, function, arguments, keywords, ledger] =
                *arguments.cast::<[*mut ffi::PyObject; 5]>();
            let ledger = Bound::from_borrowed_ptr(py, ledger);
            let call = AppCall {
                app,
                arguments,
                keywords: given_keywords(arguments, keywords)?,
                ledger: ledger.cast::<Ledger>()?,
            };
            lane.submit(py, function, &call)
        }
    })
}

/// The dict of named arguments, or null where there are none.
///
/// # Errors
/// `TypeError`: the arguments are no tuple, or the named ones no dict.
///
/// # Safety
/// Both are live, and the interpreter is held.
#[inline]
unsafe fn given_keywords(
    arguments: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: passed on from the caller.
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

impl AppLane {
    /// Submits a call; nothing has happened when it fails.
    ///
    /// # Errors
    /// `ForeignFuture`; what is wrong with the function, the arguments or the engine.
    ///
    /// # Safety
    /// The function is live, and the call as its fields say.
    #[inline]
    unsafe fn submit(
        &self,
        py: Python<'_>,
        function: *mut ffi::PyObject,
        call: &AppCall<'_, '_>,
    ) -> PyResult<Owned> {
        let engine = self.terms.engine.get();
        let options = (!self.is_plain).then(|| self.terms.now());
        // SAFETY: passed on from the caller.
        unsafe {
            let task = if call.keywords.is_null() {
                let null = std::ptr::null_mut();
                engine.submit_task(py, function, items(call.arguments), null, options.as_ref())?
            } else {
                submit_named(py, engine, function, call, options.as_ref())?
            };
            new_app_future(py, self.terms.engine.as_ptr(), task, call)
                .inspect_err(|_| engine.release(task))
        }
    }
}

/// The items of a tuple.
///
/// # Safety
/// `tuple` is a tuple that outlives the slice.
#[inline]
unsafe fn items<'a>(tuple: *mut ffi::PyObject) -> &'a [*mut ffi::PyObject] {
    // SAFETY: a tuple's items lie behind its header, as many as its size says.
    unsafe {
        let first = (&raw const (*tuple.cast::<ffi::PyTupleObject>()).ob_item).cast();
        std::slice::from_raw_parts(first, ffi::PyTuple_GET_SIZE(tuple).cast_unsigned())
    }
}

/// Submits a call with named arguments. Their values are held meanwhile, whatever becomes of the dict.
///
/// # Safety
/// As for [`AppLane::submit`].
unsafe fn submit_named(
    py: Python<'_>,
    engine: &Engine,
    function: *mut ffi::PyObject,
    call: &AppCall<'_, '_>,
    options: Option<&CallOptions>,
) -> PyResult<gristmill_wire::TaskId> {
    // SAFETY: passed on from the caller; both tuples have as many places as are filled, or are not shown to anybody.
    unsafe {
        let positional = items(call.arguments);
        let count = ffi::PyDict_Size(call.keywords);
        let names = Owned::or_raise(py, ffi::PyTuple_New(count))?;
        let size = count + positional.len().cast_signed();
        let values = Owned::or_raise(py, ffi::PyTuple_New(size))?;
        for (index, &value) in positional.iter().enumerate() {
            let value = ffi::Py_NewRef(value);
            ffi::PyTuple_SET_ITEM(values.as_ptr(), index.cast_signed(), value);
        }
        let (mut position, mut name, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut index = 0;
        while index < count
            && ffi::PyDict_Next(call.keywords, &raw mut position, &raw mut name, &raw mut value)
                != 0
            && ffi::PyUnicode_Check(name) != 0
        {
            let place = positional.len().cast_signed() + index;
            ffi::PyTuple_SET_ITEM(names.as_ptr(), index, ffi::Py_NewRef(name));
            ffi::PyTuple_SET_ITEM(values.as_ptr(), place, ffi::Py_NewRef(value));
            index += 1;
        }
        if index < count {
            return Err(PyTypeError::new_err("the names of an app's arguments must be strings"));
        }
        engine.submit_task(py, function, items(values.as_ptr()), names.as_ptr(), options)
    }
}
