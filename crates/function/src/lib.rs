//! Native functions for Gristmill in safe Rust.
//!
//! A library of such functions is a crate of the type `cdylib`. [`macro@function`] makes a function one that
//! `gristmill.native.Library("libown.so").function("doubled", interface="call")` finds:
//!
//! ```
//! use gristmill_function::{Call, function};
//!
//! /// Writes each number times two.
//! #[function]
//! fn doubled(input: &[f64], output: &mut [f64]) -> usize {
//!     for (to, from) in output.iter_mut().zip(input) {
//!         *to = 2.0 * from;
//!     }
//!     input.len()
//! }
//!
//! /// Writes each byte twice, which needs more room than there is at first.
//! #[function]
//! fn repeated(call: &mut Call) -> Result<(), gristmill_function::AllocateError> {
//!     let found: Vec<u8> = call.input().iter().flat_map(|byte| [*byte; 2]).collect();
//!     call.write(&found)
//! }
//! ```
//!
//! Guarantees: an error or a panic becomes the error of the task, whatever its text; no value that the function returns makes
//! the engine read memory that is not the output's. The crate knows no part of the engine, so libraries stay small.

mod call;
mod element;
mod raw;
mod run;

pub use call::{AllocateError, Call};
pub use element::{Element, ElementError};
/// Makes a function one of the interface of `gristmill_call.h`, under its own name.
///
/// Its signature is one of these, where `T` and `U` are [`Element`]s and `E` is `Display`:
/// - `fn f(input: &[T], output: &mut [U]) -> Result<usize, E>`, or `-> usize`: it returns how many items it wrote. The input is
///   a whole number of items.
/// - `fn f(call: &mut Call) -> Result<(), E>`, or without a result: see [`Call`].
///
/// Its task raises `NativeError` with the text of an error and status 1, or of a panic and status 2. A library that is compiled
/// with `panic = "abort"` loses its worker instead.
///
/// The library exports the function by its name, as `#[no_mangle]` does: give it none that the C library has.
pub use gristmill_function_macros::function;

/// Names for the code that [`macro@function`] writes.
#[doc(hidden)]
pub mod __private {
    pub use crate::raw::RawCall;
    pub use crate::run::{assert_element, run, run_on_slices};
}

/// Exports a function of the interface, which runs another one.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($symbol:literal, $run:path, $function:path) => {
        #[unsafe(export_name = $symbol)]
        unsafe extern "C" fn exported(call: *mut $crate::__private::RawCall) -> i32 {
            // SAFETY: the caller of a function of the interface guarantees it.
            unsafe { $run(call, $function) }
        }
    };
}
