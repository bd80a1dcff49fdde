//! Temporary folders.

use std::path::PathBuf;

/// A folder of one test, removed with it.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder of the test `name`.
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("gristmill-image-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
