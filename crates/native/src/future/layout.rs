//! The layout of futures: a true subclass of `concurrent.futures.Future` made by hand, because every task has one.
//!
//! An instance is the base class's header and three words of ours: 80 bytes on 3.11. It has no lock, no condition and
//! no dict. The collector does not track it until it gets a callback, a waiter, an attribute, or a result that the
//! collector tracks. The state of the task is in the engine's task table.

use std::ffi::{c_int, c_void};

use gristmill_wire::TaskId;
use pyo3::ffi;
use pyo3::prelude::*;

use super::app;
use super::dict::{clear_dict, visit_dict};
use super::kind::{is_app_future, is_future, plain};
use crate::engine::Engine;
use crate::object::{Owned, may_be_in_a_cycle};

/// Fields of every future beyond its base class.
#[repr(C)]
pub struct Fields {
    /// The engine that runs the task; a strong reference.
    engine: *mut ffi::PyObject,
    task: TaskId,
    /// The value, or the exception with [`RAISED`] set in its address, once it was requested: a strong reference, or
    /// null.
    kept: *mut ffi::PyObject,
}

/// Mark in the address of a kept exception that the task raised; objects are aligned to more than this.
const RAISED: usize = 1;

impl Fields {
    /// Returns the kept value or exception: borrowed, null if there is none.
    #[inline]
    fn kept_object(&self) -> *mut ffi::PyObject {
        self.kept.map_addr(|address| address & !RAISED)
    }

    #[inline]
    fn has_raised(&self) -> bool {
        self.kept.addr() & RAISED != 0
    }
}

/// Returns the fields of a future.
///
/// # Safety
/// `object` is a live future of ours and the interpreter is held, which guards the fields.
#[inline]
unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a mut Fields {
    // SAFETY: instances are `offset + size_of::<Fields>()` bytes, and `offset` is a multiple of a pointer's size.
    unsafe { &mut *object.cast::<u8>().add(plain().offset).cast::<Fields>() }
}

/// A borrowed future.
#[derive(Clone, Copy)]
pub struct FutureRef<'py> {
    py: Python<'py>,
    object: *mut ffi::PyObject,
}

impl<'py> FutureRef<'py> {
    /// Returns a reference to the future if the object is one.
    pub fn from_ptr(py: Python<'py>, object: *mut ffi::PyObject) -> Option<Self> {
        is_future(object).then_some(Self { py, object })
    }

    /// Returns the object itself.
    pub const fn as_ptr(self) -> *mut ffi::PyObject {
        self.object
    }

    /// Returns the proof that the interpreter is held.
    pub const fn py(self) -> Python<'py> {
        self.py
    }

    /// Returns the task of this future.
    #[inline]
    pub fn task(self) -> TaskId {
        // SAFETY: `object` is a live future and `py` proves that the interpreter is held.
        unsafe { fields(self.object).task }
    }

    /// Returns the engine that runs the task.
    #[inline]
    pub fn engine(self) -> &'py Engine {
        // SAFETY: as above; the future keeps its engine alive, and the caller's borrow keeps the future alive.
        unsafe { Engine::from_object(fields(self.object).engine) }
    }

    /// Returns the value as a new reference, if it was requested before.
    #[inline]
    pub fn value(self) -> Option<Owned> {
        // SAFETY: as above; the stored reference is live.
        unsafe {
            let fields = fields(self.object);
            let has_value = !fields.kept.is_null() && !fields.has_raised();
            has_value.then(|| Owned::new_reference(fields.kept))
        }
    }

    /// Returns the exception as a new reference, if it was requested before.
    pub fn raised(self) -> Option<Owned> {
        // SAFETY: as above.
        unsafe {
            let fields = fields(self.object);
            fields.has_raised().then(|| Owned::new_reference(fields.kept_object()))
        }
    }

    /// Keeps a value for later calls, and returns the kept one. The first one wins, so every caller gets the same
    /// object.
    #[inline]
    pub fn keep_value(self, value: Owned) -> Owned {
        self.keep(value, 0)
    }

    /// Keeps an exception for later calls, and returns the kept object. The first one wins.
    pub fn keep_raised(self, exception: Owned) -> Owned {
        self.keep(exception, RAISED)
    }

    #[inline]
    fn keep(self, object: Owned, mark: usize) -> Owned {
        // SAFETY: as above. An app future drops its arguments, whose finalizers may run Python code: all changes here
        // are complete by then.
        unsafe {
            let fields = fields(self.object);
            if !fields.kept.is_null() {
                return Owned::new_reference(fields.kept_object());
            }
            if may_be_in_a_cycle(object.as_ptr()) {
                self.track();
            }
            fields.kept = ffi::Py_NewRef(object.as_ptr()).map_addr(|address| address | mark);
            if mark == 0 && is_app_future(self.object) {
                app::forget_arguments(self.object);
            }
        }
        object
    }

    /// Translates an exception that the engine made. Only an app future does so: a plain future returns it unchanged.
    ///
    /// # Errors
    /// Any exception that the translation raises; `TypeError` if it does not return an exception.
    pub fn translated(self, raised: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if is_app_future(self.object) { app::translated(self, raised) } else { Ok(raised) }
    }

    /// Counts the bytes of a fetched value if this is an app future.
    ///
    /// # Errors
    /// Any exception of the callback that `Ledger::watch_fetched` registered. It is called each time that
    /// `step` more bytes were fetched.
    #[inline]
    pub fn count_fetched(self, size: impl FnOnce() -> u64) -> PyResult<()> {
        if is_app_future(self.object) { app::count_fetched(self, size()) } else { Ok(()) }
    }

    /// Makes the collector track the future: it may be part of a cycle from now on.
    pub fn track(self) {
        // SAFETY: as above; an object is tracked at most once.
        unsafe {
            if ffi::PyObject_GC_IsTracked(self.object) == 0 {
                ffi::PyObject_GC_Track(self.object.cast());
            }
        }
    }
}

