//! Memory that ends where memory begins that cannot be read or written: who writes past its end dies there.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer_view::{OwnedMemory, fill_view};

/// A writable buffer of zeros in such memory. If its size is a multiple of an item's, each item is aligned.
#[pyclass(frozen, module = "gristmill._native")]
pub struct GuardedMemory {
    base: *mut c_void,
    /// Bytes of the mapping, with the page that cannot be accessed.
    mapped: usize,
    data: *mut u8,
    size: usize,
}

// SAFETY: the mapping is this object's own, and is not bound to a thread.
unsafe impl Send for GuardedMemory {}
// SAFETY: as above; only users of the buffer write to the memory, as with any buffer.
unsafe impl Sync for GuardedMemory {}

#[pymethods]
impl GuardedMemory {
    #[new]
    fn of_size(size: usize) -> PyResult<Self> {
        Self::new(size).ok_or_else(|| {
            PyMemoryError::new_err(format!("there is no memory for {size} guarded bytes"))
        })
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let &Self { data: pointer, size, .. } = slf.get();
        let memory = OwnedMemory { pointer, size, is_readonly: false };
        // SAFETY: Python passes a view to fill in; the mapping is there for as long as this object lives.
        unsafe { fill_view(slf.as_any(), (view, flags), &memory) }
    }

    fn __len__(&self) -> usize {
        self.size
    }
}

impl GuardedMemory {
    /// Maps the memory; `None` if there is not enough.
    pub fn new(size: usize) -> Option<Self> {
        // SAFETY: it has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let writable = size.checked_next_multiple_of(page)?;
        let mapped = writable.checked_add(page)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: `writable` and `writable - size` are less than the size of the mapping.
        let (guard, data) = unsafe { (base.byte_add(writable), base.byte_add(writable - size)) };
        let memory = Self { base, mapped, data: data.cast(), size };
        // SAFETY: the page belongs to the mapping, which nothing else uses yet.
        let is_guarded = unsafe { libc::mprotect(guard, page, libc::PROT_NONE) } == 0;
        is_guarded.then_some(memory)
    }

    /// Returns its bytes. No one may write to them meanwhile.
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `size` initialized bytes at `data` for as long as this object lives.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }

    /// Returns the address of its first byte.
    pub const fn data(&self) -> *mut u8 {
        self.data
    }
}

impl Drop for GuardedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points to it any more.
        unsafe { libc::munmap(self.base, self.mapped) };
    }
}
