//! A call of a native function, as safe Rust sees it.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use thiserror::Error;

use crate::element::{Element, ElementError, bytes_of, items, items_mut};
use crate::raw::{RawBuffer, RawCall, RawOutput, RawText};

/// There is no memory for an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no memory for an output of {size} bytes")]
pub struct AllocateError {
    /// Bytes of the output.
    pub size: usize,
}

/// A call of a native function: its input, its output, and the state of its task.
///
/// The input and the kept buffers can be read until the function returns, also while it writes the output. The output is
/// borrowed from the call, so no part of it is left when [`Call::allocate`] takes its place. A call stays on the thread that
/// it was made on; other threads can have the slices.
#[derive(Debug)]
pub struct Call<'a> {
    raw: NonNull<RawCall>,
    memory: PhantomData<&'a mut RawCall>,
}

impl<'a> Call<'a> {
    /// Makes the call of a structure.
    ///
    /// # Safety
    /// All that `gristmill_call.h` says about the structure is true for as long as `'a`, during which only this object uses it.
    /// It has at least [`RawCall::SIZE_MIN`] bytes. Its input and its kept buffers do not change, and share no memory with its
    /// output, whose bytes are initialized. The thread is the one that the function was called on.
    pub(crate) unsafe fn new(raw: NonNull<RawCall>) -> Self {
        Self { raw, memory: PhantomData }
    }

