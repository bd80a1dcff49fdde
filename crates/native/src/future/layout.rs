//! The future's type: a true subclass of `concurrent.futures.Future` made by hand, because one is made for every task.
//!
//! An instance is the base class's header and three words of ours: 80 bytes on 3.11. It has no lock, no condition and no
//! dict, and the collector does not know it, until somebody gives it a callback, a waiter, an attribute or a result that
//! the collector tracks. What a task's state is, the engine's task table says.

use std::ffi::{c_int, c_void};

use gristmill_wire::TaskId;
use pyo3::ffi;
use pyo3::prelude::*;

use super::app;
use super::dict::{clear_dict, visit_dict};
use super::kind::{is_app_future, is_future, plain};
use crate::engine::Engine;
use crate::object::{Owned, may_be_in_a_cycle};

/// What every future holds beyond its base class.
#[repr(C)]
pub struct Fields {
    /// The engine that runs the task; a strong reference.
    engine: *mut ffi::PyObject,
    task: TaskId,
    /// The value, or the exception with [`RAISED`] set in its address, once somebody asked for it: a strong reference,
    /// or null.
    kept: *mut ffi::PyObject,
}

/// Marks what a future keeps as an exception that its task raised; objects are aligned to more than this.
const RAISED: usize = 1;

impl Fields {
    /// What is kept, whichever of the two it is: borrowed, null if nothing is.
    #[inline]
    fn kept_object(&self) -> *mut ffi::PyObject {
        self.kept.map_addr(|address| address & !RAISED)
    }

    #[inline]
    fn has_raised(&self) -> bool {
        self.kept.addr() & RAISED != 0
    }
}

/// The fields of a future.
///
/// # Safety
/// `object` is a live future of ours and the interpreter is held: it is what guards the fields.
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
    /// Looks at an object as a future.
    pub fn from_ptr(py: Python<'py>, object: *mut ffi::PyObject) -> Option<Self> {
        is_future(object).then_some(Self { py, object })
    }

    /// The object itself.
    pub const fn as_ptr(self) -> *mut ffi::PyObject {
        self.object
    }

    /// The interpreter that is held.
    pub const fn py(self) -> Python<'py> {
        self.py
    }

    /// The task whose future this is.
    #[inline]
    pub fn task(self) -> TaskId {
        // SAFETY: `object` is a live future and `py` proves the interpreter is held.
        unsafe { fields(self.object).task }
    }

    /// The engine that runs the task.
    #[inline]
    pub fn engine(self) -> &'py Engine {
        // SAFETY: as above; the future keeps its engine alive, and the caller's borrow keeps the future alive.
        unsafe { Engine::from_object(fields(self.object).engine) }
    }

    /// The value, if somebody asked for it before: a new reference.
    #[inline]
    pub fn value(self) -> Option<Owned> {
        // SAFETY: as above; the stored reference is live.
        unsafe {
            let fields = fields(self.object);
            let has_value = !fields.kept.is_null() && !fields.has_raised();
            has_value.then(|| Owned::new_reference(fields.kept))
        }
    }

    /// The exception, if somebody asked for it before: a new reference.
    pub fn raised(self) -> Option<Owned> {
        // SAFETY: as above.
        unsafe {
            let fields = fields(self.object);
            fields.has_raised().then(|| Owned::new_reference(fields.kept_object()))
        }
    }

    /// Keeps a value for later calls; the first one wins, so that every caller gets the same object.
    #[inline]
    pub fn keep_value(self, value: Owned) -> Owned {
        self.keep(value, 0)
    }

    /// Keeps an exception for later calls; the first one wins.
    pub fn keep_raised(self, exception: Owned) -> Owned {
        self.keep(exception, RAISED)
    }

    #[inline]
    fn keep(self, object: Owned, mark: usize) -> Owned {
        // SAFETY: as above. What an app future drops may run Python code: everything here is settled by then.
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

    /// What an app future makes of an exception that the engine made for it; other futures leave it as it is.
    ///
    /// # Errors
    /// What translating raises; `TypeError` when that gives no exception.
    pub fn translated(self, raised: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if is_app_future(self.object) { app::translated(self, raised) } else { Ok(raised) }
    }

    /// Lets the collector see the future: it may be part of a cycle from now on.
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
/// Nobody sees the object before the other fields of its type are set; `engine` is the task's engine.
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

/// Zeroes what the base class keeps in the body of an instance (3.11: the list of weak references).
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

/// Ends an untracked instance: everything that all futures have goes, and its memory.
///
/// # Safety
/// Its last reference is gone; what else its type has was taken out of it; the interpreter is held.
pub(super) unsafe fn end(object: *mut ffi::PyObject) {
    // SAFETY: passed on from the caller. Weak references and the dict go first, as the base class does it; the type loses
    // the reference that each instance of a heap type holds.
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

/// Shows objects to the collector until it has seen enough.
///
/// # Safety
/// Each is live or null; `visit` and `argument` are the collector's.
pub(super) unsafe fn visit_all(
    parts: &[*mut ffi::PyObject],
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    for &part in parts.iter().filter(|part| !part.is_null()) {
        // SAFETY: passed on from the caller.
        let stop = unsafe { visit(part, argument) };
        if stop != 0 {
            return stop;
        }
    }
    0
}

pub(super) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: called by the collector with a live future. The engine stays: the task needs it to be released.
    unsafe {
        let fields = fields(object);
        let kept = fields.kept_object();
        fields.kept = std::ptr::null_mut();
        ffi::Py_XDECREF(kept);
        clear_dict(object);
    }
    0
}
