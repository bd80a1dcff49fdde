//! The attribute of `gristmill-function`: it checks the signature of a function, and exports it.
//!
//! Programs use it by that crate, which documents it. The code that it writes has no unsafe block of its own: the macro
//! `__export` of that crate has it.
#![forbid(unsafe_code)]

mod expand;
mod signature;

use proc_macro::TokenStream;

/// Exports a function for tasks of Gristmill; `gristmill_function::function` says which.
#[proc_macro_attribute]
pub fn function(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(&arguments.into(), item.into()).into()
}
