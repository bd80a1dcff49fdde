//! The dict of an instance, which CPython manages: its location differs from version to version.

use std::ffi::{c_int, c_void};

use pyo3::ffi;

/// Implements `__setattr__`. An attribute may make the future part of a cycle, so the collector tracks it from now on.
pub(super) unsafe extern "C" fn set_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: called by the interpreter with live objects; `value` is null for a deletion.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object) == 0 {
            ffi::PyObject_GC_Track(object.cast());
        }
        ffi::PyObject_GenericSetAttr(object, name, value)
    }
}

// Public since 3.13; available under another name before.
#[cfg(Py_3_12)]
unsafe extern "C" {
    #[cfg_attr(not(Py_3_13), link_name = "_PyObject_ClearManagedDict")]
    fn PyObject_ClearManagedDict(object: *mut ffi::PyObject);
    #[cfg_attr(not(Py_3_13), link_name = "_PyObject_VisitManagedDict")]
    fn PyObject_VisitManagedDict(
        object: *mut ffi::PyObject,
        visit: ffi::visitproc,
        argument: *mut c_void,
    ) -> c_int;
}

/// Releases the attributes that user code has set.
///
/// # Safety
/// `object` is a live future, and the interpreter is held.
#[cfg(Py_3_12)]
pub(super) unsafe fn clear_dict(object: *mut ffi::PyObject) {
    // SAFETY: instances have a managed dict, like those of every Python class without slots.
    unsafe { PyObject_ClearManagedDict(object) };
}

/// Visits the attributes for the collector.
///
/// # Safety
/// The same as for [`clear_dict`]; `visit` and `argument` are the collector's.
#[cfg(Py_3_12)]
pub(super) unsafe fn visit_dict(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { PyObject_VisitManagedDict(object, visit, argument) }
}

/// Returns the address of the dict pointer. 3.11 has it three words in front of the object, and `_PyObject_GC_New` sets
/// it to null.
#[cfg(not(Py_3_12))]
unsafe fn dict_place(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
    // SAFETY: instances of a class with a managed dict have these words in front of them.
    unsafe { object.cast::<*mut ffi::PyObject>().sub(3) }
}

/// Releases the attributes that user code has set.
///
/// # Safety
/// `object` is a live future, and the interpreter is held.
#[cfg(not(Py_3_12))]
pub(super) unsafe fn clear_dict(object: *mut ffi::PyObject) {
    // SAFETY: the address holds a strong reference or null.
    unsafe {
        let dict = std::mem::replace(&mut *dict_place(object), std::ptr::null_mut());
        ffi::Py_XDECREF(dict);
    }
}

/// Visits the attributes for the collector.
///
/// # Safety
/// The same as for [`clear_dict`]; `visit` and `argument` are the collector's.
#[cfg(not(Py_3_12))]
pub(super) unsafe fn visit_dict(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let dict = *dict_place(object);
        if dict.is_null() { 0 } else { visit(dict, argument) }
    }
}
