//! Letting go of a future's arguments without recursion: each may be the last to hold a future, with arguments.

use std::cell::RefCell;

use pyo3::ffi;

thread_local! {
    /// What is to be let go of next, while this thread lets go of something further up its stack.
    static NEXT: RefCell<Option<Vec<*mut ffi::PyObject>>> = const { RefCell::new(None) };
}

/// Gives a reference back, now or, inside of another call of this, as soon as that has given its own back.
///
/// # Safety
/// The caller owns the reference and holds the interpreter.
pub(super) unsafe fn let_go(object: *mut ffi::PyObject) {
    // A thread that ends has no list any more; nothing deep hangs on what it lets go of then.
    let is_outermost = NEXT.try_with(|next| begin_or_add(&mut next.borrow_mut(), object));
    match is_outermost {
        // SAFETY: the caller's reference, which is on nobody's list.
        Ok(true) => unsafe { drain(object) },
        Ok(false) => {}
        // SAFETY: as above.
        Err(_) => unsafe { ffi::Py_DECREF(object) },
    }
}

/// Puts `object` on the list; or says that there was none, and begins one.
fn begin_or_add(next: &mut Option<Vec<*mut ffi::PyObject>>, object: *mut ffi::PyObject) -> bool {
    if let Some(list) = next {
        list.push(object);
        return false;
    }
    *next = Some(Vec::new());
    true
}

/// Gives `first` back and whatever comes onto the list meanwhile.
///
/// # Safety
/// As for [`let_go`]; this thread's list was just begun.
unsafe fn drain(first: *mut ffi::PyObject) {
    let mut object = Some(first);
    while let Some(one) = object {
        // SAFETY: passed on from the caller, and from those who put theirs on the list. It is not borrowed meanwhile.
        unsafe { ffi::Py_DECREF(one) };
        object = NEXT.with_borrow_mut(|next| next.as_mut().and_then(Vec::pop));
    }
    NEXT.set(None);
}
