//! References that show whether an object is still the one seen before, and keep as little as possible alive.

use pyo3::ffi;
use pyo3::prelude::*;

use crate::object::tuple_items;

/// Maximum size of strings and bytes that are kept; larger ones are identified by their hash.
const KEPT_MAX: ffi::Py_ssize_t = 4096;
/// Maximum items of a tuple that is compared by its items; a larger one is kept itself.
const ITEMS_MAX: ffi::Py_ssize_t = 16;

/// An identity check for an object. It borrows its pointer: the holder that `take` returns beside it keeps it valid.
#[derive(Clone, Copy)]
pub enum Referent {
    /// A weak reference to the object.
    Weak(usize),
    /// The object, which is kept alive.
    Strong(usize),
}

impl Referent {
    /// Makes the check of an object. Also returns the holder that must live as long as the check is used. `callback` is
    /// called when the object ends.
    pub fn take(
        object: &Bound<'_, PyAny>,
        callback: Option<Bound<'_, PyAny>>,
    ) -> (Py<PyAny>, Self) {
        let py = object.py();
        // SAFETY: the object is live, and so is its type; a weak reference takes its own reference to the callback.
        let weak = unsafe {
            let has_weak = (*ffi::Py_TYPE(object.as_ptr())).tp_weaklistoffset != 0;
            let callback = callback.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            has_weak.then(|| ffi::PyWeakref_NewRef(object.as_ptr(), callback))
        };
        // SAFETY: a new reference, or null with an exception.
        let weak = weak.and_then(|weak| unsafe { Bound::from_owned_ptr_or_opt(py, weak) });
        if let Some(weak) = weak {
            let place = weak.as_ptr() as usize;
            return (weak.unbind(), Self::Weak(place));
        }
        // SAFETY: the interpreter is held; an error means that there is no memory, or no weak reference to the object.
        unsafe { ffi::PyErr_Clear() };
        (object.clone().unbind(), Self::Strong(object.as_ptr() as usize))
    }

    /// Makes a check that matches no object.
    pub const fn nothing() -> Self {
        Self::Strong(0)
    }

    /// Returns whether `object`, which is live, is the one seen before.
    #[inline]
    pub fn is(&self, object: *mut ffi::PyObject) -> bool {
        match *self {
            // SAFETY: the weak reference is kept alive beside this, and the interpreter is held.
            Self::Weak(weak) => unsafe { referent_of(weak) == object },
            Self::Strong(strong) => strong == object as usize,
        }
    }

    /// Returns the object, borrowed, if it is alive.
    pub fn get(&self) -> Option<*mut ffi::PyObject> {
        match *self {
            // SAFETY: as above.
            Self::Weak(weak) => unsafe {
                Some(referent_of(weak)).filter(|&object| object != ffi::Py_None())
            },
            Self::Strong(strong) => Some(strong as *mut ffi::PyObject),
        }
    }

    /// Returns whether the object has ended.
    pub fn is_over(&self) -> bool {
        self.get().is_none()
    }
}

/// Returns the object of a weak reference, borrowed; Python's `None` if the object has ended.
///
/// # Safety
/// `weak` is the address of a live weak reference; the interpreter is held.
#[inline]
unsafe fn referent_of(weak: usize) -> *mut ffi::PyObject {
    // SAFETY: the caller guarantees it; the struct is that of this interpreter's version.
    unsafe { (*(weak as *const ffi::PyWeakReference)).wr_object }
}

/// A captured value, as it was seen.
pub enum CapturedValue {
    /// No value.
    Nothing,
    /// An object, with its identity check and the holder that keeps the check valid.
    Object(Referent, #[expect(dead_code, reason = "keeps the referent valid")] Py<PyAny>),
    /// A short tuple, by its items. The tuple itself is not kept, because it may hold functions that hold it.
    Items(Vec<Self>),
    /// A long string, or bytes: its address, its size and its hash.
    Long(usize, ffi::Py_ssize_t, ffi::Py_hash_t),
}

impl CapturedValue {
    /// Captures an object, or its absence.
    ///
    /// # Safety
    /// `object` is null or live; the interpreter is held.
    pub unsafe fn take(py: Python<'_>, object: *mut ffi::PyObject) -> Self {
        // SAFETY: the caller guarantees it, here and below.
        unsafe {
            if object.is_null() {
                return Self::Nothing;
            }
            if let Some(size) = long_size(object) {
                return Self::Long(object as usize, size, ffi::PyObject_Hash(object));
            }
            if let Some(items) = short_tuple(object) {
                return Self::Items(items.iter().map(|&item| Self::take(py, item)).collect());
            }
            let object = Bound::from_borrowed_ptr(py, object);
            if ffi::PyModule_Check(object.as_ptr()) != 0 {
                let place = object.as_ptr() as usize;
                return Self::Object(Referent::Strong(place), object.unbind());
            }
            let (holder, referent) = Referent::take(&object, None);
            Self::Object(referent, holder)
        }
    }

    /// Returns whether `object` is the captured value. Runs no Python code.
    ///
    /// # Safety
    /// The same as for [`Self::take`].
    pub unsafe fn is(&self, object: *mut ffi::PyObject) -> bool {
        match self {
            Self::Nothing => object.is_null(),
            Self::Object(referent, _) => !object.is_null() && referent.is(object),
            // SAFETY: the caller guarantees it; a tuple keeps its items alive.
            Self::Items(items) => unsafe {
                !object.is_null()
                    && short_tuple(object).is_some_and(|now| {
                        let mut pairs = items.iter().zip(now);
                        items.len() == now.len() && pairs.all(|(held, &item)| held.is(item))
                    })
            },
            // SAFETY: the caller guarantees it; the hash of a string runs no code, and is cached after the first call.
            Self::Long(place, size, hash) => unsafe {
                *place == object as usize
                    && long_size(object) == Some(*size)
                    && ffi::PyObject_Hash(object) == *hash
            },
        }
    }
}

/// Returns the items of a tuple, if there are few.
///
/// # Safety
/// `object` is live; the interpreter is held, and the tuple lives as long as the items are used.
unsafe fn short_tuple<'a>(object: *mut ffi::PyObject) -> Option<&'a [*mut ffi::PyObject]> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let is_tuple = ffi::PyTuple_CheckExact(object) != 0;
        (is_tuple && ffi::PyTuple_GET_SIZE(object) <= ITEMS_MAX).then(|| tuple_items(object))
    }
}

/// Returns the length of a string or of bytes, if it is long.
///
/// # Safety
/// `object` is live; the interpreter is held.
unsafe fn long_size(object: *mut ffi::PyObject) -> Option<ffi::Py_ssize_t> {
    // SAFETY: each size is read from an object of exactly that type.
    unsafe {
        let size = if ffi::PyBytes_CheckExact(object) != 0 {
            ffi::PyBytes_Size(object)
        } else if ffi::PyUnicode_CheckExact(object) != 0 {
            ffi::PyUnicode_GetLength(object)
        } else {
            return None;
        };
        (size > KEPT_MAX).then_some(size)
    }
}
