//! The future's type: a true subclass of `concurrent.futures.Future` made by hand, because one is made for every task.
//!
//! An instance is the base class's header and three words of ours: 80 bytes on 3.11. It has no lock, no condition and no
//! dict, and the collector does not know it, until somebody gives it a callback, a waiter, an attribute or a result that
//! the collector tracks. What a task's state is, the engine's task table says.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use gristmill_wire::TaskId;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::object::Owned;

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

struct FutureType {
    kind: *mut ffi::PyTypeObject,
    /// Where the fields begin: the size of a plain `concurrent.futures.Future`.
    offset: usize,
}

// SAFETY: the type object is immortal once stored, and used under the interpreter.
unsafe impl Send for FutureType {}
// SAFETY: as above.
unsafe impl Sync for FutureType {}

static TYPE: OnceLock<FutureType> = OnceLock::new();

fn future_type() -> &'static FutureType {
    TYPE.get().expect("the future type is made before the first engine")
}

/// Whether `object` is one of our futures.
#[inline]
pub fn is_future(object: *mut ffi::PyObject) -> bool {
    // SAFETY: callers hand in live objects only.
    TYPE.get().is_some_and(|known| unsafe { ffi::Py_TYPE(object) == known.kind })
}

/// The fields of a future.
///
/// # Safety
/// `object` is a live future of ours and the interpreter is held: it is what guards the fields.
#[inline]
unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a mut Fields {
    // SAFETY: instances are `offset + size_of::<Fields>()` bytes, and `offset` is a multiple of a pointer's size.
    unsafe { &mut *object.cast::<u8>().add(future_type().offset).cast::<Fields>() }
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
        // SAFETY: as above.
        unsafe {
            let fields = fields(self.object);
            if !fields.kept.is_null() {
                return Owned::new_reference(fields.kept_object());
            }
            if ffi::PyObject_GC_IsTracked(object.as_ptr()) != 0 {
                self.track();
            }
            fields.kept = ffi::Py_NewRef(object.as_ptr()).map_addr(|address| address | mark);
        }
        object
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
    // SAFETY: the type is a heap type with the collector's header; all fields are set before anybody sees the object.
    unsafe {
        let object =
            Owned::or_raise(py, ffi::PyObject_GC_New::<ffi::PyObject>(future_type().kind))?;
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
        std::ptr::write_bytes(object.cast::<u8>().add(header), 0, future_type().offset - header);
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, with the last reference gone and the interpreter held. Weak references and the dict go first,
    // as the base class does it; the type loses the reference that each instance of a heap type holds.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
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

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector with a live future; each visited pointer is live or null.
    unsafe {
        let fields = fields(object);
        for part in [ffi::Py_TYPE(object).cast(), fields.engine, fields.kept_object()] {
            if !part.is_null() {
                let stop = visit(part, argument);
                if stop != 0 {
                    return stop;
                }
            }
        }
        visit_dict(object, visit, argument)
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
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

unsafe extern "C" fn set_attribute(
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

// Public from 3.13 on, and the same under another name before.
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

#[cfg(Py_3_12)]
unsafe fn clear_dict(object: *mut ffi::PyObject) {
    // SAFETY: instances have a managed dict, as those of every Python class without slots.
    unsafe { PyObject_ClearManagedDict(object) };
}

#[cfg(Py_3_12)]
unsafe fn visit_dict(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { PyObject_VisitManagedDict(object, visit, argument) }
}

/// 3.11 keeps the dict three words in front of the object, and `_PyObject_GC_New` leaves it null.
#[cfg(not(Py_3_12))]
unsafe fn dict_place(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
    // SAFETY: instances of a class with a managed dict have these words in front of them.
    unsafe { object.cast::<*mut ffi::PyObject>().sub(3) }
}

#[cfg(not(Py_3_12))]
unsafe fn clear_dict(object: *mut ffi::PyObject) {
    // SAFETY: the place holds a strong reference or null.
    unsafe {
        let dict = std::mem::replace(&mut *dict_place(object), std::ptr::null_mut());
        ffi::Py_XDECREF(dict);
    }
}

#[cfg(not(Py_3_12))]
unsafe fn visit_dict(
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

/// The type, if it was made already.
pub fn made_type(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the stored type is a live object, and the interpreter is held.
    TYPE.get().map(|known| unsafe { Bound::from_borrowed_ptr(py, known.kind.cast()) })
}

/// Makes the type, once, as a subclass of `concurrent.futures.Future`.
///
/// # Errors
/// What importing the base class or making the type raises.
pub fn make_type<'py>(
    py: Python<'py>,
    methods: &'static [ffi::PyMethodDef],
    properties: &'static [ffi::PyGetSetDef],
    iterate: ffi::unaryfunc,
) -> PyResult<Bound<'py, PyAny>> {
    let base = py.import("concurrent.futures._base")?.getattr("Future")?;
    // SAFETY: `base` is a type object.
    let offset = unsafe { (*base.as_ptr().cast::<ffi::PyTypeObject>()).tp_basicsize };
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_setattro, set_attribute as *mut c_void),
        slot(ffi::Py_am_await, iterate as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_getset, properties.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_doc, c"The outcome of one task, now or later.".as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let size = offset.cast_unsigned() + size_of::<Fields>();
    let flags =
        ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"gristmill.Future".as_ptr(),
        basicsize: c_int::try_from(size)?,
        itemsize: 0,
        flags: u32::try_from(flags)?,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification is complete, and CPython copies it; methods and properties are static.
    let kind = unsafe {
        Owned::or_raise(py, ffi::PyType_FromSpecWithBases(&raw mut spec, base.as_ptr()))?
    };
    let kind = kind.into_bound(py);
    let stored =
        FutureType { kind: kind.clone().into_ptr().cast(), offset: offset.cast_unsigned() };
    // Importing the base may have let another thread make it first.
    let _ = TYPE.set(stored);
    Ok(made_type(py).unwrap_or(kind))
}
