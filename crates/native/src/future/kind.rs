//! The two types of futures: their making, and the type checks of objects. Plain futures have the first type. App
//! futures have the second, which also inherits from a mixin class of the caller.
//!
//! Both are made by hand from slots. Neither can be subclassed: one of our futures is recognised by its exact type.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use super::dict::set_attribute;
use super::layout::Fields;
use crate::object::Owned;

/// One type of futures.
pub(super) struct FutureType {
    pub kind: *mut ffi::PyTypeObject,
    /// Offset of the fields that it adds to its base class: the size of the base class's instances.
    pub offset: usize,
}

// SAFETY: the type object is immortal once stored, and is used with the interpreter held.
unsafe impl Send for FutureType {}
// SAFETY: as above.
unsafe impl Sync for FutureType {}

static PLAIN: OnceLock<FutureType> = OnceLock::new();
static OF_APPS: OnceLock<FutureType> = OnceLock::new();

/// Returns the type of plain futures.
#[inline]
pub(super) fn plain() -> &'static FutureType {
    PLAIN.get().expect("the future type is made before the first engine")
}

/// Returns the type of app futures, if it was made.
#[inline]
pub(super) fn of_apps() -> Option<&'static FutureType> {
    OF_APPS.get()
}

/// Returns whether `object` is one of our futures, of either type.
#[inline]
pub fn is_future(object: *mut ffi::PyObject) -> bool {
    // SAFETY: callers pass live objects only.
    let kind = unsafe { ffi::Py_TYPE(object) };
    PLAIN.get().is_some_and(|known| known.kind == kind) || is_app_kind(kind)
}

/// Returns whether `object` is an app future.
#[inline]
pub(super) fn is_app_future(object: *mut ffi::PyObject) -> bool {
    // SAFETY: callers pass live objects only.
    is_app_kind(unsafe { ffi::Py_TYPE(object) })
}

#[inline]
fn is_app_kind(kind: *mut ffi::PyTypeObject) -> bool {
    OF_APPS.get().is_some_and(|known| known.kind == kind)
}

/// Returns whether `object` is a future of `concurrent.futures` and not one of ours.
pub fn is_foreign_future(object: *mut ffi::PyObject) -> bool {
    let Some(plain) = PLAIN.get() else { return false };
    // SAFETY: callers pass live objects only; our type has the standard library's as its base, and keeps it alive.
    let is_any = unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(object), (*plain.kind).tp_base) } != 0;
    is_any && !is_future(object)
}

/// Returns the type of plain futures, if it was made already.
pub(super) fn made_plain(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    PLAIN.get().map(|made| made.object(py))
}

/// Returns the type of app futures, if it was made already.
pub(super) fn made_of_apps(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    OF_APPS.get().map(|made| made.object(py))
}

impl FutureType {
    fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the stored type is a live object, and the interpreter is held.
        unsafe { Bound::from_borrowed_ptr(py, self.kind.cast()) }
    }
}

/// The parts of a type of futures, besides the inherited ones.
pub(super) struct FutureTypeSpec {
    pub dealloc: ffi::destructor,
    pub traverse: ffi::traverseproc,
    pub clear: ffi::inquiry,
    /// Ended by a zeroed entry, like the properties.
    pub methods: &'static [ffi::PyMethodDef],
    pub properties: &'static [ffi::PyGetSetDef],
    pub doc: &'static CStr,
    /// `__await__`, unless it is inherited.
    pub iterate: Option<ffi::unaryfunc>,
    /// The lookup of attributes, unless it is inherited.
    pub lookup: Option<ffi::getattrofunc>,
}

/// Makes the type of plain futures, once, as a subclass of `concurrent.futures.Future`.
///
/// # Errors
/// Any exception of the import of the base class or of the making of the type.
pub(super) fn make_plain<'py>(
    py: Python<'py>,
    parts: &FutureTypeSpec,
) -> PyResult<Bound<'py, PyAny>> {
    let base = py.import("concurrent.futures._base")?.getattr("Future")?;
    // SAFETY: `base` is a type object.
    let (kind, offset) =
        unsafe { make(py, c"gristmill.Future", base.as_ptr(), size_of::<Fields>(), parts)? };
    // Importing the base may have let another thread make it first.
    let _ = PLAIN.set(FutureType { kind: kind.clone().into_ptr().cast(), offset });
    Ok(made_plain(py).unwrap_or(kind))
}

/// Makes the type of app futures, once, as a subclass of `mixin` and of the plain type.
///
/// # Errors
/// `TypeError` if `mixin` is not a class, or its instances have a layout of their own.
pub(super) fn make_of_apps<'py>(
    mixin: &Bound<'py, PyAny>,
    size: usize,
    parts: &FutureTypeSpec,
) -> PyResult<Bound<'py, PyAny>> {
    let py = mixin.py();
    let base = plain();
    let name = format!("{}.AppFuture", mixin.getattr("__module__")?.extract::<String>()?);
    let name = std::ffi::CString::new(name)?;
    let bases = (mixin, base.object(py)).into_pyobject(py)?;
    // SAFETY: `bases` is a tuple whose last item is our type. Its flags are changed with the interpreter held, and only
    // for as long as it takes to make the one type that derives from it.
    let (kind, offset) = unsafe {
        (*base.kind).tp_flags |= ffi::Py_TPFLAGS_BASETYPE;
        let made = make(py, &name, bases.as_ptr(), size, parts);
        (*base.kind).tp_flags &= !ffi::Py_TPFLAGS_BASETYPE;
        made?
    };
    let _ = OF_APPS.set(FutureType { kind: kind.clone().into_ptr().cast(), offset });
    Ok(made_of_apps(py).unwrap_or(kind))
}

/// Makes a type that adds `size` bytes to the instances of `bases`: a class, or a tuple whose last class has the
/// layout.
///
/// # Safety
/// `bases` is as described above; `parts` fit that layout.
unsafe fn make<'py>(
    py: Python<'py>,
    name: &CStr,
    bases: *mut ffi::PyObject,
    size: usize,
    parts: &FutureTypeSpec,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    // SAFETY: `bases` is a type or a tuple of types.
    let offset = unsafe {
        let last = if ffi::PyTuple_Check(bases) == 0 {
            bases
        } else {
            ffi::PyTuple_GET_ITEM(bases, ffi::PyTuple_GET_SIZE(bases) - 1)
        };
        (*last.cast::<ffi::PyTypeObject>()).tp_basicsize.cast_unsigned()
    };
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = vec![
        slot(ffi::Py_tp_dealloc, parts.dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, parts.traverse as *mut c_void),
        slot(ffi::Py_tp_clear, parts.clear as *mut c_void),
        slot(ffi::Py_tp_setattro, set_attribute as *mut c_void),
        slot(ffi::Py_tp_methods, parts.methods.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_getset, parts.properties.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_doc, parts.doc.as_ptr().cast_mut().cast()),
    ];
    slots.extend(parts.iterate.map(|iterate| slot(ffi::Py_am_await, iterate as *mut c_void)));
    slots.extend(parts.lookup.map(|lookup| slot(ffi::Py_tp_getattro, lookup as *mut c_void)));
    slots.push(slot(0, std::ptr::null_mut()));
    let flags =
        ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: c_int::try_from(offset + size)?,
        itemsize: 0,
        flags: u32::try_from(flags)?,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification is complete, and CPython copies it; methods and properties are static.
    let kind = unsafe { Owned::or_raise(py, ffi::PyType_FromSpecWithBases(&raw mut spec, bases))? };
    Ok((kind.into_bound(py), offset))
}
