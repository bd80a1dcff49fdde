//! A view of what waits in a pipe, which leaves it in the pipe.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::descriptor::{check_long, pipe};

/// Copies bytes out of pipes. The kernel duplicates references to a pipe's pages into a second pipe, which is empty
/// between two calls.
#[derive(Debug)]
pub(super) struct Peek {
    reader: File,
    writer: OwnedFd,
}

impl Peek {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        Ok(Self { reader: reader.into(), writer })
    }

    /// Copies the first bytes in a pipe into `buffer`. Returns their number: 0 if no process can write to the pipe any
    /// more. It may be less than both the buffer and the pipe hold.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty.
    pub(super) fn copy(&mut self, pipe: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let (from, to) = (pipe.as_raw_fd(), self.writer.as_raw_fd());
        // SAFETY: the call takes integers; both descriptors are open during it.
        let count = unsafe { libc::tee(from, to, buffer.len(), libc::SPLICE_F_NONBLOCK) };
        let count = check_long(libc::c_long::try_from(count).unwrap_or(-1))?;
        let count = usize::try_from(count).unwrap_or(0).min(buffer.len());
        self.reader.read_exact(&mut buffer[..count])?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_copy_leaves_the_bytes_in_the_pipe_and_tells_an_empty_pipe_from_a_closed_one() {
        let mut peek = Peek::new().unwrap();
        let (reader, writer) = pipe().unwrap();
        let mut writer = File::from(writer);
        let mut buffer = [0; 64];
        let empty = peek.copy(reader.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        writer.write_all(b"some ").unwrap();
        writer.write_all(b"text").unwrap();
        for _ in 0..2 {
            let count = peek.copy(reader.as_fd(), &mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"some text");
        }
        assert_eq!(peek.copy(reader.as_fd(), &mut buffer[..3]).unwrap(), 3);
        drop(writer);
        let mut rest = String::new();
        let mut reader = File::from(reader);
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "some text");
        assert_eq!(peek.copy(reader.as_fd(), &mut buffer).unwrap(), 0);
    }
}