/// Makes the future of a task.
///
/// # Errors
/// `MemoryError`.
#[inline]
pub fn new_future(py: Python<'_>, engine: *mut ffi::PyObject, task: TaskId) -> PyResult<Owned> {
    // SAFETY: the type is one of ours, and it has no fields besides these.
    unsafe { new_instance(py, plain().kind, engine, task) }
}

/// Makes an instance of one of our types, with the fields that all of them have.
///
/// # Errors
/// `MemoryError`.
///
/// # Safety
/// No other code sees the object before the other fields of its type are set; `engine` is the task's engine.
#[inline]
pub(super) unsafe fn new_instance(
    py: Python<'_>,
    kind: *mut ffi::PyTypeObject,
    engine: *mut ffi::PyObject,
    task: TaskId,
) -> PyResult<Owned> {
    // SAFETY: the type is a heap type with the collector's header.
    unsafe {
        let object = Owned::or_raise(py, ffi::PyObject_GC_New::<ffi::PyObject>(kind))?;
        let fields = fields(object.as_ptr());
        fields.engine = ffi::Py_NewRef(engine);
        fields.task = task;
        fields.kept = std::ptr::null_mut();
        clear_header(object.as_ptr());
        Ok(object)
    }
}

/// Zeroes the base class's fields in an instance (3.11: the list of weak references). They follow the object header,
/// which stays as it is.
///
/// # Safety
/// `object` is a new future.
#[inline]
unsafe fn clear_header(object: *mut ffi::PyObject) {
    let header = size_of::<ffi::PyObject>();
    // SAFETY: the bytes between the object's header and our fields belong to the base class and are pointers.
    unsafe {
        std::ptr::write_bytes(object.cast::<u8>().add(header), 0, plain().offset - header);
    }
}

pub(super) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, with the last reference gone and the interpreter held.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        end(object);
    }
}

/// Ends an untracked instance: releases the fields that all futures have, and frees its memory.
///
/// # Safety
/// Its last reference is gone; the other fields of its type were moved out of it; the interpreter is held.
pub(super) unsafe fn end(object: *mut ffi::PyObject) {
    // SAFETY: the caller guarantees it. Weak references and the dict are cleared first, as in the base class; the type
    // loses the reference that each instance of a heap type holds.
    unsafe {
        ffi::PyObject_ClearWeakRefs(object);
        clear_dict(object);
        let fields = fields(object);
        let engine = fields.engine;
        if !engine.is_null() {
            Engine::from_object(engine).release(fields.task);
        }
        ffi::Py_XDECREF(fields.kept_object());
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_XDECREF(engine);
        ffi::Py_DECREF(kind.cast());
    }
}

pub(super) unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a live future; each visited pointer is live or null.
    unsafe {
        let fields = fields(object);
        let parts = [ffi::Py_TYPE(object).cast(), fields.engine, fields.kept_object()];
        match visit_all(&parts, visit, argument) {
            0 => visit_dict(object, visit, argument),
            stop => stop,
        }
    }
}

/// Visits objects for the collector until it stops.
///
/// # Safety
/// Each object is live or null; `visit` and `argument` are the collector's.
pub(super) unsafe fn visit_all(
    parts: &[*mut ffi::PyObject],
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    for &part in parts.iter().filter(|part| !part.is_null()) {
        // SAFETY: the caller guarantees it.
        let stop = unsafe { visit(part, argument) };
        if stop != 0 {
            return stop;
        }
    }
    0
}

pub(super) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: called by the collector with a live future. The reference to the engine stays: `dealloc` needs it to
    // release the task.
    unsafe {
        let fields = fields(object);
        let kept = fields.kept_object();
        fields.kept = std::ptr::null_mut();
        ffi::Py_XDECREF(kept);
        clear_dict(object);
    }
    0
}
