//! Tests of the repository's rules: the parts of `ARCHITECTURE.md` and `CONTRIBUTING.md` that a machine can check.
//!
//! Most rules read files as lines of text, so that each rule stays a few lines. The rules about modules need the structure of
//! Rust code; `syn` parses it. The rules are the files in `tests/`; this library only finds and splits the files that they
//! check.
#![forbid(unsafe_code)]

mod files;
mod functions;
mod graph;
mod literals;
mod modules;

pub use files::{SourceFile, read, root, sources, text_files};
pub use functions::{Function, functions};
pub use graph::{Edge, edges};
pub use literals::literals;
pub use modules::{Crate, Reference, StructSize, crates, cycles};
