//! The rules of the repository as tests: what `ARCHITECTURE.md` and `CONTRIBUTING.md` say and a machine can check.
//!
//! Everything is read as text; nothing here understands Rust beyond lines and braces, so that each rule stays a few lines.
//! The rules are the files in `tests/`; this library only finds and cuts up what they look at.
#![forbid(unsafe_code)]

mod files;
mod functions;
mod graph;

pub use files::{SourceFile, read, root, sources, text_files};
pub use functions::{Function, functions};
pub use graph::{Edge, edges};
