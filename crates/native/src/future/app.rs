//! The future of an app's call: a plain future that also holds its call.
//!
//! It adds the app, the arguments (until a value is requested), its number, and its links in the ledger of its kernel,
//! which holds no reference to it. The collector does not track it if no reference cycle can lead from its arguments
//! back to it; the app and the engine are not followed in that case.

use std::ffi::{c_int, c_void};

use gristmill_wire::TaskId;
use pyo3::exceptions::{PyBaseException, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::kind::of_apps;
use super::layout::{self, FutureRef, new_instance, visit_all};
use super::ledger::{Ledger, Links};
use super::release::let_go;
use crate::object::{Owned, may_be_in_a_cycle};

/// Fields of an app future beyond those of a plain one. All pointers except the links are strong references.
#[repr(C)]
pub(super) struct AppFields {
    pub number: u64,
    /// Null once the collector has cleared it.
    pub app: *mut ffi::PyObject,
    /// The tuple of positional arguments, null once they were dropped.
    arguments: *mut ffi::PyObject,
    /// The dict of named arguments, null if there are none.
    keywords: *mut ffi::PyObject,
    /// Null once the future has left its ledger.
    ledger: *mut ffi::PyObject,
    links: Links,
}

/// An app's call, as its future stores it. All references are borrowed.
pub struct AppCall<'a, 'py> {
    /// The called app.
    pub app: *mut ffi::PyObject,
    /// A tuple.
    pub arguments: *mut ffi::PyObject,
    /// A dict, or null.
    pub keywords: *mut ffi::PyObject,
    /// The ledger of the app's kernel.
    pub ledger: &'a Bound<'py, Ledger>,
}

/// Returns the fields of an app future.
///
/// # Safety
/// `object` is an app future whose memory is not yet freed, and the interpreter is held, which guards the fields.
#[inline]
pub(super) unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a mut AppFields {
    let offset = of_apps().expect("an app future has a type").offset;
    // SAFETY: instances are `offset + size_of::<AppFields>()` bytes, and `offset` is a multiple of a pointer's size.
    unsafe { &mut *object.cast::<u8>().add(offset).cast::<AppFields>() }
}

/// Returns the links of an app future.
///
/// # Safety
/// The same as for [`fields`].
#[inline]
pub(super) unsafe fn links<'a>(object: *mut ffi::PyObject) -> &'a mut Links {
    // SAFETY: the caller guarantees it.
    unsafe { &mut fields(object).links }
}

/// Makes the future of a task that is an app's call, and gives it the next number.
///
/// # Errors
/// `MemoryError`.
///
/// # Safety
/// The fields of `call` are what they are documented to be, `engine` is the task's engine, and the type was made.
#[inline]
pub unsafe fn new_app_future(
    py: Python<'_>,
    engine: *mut ffi::PyObject,
    task: TaskId,
    call: &AppCall<'_, '_>,
) -> PyResult<Owned> {
    let kind = of_apps().expect("made before the first fast path").kind;
    // SAFETY: the caller guarantees it; the fields are set before other code sees the object.
    unsafe {
        let object = new_instance(py, kind, engine, task)?;
        let fields = std::ptr::from_mut(fields(object.as_ptr()));
        (*fields).app = ffi::Py_NewRef(call.app);
        (*fields).arguments = ffi::Py_NewRef(call.arguments);
        (*fields).keywords = ffi::Py_XNewRef(call.keywords);
        (*fields).ledger = ffi::Py_NewRef(call.ledger.as_ptr());
        (*fields).number = call.ledger.get().enter(py, object.as_ptr());
        if leads_back(call) {
            ffi::PyObject_GC_Track(object.as_ptr().cast());
        }
        Ok(object)
    }
}

/// Returns whether an argument may lead back to the future.
///
/// # Safety
/// The same as for [`new_app_future`].
#[inline]
unsafe fn leads_back(call: &AppCall<'_, '_>) -> bool {
    // SAFETY: the caller guarantees it; nothing here changes the tuple or the dict.
    unsafe {
        let arguments = call.arguments;
        let count = ffi::PyTuple_GET_SIZE(arguments);
        if (0..count).any(|index| may_be_in_a_cycle(ffi::PyTuple_GET_ITEM(arguments, index))) {
            return true;
        }
        // The collector would untrack such a tuple itself when it first visits it: this spares it the visits of a
        // million tasks.
        if ffi::PyTuple_CheckExact(arguments) != 0 {
            ffi::PyObject_GC_UnTrack(arguments.cast());
        }
        !call.keywords.is_null() && is_named_leading_back(call.keywords)
    }
}

/// Returns whether a named argument may lead back to the future.
///
/// # Safety
/// `keywords` is a dict, and the interpreter is held.
unsafe fn is_named_leading_back(keywords: *mut ffi::PyObject) -> bool {
    let (mut position, mut value) = (0, std::ptr::null_mut());
    // SAFETY: as above.
    unsafe {
        while ffi::PyDict_Next(keywords, &raw mut position, std::ptr::null_mut(), &raw mut value)
            != 0
        {
            if may_be_in_a_cycle(value) {
                return true;
            }
        }
    }
    false
}

/// Returns the arguments, unless they were dropped: the tuple, and the dict or null. Borrowed.
///
/// # Safety
/// The same as for [`fields`].
pub(super) unsafe fn arguments(
    object: *mut ffi::PyObject,
) -> Option<(*mut ffi::PyObject, *mut ffi::PyObject)> {
    // SAFETY: the caller guarantees it.
    let fields = unsafe { fields(object) };
    (!fields.arguments.is_null()).then_some((fields.arguments, fields.keywords))
}

/// Drops the arguments, which may run Python code.
///
/// # Safety
/// The same as for [`fields`], and the caller holds a reference.
pub(super) unsafe fn forget_arguments(object: *mut ffi::PyObject) {
    // SAFETY: the caller guarantees it.
    unsafe { drop_arguments(take_arguments(object)) };
}

/// Moves the arguments out: strong references, or null.
///
/// # Safety
/// The same as for [`fields`].
unsafe fn take_arguments(object: *mut ffi::PyObject) -> [*mut ffi::PyObject; 2] {
    // SAFETY: the caller guarantees it.
    let fields = unsafe { fields(object) };
    let null = std::ptr::null_mut();
    [std::mem::replace(&mut fields.arguments, null), std::mem::replace(&mut fields.keywords, null)]
}

/// Releases references to arguments. The release of the last reference to one may end the next future of a long chain,
/// so [`let_go`] does it without recursion.
///
/// # Safety
/// The references are the caller's, or null, and the interpreter is held.
#[inline]
unsafe fn drop_arguments(arguments: [*mut ffi::PyObject; 2]) {
    for part in arguments {
        // SAFETY: the caller guarantees it.
        unsafe {
            if !part.is_null() && ffi::Py_REFCNT(part) == 1 {
                let_go(part);
            } else {
                ffi::Py_XDECREF(part);
            }
        }
    }
}

/// Passes an exception that the engine made to the type's `_translated`, and returns the result.
///
/// # Errors
/// Any exception that `_translated` raises; `TypeError` if it does not return an exception.
pub(super) fn translated<'py>(
    future: FutureRef<'py>,
    raised: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = future.py();
    let Some(translate) = super::app_methods::translator(py) else { return Ok(raised) };
    // SAFETY: a future reference is a live object.
    let object = unsafe { Bound::from_borrowed_ptr(py, future.as_ptr()) };
    let translated = translate.call1((object, raised))?;
    if translated.is_instance_of::<PyBaseException>() {
        return Ok(translated);
    }
    let kind = translated.get_type();
    Err(PyTypeError::new_err(format!("_translated returned no exception but a {}", kind.name()?)))
}

