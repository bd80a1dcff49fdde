//! Module graph of each crate, and the sizes of its types.
//!
//! A module is a node; a path to a name of another module is an edge to the module that defines the name. `use` declarations
//! are followed, so a path through a re-export counts as a reference to the module that defines the name. Test code is left
//! out: modules and items that only `cfg(test)` compiles. Calls of methods are no paths, and names that a macro of another
//! crate writes are not seen.

mod cycles;
mod module;
mod parse;
#[cfg(test)]
mod tests;
mod tree;

pub use cycles::cycles;
pub use module::StructSize;
pub use tree::{Crate, Reference};

use crate::sources;

/// Returns the crates of the workspace. The library and the program of a package are two crates.
#[must_use]
pub fn crates() -> Vec<Crate> {
    let files = sources();
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let roots = files.iter().filter(|file| is_root(&file.path));
    roots.map(|root| Crate::new(&files, &root.path)).collect()
}
