//! Files that the rules check.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the repository.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path from the root, with slashes.
    pub path: String,
    /// Text of the file.
    pub text: String,
}

impl SourceFile {
    /// Returns the lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Returns the crate of the file, without the common prefix: `core` for `crates/core/src/lib.rs`.
    #[must_use]
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// Returns the repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file by its path from the root.
///
/// # Panics
/// If it cannot be read: a rule cannot be checked.
#[must_use]
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns all Rust files of the workspace.
#[must_use]
pub fn sources() -> Vec<SourceFile> {
    text_files(&["rs"]).into_iter().filter(|file| file.path.starts_with("crates/")).collect()
}

/// Returns all text files with these extensions that git tracks or would add.
///
/// # Panics
/// If git is missing, or this is no repository.
#[must_use]
pub fn text_files(extensions: &[&str]) -> Vec<SourceFile> {
    let command = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let listed = Command::new("git").arg("-C").arg(root()).args(command).output();
    let listed = listed.expect("git can be run");
    assert!(listed.status.success(), "git does not list the files: {listed:?}");
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        // A tracked file that has been removed since is skipped.
        if extension.is_some_and(|extension| extensions.contains(&extension))
            && let Ok(text) = std::fs::read_to_string(root().join(path))
        {
            files.push(SourceFile { path: path.to_owned(), text });
        }
    }
    assert!(!files.is_empty(), "no file ends in one of {extensions:?}");
    files
}
