//! Release of a future's arguments without recursion: each may hold the last reference to a future with arguments.

use std::cell::RefCell;

use pyo3::ffi;

thread_local! {
    /// Objects to release next, while this thread releases one further up its stack.
    static NEXT: RefCell<Option<Vec<*mut ffi::PyObject>>> = const { RefCell::new(None) };
}

/// Releases a reference. An outer call on the same thread, if there is one, does this after its own release.
///
/// # Safety
/// The caller owns the reference and holds the interpreter.
pub(super) unsafe fn let_go(object: *mut ffi::PyObject) {
    // At the end of a thread its list is gone; nothing deep hangs on the objects that it releases then.
    let is_outermost = NEXT.try_with(|next| begin_or_add(&mut next.borrow_mut(), object));
    match is_outermost {
        // SAFETY: the caller owns the reference, which is on no list.
        Ok(true) => unsafe { drain(object) },
        Ok(false) => {}
        // SAFETY: as above.
        Err(_) => unsafe { ffi::Py_DECREF(object) },
    }
}

/// Adds `object` to the list. If there is none, begins one and returns true instead.
fn begin_or_add(next: &mut Option<Vec<*mut ffi::PyObject>>, object: *mut ffi::PyObject) -> bool {
    if let Some(list) = next {
        list.push(object);
        return false;
    }
    *next = Some(Vec::new());
    true
}

/// Releases `first`, and then all objects that are added to the list meanwhile.
///
/// # Safety
/// The same as for [`let_go`]; this thread's list was just begun.
unsafe fn drain(first: *mut ffi::PyObject) {
    let mut object = Some(first);
    while let Some(one) = object {
        // SAFETY: the caller owned the reference, or the call that added it to the list did. The list is not borrowed
        // meanwhile.
        unsafe { ffi::Py_DECREF(one) };
        object = NEXT.with_borrow_mut(|next| next.as_mut().and_then(Vec::pop));
    }
    NEXT.set(None);
}
