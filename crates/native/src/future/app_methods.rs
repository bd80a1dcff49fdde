//! Methods and attributes that an app future adds to those of every future, and the making of its type.

use std::ffi::c_void;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use super::app::{self, AppFields};
use super::guarded::with_future;
use super::kind::{FutureTypeSpec, is_app_future, made_of_apps, make_of_apps};
use super::layout::FutureRef;
use super::methods::future_type;
use super::standard::property;
use crate::object::Owned;
use crate::raw::method;

/// Methods of the mixin that native code calls.
struct Hooks {
    /// `_translated`, which translates the engine's own exceptions; see `translator`.
    translated: Option<Py<PyAny>>,
    /// `__getattr__`; see `lookup`.
    getattr: Option<Py<PyAny>>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Returns the mixin's method that translates the engine's own exceptions, if the mixin has one.
pub(super) fn translator(py: Python<'_>) -> Option<&Bound<'_, PyAny>> {
    HOOKS.get()?.translated.as_ref().map(|found| found.bind(py))
}

/// Returns whether the type of app futures was made.
pub fn has_app_futures(py: Python<'_>) -> bool {
    made_of_apps(py).is_some()
}

/// Makes the type of app futures: a subclass of `mixin` and of `Future`, in this order. It is made once in a process;
/// later calls return the same type.
///
/// # Errors
/// `TypeError` if `mixin` is not a class, or its instances have fields of their own.
#[pyfunction]
pub fn make_app_future_type<'py>(mixin: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = mixin.py();
    if let Some(made) = made_of_apps(py) {
        return Ok(made);
    }
    future_type(py)?;
    let methods = vec![
        method(c"_forget_arguments", forget_arguments, c"Drops the arguments of the call."),
        // SAFETY: a zeroed definition ends the list.
        unsafe { std::mem::zeroed() },
    ];
    let properties = vec![
        property(c"_number", number),
        property(c"_app", app),
        property(c"_arguments", arguments),
        property(c"_is_fetched", is_fetched),
        // SAFETY: all fields of the definition may be zero.
        unsafe { std::mem::zeroed() },
    ];
    let getattr = mixin.getattr_opt("__getattr__")?;
    let parts = FutureTypeSpec {
        dealloc: app::dealloc,
        traverse: app::traverse,
        clear: app::clear,
        methods: methods.leak(),
        properties: properties.leak(),
        doc: c"The outcome of one call of an app, now or later.",
        iterate: None,
        lookup: getattr.is_some().then_some(lookup as ffi::getattrofunc),
    };
    let hooks = Hooks {
        translated: mixin.getattr_opt("_translated")?.map(Bound::unbind),
        getattr: getattr.map(Bound::unbind),
    };
    HOOKS.get_or_init(|| hooks);
    make_of_apps(mixin, size_of::<AppFields>(), &parts)
}

/// Looks up an attribute, and calls the mixin's `__getattr__` for a missing one. CPython's own slot for classes with
/// `__getattr__` does the same, but first looks up `__getattribute__` and `__getattr__` on each access.
unsafe extern "C" fn lookup(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it with a live object and a `str`; the hook is live for as long as the type.
    unsafe {
        let found = ffi::PyObject_GenericGetAttr(object, name);
        if !found.is_null() || ffi::PyErr_ExceptionMatches(ffi::PyExc_AttributeError) == 0 {
            return found;
        }
        let Some(hook) = HOOKS.get().and_then(|hooks| hooks.getattr.as_ref()) else { return found };
        ffi::PyErr_Clear();
        let end = std::ptr::null_mut::<ffi::PyObject>();
        ffi::PyObject_CallFunctionObjArgs(hook.as_ptr(), object, name, end)
    }
}

/// Runs a method with an app future.
unsafe fn with_app_future(
    object: *mut ffi::PyObject,
    body: impl FnOnce(FutureRef<'_>) -> PyResult<Owned>,
) -> *mut ffi::PyObject {
    // SAFETY: the caller guarantees it.
    unsafe {
        with_future(object, |future| {
            if !is_app_future(object) {
                let text = "this object is not an app future of gristmill";
                return Err(pyo3::exceptions::PyTypeError::new_err(text));
            }
            body(future)
        })
    }
}

unsafe extern "C" fn number(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: CPython calls getters and methods with a live object, here and below.
    unsafe {
        with_app_future(object, |future| {
            let number = app::fields(object).number.into_pyobject(future.py())?;
            Ok(Owned::from_bound(number.into_any()))
        })
    }
}

unsafe extern "C" fn app(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_app_future(object, |_| {
            let app = app::fields(object).app;
            Ok(Owned::new_reference(if app.is_null() { ffi::Py_None() } else { app }))
        })
    }
}

unsafe extern "C" fn is_fetched(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_app_future(object, |future| {
            let is_fetched = future.value().is_some() || future.raised().is_some();
            let is_fetched = PyBool::new(future.py(), is_fetched);
            Ok(Owned::from_bound(is_fetched.to_owned().into_any()))
        })
    }
}

unsafe extern "C" fn arguments(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_app_future(object, |future| {
            let py = future.py();
            let Some((positional, keywords)) = app::arguments(object) else {
                return Ok(Owned::from_bound(py.None().into_bound(py)));
            };
            // The caller gets the dict of keywords that the future refers to, and may store the future in it: that
            // makes a cycle.
            future.track();
            let positional = Bound::from_borrowed_ptr(py, positional);
            let keywords = Bound::from_borrowed_ptr_or_opt(py, keywords)
                .unwrap_or_else(|| PyDict::new(py).into_any());
            Ok(Owned::from_bound((positional, keywords).into_pyobject(py)?.into_any()))
        })
    }
}

unsafe extern "C" fn forget_arguments(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above. The caller's reference keeps the future alive while its arguments are dropped.
    unsafe {
        with_app_future(object, |future| {
            app::forget_arguments(object);
            Ok(Owned::from_bound(future.py().None().into_bound(future.py())))
        })
    }
}
