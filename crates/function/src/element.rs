//! Numbers that buffers hold, and views of bytes as such numbers.

use std::any::type_name;
use std::slice;

use thiserror::Error;

/// A number that a buffer can hold: each pattern of its bits is a value, and none of its bytes is padding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of the items of a buffer",
    label = "not one of u8, i8, u16, i16, u32, i32, u64, i64, f32 and f64",
    note = "a function on a `Call` reads and writes other data as bytes"
)]
pub trait Element: sealed::Sealed + Copy + 'static {}

mod sealed {
    /// A type of this crate's choice.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty),+ $(,)?) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {}
    )+};
}

elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// The reason why a buffer cannot be read as items of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ElementError {
    /// The last item is not complete.
    #[error("the {buffer} has {size} bytes, which is no whole number of items of type {element}")]
    NotWhole {
        /// The name of the buffer.
        buffer: &'static str,
        /// Bytes of the buffer.
        size: usize,
        /// The type of the items.
        element: &'static str,
    },
    /// The first item has an address that the processor may refuse.
    #[error(
        "the {buffer} begins at an address that is no multiple of {alignment}, as items of type {element} need it"
    )]
    Misaligned {
        /// The name of the buffer.
        buffer: &'static str,
        /// Number of which the address must be a multiple.
        alignment: usize,
        /// The type of the items.
        element: &'static str,
    },
}

/// Returns the items of a buffer. An empty one may begin anywhere.
///
/// # Errors
/// If it has no whole number of them, or begins at a wrong address.
pub(crate) fn items<'a, T: Element>(
    buffer: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [T], ElementError> {
    let size = bytes.len();
    if size == 0 {
        return Ok(&[]);
    }
    if !size.is_multiple_of(size_of::<T>()) {
        return Err(ElementError::NotWhole { buffer, size, element: type_name::<T>() });
    }
    let first = bytes.as_ptr().cast::<T>();
    check_address(buffer, first)?;
    // SAFETY: the items lie in the bytes, which are borrowed as long; the address fits, and any bytes are items.
    Ok(unsafe { slice::from_raw_parts(first, size / size_of::<T>()) })
}

/// Returns the whole items that a buffer has room for. An empty one may begin anywhere.
///
/// # Errors
/// If it begins at a wrong address.
pub(crate) fn items_mut<'a, T: Element>(
    buffer: &'static str,
    bytes: &'a mut [u8],
) -> Result<&'a mut [T], ElementError> {
    let count = bytes.len() / size_of::<T>();
    if count == 0 {
        return Ok(&mut []);
    }
    let first = bytes.as_mut_ptr().cast::<T>();
    check_address(buffer, first)?;
    // SAFETY: the items lie in the bytes, which are borrowed as long; the address fits, and any bytes are items, as any items
    // are bytes.
    Ok(unsafe { slice::from_raw_parts_mut(first, count) })
}

/// Returns the bytes of items.
pub(crate) fn bytes_of<T: Element>(items: &[T]) -> &[u8] {
    // SAFETY: items have no padding, and their memory is borrowed as long.
    unsafe { slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

fn check_address<T: Element>(buffer: &'static str, first: *const T) -> Result<(), ElementError> {
    if first.is_aligned() {
        return Ok(());
    }
    let (alignment, element) = (align_of::<T>(), type_name::<T>());
    Err(ElementError::Misaligned { buffer, alignment, element })
}