    /// Returns the input.
    #[must_use]
    pub fn input(&self) -> &'a [u8] {
        // SAFETY: `new` demands that the structure has an input, which lives as long.
        unsafe { bytes((*self.raw.as_ptr()).input) }
    }

    /// Returns the items of the input.
    ///
    /// # Errors
    /// If it has no whole number of them, or begins at an address that is wrong for them.
    pub fn input_of<T: Element>(&self) -> Result<&'a [T], ElementError> {
        items("input", self.input())
    }

    /// Returns the room for the output: at first as many bytes as the input has or the `capacity` of the call, and what was
    /// allocated after [`Call::allocate`].
    #[must_use]
    pub fn output(&mut self) -> &mut [u8] {
        let RawOutput { data, capacity, .. } = self.raw_output();
        let size = in_memory(capacity);
        if data.is_null() || size == 0 {
            return &mut [];
        }
        // SAFETY: `new` demands that the structure has an output, whose bytes are initialized. It is borrowed with the call.
        unsafe { slice::from_raw_parts_mut(data.cast(), size) }
    }

    /// Returns the items that the output has room for.
    ///
    /// # Errors
    /// If it begins at an address that is wrong for them.
    pub fn output_of<T: Element>(&mut self) -> Result<&mut [T], ElementError> {
        items_mut("output", self.output())
    }

    /// Says how many bytes of [`Call::output`] are the result: none before it is called.
    ///
    /// # Panics
    /// If the output has no room for them.
    pub fn set_size(&mut self, size: usize) {
        let capacity = in_memory(self.raw_output().capacity);
        assert!(size <= capacity, "an output of {size} bytes does not fit into {capacity}");
        // SAFETY: `new` demands that the structure has this field, and that only this object uses it.
        unsafe { (*self.raw.as_ptr()).output.size = size as u64 };
    }

    /// Makes other room for the output, all zero, and returns it. All of it is the result, unless [`Call::set_size`] says less.
    /// The former output is lost.
    ///
    /// # Errors
    /// If there is no memory; nothing has changed then.
    pub fn allocate(&mut self, size: usize) -> Result<&mut [u8], AllocateError> {
        let raw = self.raw.as_ptr();
        // SAFETY: `new` demands that the structure has this function, which may change the output: it is borrowed here.
        let data = unsafe { ((*raw).allocate)(raw, size as u64) };
        if data.is_null() {
            return Err(AllocateError { size });
        }
        self.set_size(size);
        Ok(self.output())
    }

    /// Makes these items the whole result, in the room that there is if it is enough.
    ///
    /// # Errors
    /// If more room is needed, and there is no memory.
    pub fn write<T: Element>(&mut self, items: &[T]) -> Result<(), AllocateError> {
        let bytes = bytes_of(items);
        if self.output().len() < bytes.len() {
            self.allocate(bytes.len())?;
        }
        self.output()[..bytes.len()].copy_from_slice(bytes);
        self.set_size(bytes.len());
        Ok(())
    }

    /// Returns true once the task should stop: it was cancelled, or its time is over. The function should return soon then; its
    /// worker is killed after the grace of the task.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let raw = self.raw.as_ptr();
        // SAFETY: `new` demands that the structure has this function. A call is not `Send` and not `Sync`, so the thread is the
        // one that the function was called on.
        unsafe { ((*raw).is_cancelled)(raw) != 0 }
    }

    /// Returns the time that is left until the `timeout` of the task; `None` if it has none.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        if self.size() < RawCall::SIZE_WITH_TIME {
            return None;
        }
        let raw = self.raw.as_ptr();
        // SAFETY: the structure has the field.
        match unsafe { ((*raw).time_left)(raw) } {
            u64::MAX => None,
            left_ns => Some(Duration::from_nanos(left_ns)),
        }
    }

    /// Returns the number of buffers that the worker keeps for the function.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        if self.size() < RawCall::SIZE_WITH_KEPT {
            return 0;
        }
        // SAFETY: the structure has the field.
        in_memory(unsafe { (*self.raw.as_ptr()).kept.count })
    }

    /// Returns a buffer that the worker keeps for the function, in the order of `Library.function(kept=)`, from 0.
    ///
    /// # Panics
    /// If the function has no such buffer.
    #[must_use]
    pub fn kept(&self, index: usize) -> &'a [u8] {
        let count = self.kept_count();
        assert!(index < count, "kept buffer {index} was asked for, but the function has {count}");
        // SAFETY: the structure has the field, and as many buffers, which live as long.
        unsafe { bytes(*(*self.raw.as_ptr()).kept.first.add(index)) }
    }

    /// Returns the items of a kept buffer.
    ///
    /// # Errors
    /// If it has no whole number of them, or begins at an address that is wrong for them.
    ///
    /// # Panics
    /// If the function has no such buffer.
    pub fn kept_of<T: Element>(&self, index: usize) -> Result<&'a [T], ElementError> {
        items("kept buffer", self.kept(index))
    }

    /// Sets the text of an error, cut off where the room for it ends.
    pub(crate) fn set_error(&mut self, text: &str) {
        // SAFETY: `new` demands that the structure has this field.
        let RawText { data, capacity } = unsafe { (*self.raw.as_ptr()).error };
        let Some(room) = in_memory(capacity).checked_sub(1).filter(|_| !data.is_null()) else {
            return;
        };
        let end = (0..=room.min(text.len())).rfind(|&end| text.is_char_boundary(end)).unwrap_or(0);
        // SAFETY: the text and the zero byte fit, and the room for them is no part of the text.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), data.cast(), end);
            *data.add(end) = 0;
        }
    }

    /// Returns the bytes of the structure.
    fn size(&self) -> usize {
        // SAFETY: every structure begins with its size.
        in_memory(unsafe { (*self.raw.as_ptr()).size })
    }

    fn raw_output(&self) -> RawOutput {
        // SAFETY: `new` demands that the structure has this field.
        unsafe { (*self.raw.as_ptr()).output }
    }
}

/// Returns the bytes of a buffer. An empty one may have any address.
///
/// # Safety
/// The buffer is in memory, and does not change, for as long as `'a`.
unsafe fn bytes<'a>(buffer: RawBuffer) -> &'a [u8] {
    let size = in_memory(buffer.size);
    if buffer.data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(buffer.data.cast(), size) }
}

/// Returns the size of something that is in memory.
fn in_memory(size: u64) -> usize {
    usize::try_from(size).expect("what is in memory has a size of memory")
}
