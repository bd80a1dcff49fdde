//! The file in which a zygote records what it loads, because it has no slot. The client reads it after the death of the zygote,
//! and when `explain()` asks why there is no worker.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use gristmill_keeper::memory_copy;

/// Size of the file, bytes: a text, then zeros. `gristmill._loading` writes the whole size at once.
const SIZE: usize = 256;

/// A file in memory. The zygote writes its content, so the client shows it but never trusts it.
#[derive(Debug)]
pub(super) struct LoadingFile(File);

impl LoadingFile {
    /// Creates a file without a text.
    ///
    /// # Errors
    /// There is no memory or descriptor for the file.
    pub fn new() -> io::Result<Self> {
        Ok(Self(memory_copy(c"gristmill-loading", &[0; SIZE])?.into()))
    }

    /// Returns the text, if there is one.
    pub fn read(&self) -> Option<String> {
        let mut bytes = [0; SIZE];
        let size = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let text = bytes[..size].split(|&byte| byte == 0).next()?;
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

impl AsFd for LoadingFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_was_written_last_and_any_bytes_are_one() {
        let file = LoadingFile::new().expect("memory");
        assert_eq!(file.read(), None);
        let write = |bytes: &[u8]| file.0.write_all_at(bytes, 0).expect("memory");
        write(b"importing module numpy\0");
        assert_eq!(file.read().as_deref(), Some("importing module numpy"));
        write(&[0xff; SIZE]);
        assert_eq!(file.read(), Some("\u{fffd}".repeat(SIZE)));
        file.0.set_len(0).expect("it can be cut");
        assert_eq!(file.read(), None);
    }
}
