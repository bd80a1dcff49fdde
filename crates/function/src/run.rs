//! The run of a function: its call, and its result or panic as a status and a text.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::call::Call;
use crate::element::Element;
use crate::raw::RawCall;

/// Status of a function that returned an error.
const FAILED: i32 = 1;
/// Status of a function that panicked.
const PANICKED: i32 = 2;

/// A value that a native function may return: a `T`, or a result with one.
#[diagnostic::on_unimplemented(
    message = "this native function returns `{T}` or `Result<{T}, E>`, where `E` is `Display`",
    label = "it returns `{Self}`"
)]
pub trait Returned<T> {
    /// Returns the value, or the text of the error.
    ///
    /// # Errors
    /// If it is one.
    fn into_result(self) -> Result<T, String>;
}

impl Returned<()> for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl Returned<usize> for usize {
    fn into_result(self) -> Result<usize, String> {
        Ok(self)
    }
}

impl<T, E: Display> Returned<T> for Result<T, E> {
    fn into_result(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Compiles only for the type of an item.
pub const fn assert_element<T: Element>() {}

/// Runs a function on a call, and returns its status: 0, or that of its error or panic, whose text the call then has.
///
/// # Safety
/// All that `gristmill_call.h` says about the structure is true until this returns, and only this thread uses it until then. Its
/// input and its kept buffers do not change, and share no memory with its output, whose bytes are initialized. A null pointer
/// is no call, and fails.
pub unsafe fn run<F, R>(raw: *mut RawCall, function: F) -> i32
where
    F: FnOnce(&mut Call<'_>) -> R,
    R: Returned<()>,
{
    let Some(raw) = NonNull::new(raw) else { return FAILED };
    // SAFETY: every structure begins with its size.
    if unsafe { (*raw.as_ptr()).size } < RawCall::SIZE_MIN as u64 {
        return FAILED;
    }
    // SAFETY: the caller guarantees it. The function takes calls of any lifetime, so it can keep nothing of this one.
    let mut call = unsafe { Call::new(raw) };
    let body = || match function(&mut call).into_result() {
        Ok(()) => 0,
        Err(text) => {
            call.set_error(&text);
            FAILED
        }
    };
    // The call is read once more, for the text; a panic leaves none of its fields half written.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(status) => status,
        Err(payload) => {
            call.set_error(&format!("panicked: {}", text_of(&*payload)));
            PANICKED
        }
    }
}

/// Runs a function on the items of the input and of the output, as [`run`] does.
///
/// # Safety
/// As for [`run`].
pub unsafe fn run_on_slices<T, U, F, R>(raw: *mut RawCall, function: F) -> i32
where
    T: Element,
    U: Element,
    F: FnOnce(&[T], &mut [U]) -> R,
    R: Returned<usize>,
{
    let body = |call: &mut Call<'_>| -> Result<(), String> {
        let input = call.input_of::<T>().map_err(|error| error.to_string())?;
        let output = call.output_of::<U>().map_err(|error| error.to_string())?;
        let capacity = output.len();
        let count = function(input, output).into_result()?;
        if count > capacity {
            return Err(format!("it returned {count} items, but its output holds {capacity}"));
        }
        call.set_size(count * size_of::<U>());
        Ok(())
    };
    // SAFETY: the caller guarantees it.
    unsafe { run(raw, body) }
}

/// Returns the text of a panic.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "its value is no text"
    }
}
