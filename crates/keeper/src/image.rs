//! The keeper's executable, put where the kernel can execute it.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::descriptor::memory_file;
use crate::token::TreeToken;

/// The keeper's executable until it is executed; removed on drop.
pub(crate) enum Image {
    /// A memory file, reachable through its descriptor.
    Memory(File),
    /// A file in a directory, for machines that execute nothing from memory.
    File(PathBuf),
}

impl Image {
    /// Copies the bytes to memory, so that no file system has to be writable or allow execution.
    pub(crate) fn in_memory(bytes: &[u8]) -> io::Result<Self> {
        let mut file = memory_file(c"gristmill-keeper", true)?;
        file.write_all(bytes)?;
        Ok(Self::Memory(file))
    }

    /// Copies the bytes to a new file that only this user can access.
    pub(crate) fn in_directory(bytes: &[u8], directory: &Path) -> io::Result<Self> {
        let path = directory.join(format!("gristmill-keeper-{}", TreeToken::random()?));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        let image = Self::File(path);
        file.write_all(bytes)?;
        Ok(image)
    }

    /// Returns the path to execute, valid in a child that still has the parent's descriptors.
    pub(crate) fn path(&self) -> io::Result<CString> {
        Ok(match self {
            Self::Memory(file) => CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?,
            Self::File(path) => CString::new(path.as_os_str().as_bytes())?,
        })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Self::File(path) = self {
            // If the file is gone already or cannot be removed, the running keeper is not affected.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns directories that may allow execution if memory does not.
pub(crate) fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let fixed = ["/var/tmp", "/dev/shm"].map(PathBuf::from);
    std::iter::once(std::env::temp_dir()).chain(runtime).chain(fixed).collect()
}