/// Adds the bytes of a fetched value to the ledger of the future's kernel.
///
/// # Errors
/// Any exception of the function that the ledger calls.
pub(super) fn count_fetched(future: FutureRef<'_>, size: u64) -> PyResult<()> {
    let py = future.py();
    // SAFETY: the caller's borrow keeps the future alive; the stored object is a ledger, which is held while it is
    // used.
    unsafe {
        let ledger = fields(future.as_ptr()).ledger;
        let Some(ledger) = Bound::from_borrowed_ptr_or_opt(py, ledger) else { return Ok(()) };
        ledger.cast_unchecked::<Ledger>().get().count_fetched(py, size)
    }
}

/// Removes an app future from its ledger, if it is still in it. Returns its reference to the ledger.
///
/// # Safety
/// The same as for [`fields`].
unsafe fn leave_ledger(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller guarantees it; the stored object is a ledger.
    unsafe {
        let py = Python::assume_attached();
        let ledger = std::mem::replace(&mut fields(object).ledger, std::ptr::null_mut());
        if !ledger.is_null() {
            let bound = Bound::from_borrowed_ptr(py, ledger);
            bound.cast_unchecked::<Ledger>().get().leave(py, object);
        }
        ledger
    }
}

pub(super) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, with the last reference gone and the interpreter held. The future leaves its ledger before
    // any code runs that could find it there.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let ledger = leave_ledger(object);
        let app = std::mem::replace(&mut fields(object).app, std::ptr::null_mut());
        let arguments = take_arguments(object);
        layout::end(object);
        ffi::Py_XDECREF(ledger);
        ffi::Py_XDECREF(app);
        drop_arguments(arguments);
    }
}

pub(super) unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a live app future; each visited pointer is live or null.
    unsafe {
        let fields = fields(object);
        match visit_all(&[fields.app, fields.arguments, fields.keywords], visit, argument) {
            0 => layout::traverse(object, visit, argument),
            stop => stop,
        }
    }
}

pub(super) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: called by the collector with a live app future that is no longer reachable.
    unsafe {
        let ledger = leave_ledger(object);
        let app = std::mem::replace(&mut fields(object).app, std::ptr::null_mut());
        let arguments = take_arguments(object);
        layout::clear(object);
        ffi::Py_XDECREF(ledger);
        ffi::Py_XDECREF(app);
        drop_arguments(arguments);
    }
    0
}
