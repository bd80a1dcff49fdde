//! Files that hold a key, as one line.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use super::KeyError;
use super::error::system;

/// The mode bits that give users other than the owner access.
const OTHERS: u32 = 0o077;
/// The largest size of a key file, bytes: the line, and room for an end of line.
const FILE_SIZE_MAX: usize = 256;

/// Writes a new file that only its owner may read.
pub fn write(path: &Path, text: &str) -> Result<(), KeyError> {
    let mut open = OpenOptions::new();
    let file = open.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(system(path, "create it"))?;
    let mut line = Zeroizing::new(String::with_capacity(FILE_SIZE_MAX));
    line.push_str(text);
    line.push('\n');
    let written = file.write_all(line.as_bytes());
    written.map_err(|error| {
        // Half a key is useless. If the file cannot be removed, reading it reports what is wrong with it.
        let _ = std::fs::remove_file(path);
        system(path, "write to it")(error)
    })
}

/// Reads the line of a file that only its owner may access.
pub fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let file = File::open(path).map_err(system(path, "open it"))?;
    let metadata = file.metadata().map_err(system(path, "look at it"))?;
    if !metadata.is_file() {
        return Err(KeyError::NoFile { path: path.to_owned() });
    }
    if metadata.mode() & OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let mut line = Zeroizing::new(Vec::with_capacity(FILE_SIZE_MAX + 1));
    let read = file.take(FILE_SIZE_MAX as u64).read_to_end(&mut line);
    read.map_err(system(path, "read it"))?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}
