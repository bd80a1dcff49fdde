//! Content of one module, as its source says it.

use std::collections::BTreeMap;

/// Path as the source writes it, and where.
#[derive(Debug, Clone)]
pub(super) struct SourcePath {
    pub(super) names: Vec<String>,
    pub(super) line: usize,
}

/// Content of one module.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Names that lead from the root of the crate to the module.
    pub(super) path: Vec<String>,
    /// Paths of the inner modules that have files of their own.
    pub(super) children: Vec<Vec<String>>,
    /// Path of the file, from the root of the repository.
    pub(super) file: String,
    /// Names that `use` declarations bring in.
    pub(super) imports: BTreeMap<String, SourcePath>,
    /// Modules whose names a `use` declaration with `*` brings in.
    pub(super) globs: Vec<SourcePath>,
    /// Paths outside of `use` declarations.
    pub(super) paths: Vec<SourcePath>,
    /// Self types of `impl` blocks.
    pub(super) impls: Vec<SourcePath>,
    /// Structs with named fields.
    pub(super) structs: Vec<StructSize>,
}

/// Struct with named fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructSize {
    /// Name of the struct.
    pub name: String,
    /// File and line.
    pub place: String,
    /// Number of fields.
    pub fields: usize,
}
