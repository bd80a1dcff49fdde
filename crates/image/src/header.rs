//! The entries of a tar archive, each with its tar header. `frame.rs` has the headers of the image itself.
//!
//! Only the types of entries that a Python environment needs are written (folders, files, symbolic links and long names), and
//! no other type is read. All entries have the same owner and time. Folders have mode 755, links 777, and files 644, or 755 if
//! they are executable. `unpack` uses only the executable bit: the files that it makes are read-only (444 or 555).

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::entry::{Content, ImageEntry};
use crate::error::{ImageError, system};
use crate::names::NAME_SIZE_MAX;

/// Size of a block of an archive, bytes.
pub const BLOCK: usize = 512;
/// First second of 1980, the earliest time that some archive formats know.
const TIME_S: u64 = 315_532_800;
/// Longest name that fits in a block, bytes.
const SHORT_NAME: usize = 100;

/// One entry that was read; its bytes follow in the archive, padded to whole blocks.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub name: PathBuf,
    pub form: Form,
}

/// The type of an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Form {
    Folder,
    File { size: u64, is_executable: bool },
    Link(PathBuf),
}

/// The reason why the next entry could not be read.
#[derive(Debug)]
pub enum Fault {
    /// The archive breaks a rule.
    Rule(&'static str),
    /// The bytes could not be read.
    Bytes(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Bytes(error)
    }
}

/// Writes an entry with its bytes to `out`. Errors say "compress it" even if `out` does not compress.
pub fn write_entry(entry: &ImageEntry, out: &mut impl Write) -> Result<(), ImageError> {
    let fail = || system(&entry.name, "compress it");
    let mut name = entry.name.as_os_str().as_bytes().to_vec();
    let (kind, mode, target) = match &entry.content {
        Content::Folder => {
            name.push(b'/');
            (b'5', 0o755, &b""[..])
        }
        Content::Piece { is_executable, .. } | Content::Made { is_executable, .. } => {
            (b'0', if *is_executable { 0o755 } else { 0o644 }, &b""[..])
        }
        Content::Link(target) => (b'2', 0o777, target.as_os_str().as_bytes()),
    };
    for (kind, long) in [(b'K', target), (b'L', &name)] {
        if long.len() > SHORT_NAME {
            let size = long.len() as u64 + 1;
            out.write_all(&block(kind, (b"././@LongLink", b""), 0o644, size)).map_err(fail())?;
            out.write_all(long).map_err(fail())?;
            out.write_all(&vec![0; 1 + padding(size)]).map_err(fail())?;
        }
    }
    let size = entry.content.size();
    out.write_all(&block(kind, (&name, target), mode, size)).map_err(fail())?;
    entry.copy_to(out)?;
    out.write_all(&[0; BLOCK][..padding(size)]).map_err(fail())
}

/// Returns the number of zero bytes that must follow `size` bytes to end at a block boundary.
pub fn padding(size: u64) -> usize {
    let over = size % BLOCK as u64;
    usize::try_from((BLOCK as u64 - over) % BLOCK as u64).unwrap_or(0)
}

fn block(kind: u8, (name, target): (&[u8], &[u8]), mode: u64, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let put = |block: &mut [u8; BLOCK], at: usize, room: usize, bytes: &[u8]| {
        let count = bytes.len().min(room);
        block[at..at + count].copy_from_slice(&bytes[..count]);
    };
    put(&mut block, 0, SHORT_NAME, name);
    put(&mut block, 157, SHORT_NAME, target);
    for (at, room, number) in
        [(100, 8, mode), (108, 8, 0), (116, 8, 0), (124, 12, size), (136, 12, TIME_S)]
    {
        put_number(&mut block[at..at + room], number);
    }
    block[156] = kind;
    put(&mut block, 257, 8, b"ustar  \0");
    let sum = sum_of(&block);
    put(&mut block, 148, 8, format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Writes a number in octal digits. A number with too many digits is written as GNU tar does: in binary, after a mark.
fn put_number(field: &mut [u8], number: u64) {
    let digits = format!("{number:0width$o}", width = field.len() - 1);
    if digits.len() < field.len() {
        field[..digits.len()].copy_from_slice(digits.as_bytes());
        return;
    }
    let from = field.len() - 8;
    field[from..].copy_from_slice(&number.to_be_bytes());
    field[0] = 0x80;
}

fn number_of(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 && field.len() > 8 {
        let (zeros, bytes) = field[1..].split_at(field.len() - 9);
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        return zeros.iter().all(|byte| *byte == 0).then(|| u64::from_be_bytes(number));
    }
    let end = field.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(field.len());
    u64::from_str_radix(std::str::from_utf8(&field[..end]).ok()?, 8).ok()
}

/// Returns the sum of a block's bytes, with the checksum field counted as spaces.
fn sum_of(block: &[u8; BLOCK]) -> u64 {
    let own = 148..156;
    let byte = |(at, byte): (usize, &u8)| if own.contains(&at) { b' ' } else { *byte };
    block.iter().enumerate().map(|one| u64::from(byte(one))).sum()
}

/// Reads the header of the next entry, and leaves the entry's bytes unread. Returns `None` at the end of the archive.
pub fn read_entry(from: &mut impl Read) -> Result<Option<Found>, Fault> {
    let (mut name, mut target) = (None, None);
    loop {
        let mut block = [0; BLOCK];
        if !read_block(from, &mut block)? || block == [0; BLOCK] {
            let is_whole = name.is_none() && target.is_none();
            return is_whole.then_some(None).ok_or(Fault::Rule("a long name without an entry"));
        }
        if number_of(&block[148..156]) != Some(sum_of(&block)) {
            return Err(Fault::Rule("an entry's checksum is wrong"));
        }
        let size = number_of(&block[124..136]).ok_or(Fault::Rule("a size is no number"))?;
        let mode = number_of(&block[100..108]).ok_or(Fault::Rule("a mode is no number"))?;
        let form = match block[156] {
            b'L' if name.is_none() => {
                name = Some(read_name(from, size)?);
                continue;
            }
            b'K' if target.is_none() => {
                target = Some(read_name(from, size)?);
                continue;
            }
            b'5' if size == 0 => Form::Folder,
            b'0' => Form::File { size, is_executable: mode & 0o100 != 0 },
            b'2' if size == 0 => {
                let target = target.take().unwrap_or_else(|| short(&block[157..257]));
                Form::Link(path_of(target))
            }
            // Any other type, a second long name, and a folder or link with a size.
            _ => return Err(Fault::Rule("an entry is neither folder, file nor link")),
        };
        let mut name = name.unwrap_or_else(|| short(&block[..SHORT_NAME]));
        if form == Form::Folder && name.last() == Some(&b'/') {
            name.pop();
        }
        return Ok(Some(Found { name: path_of(name), form }));
    }
}

fn short(field: &[u8]) -> Vec<u8> {
    field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn read_name(from: &mut impl Read, size: u64) -> Result<Vec<u8>, Fault> {
    let whole = usize::try_from(size).ok().filter(|size| (1..=NAME_SIZE_MAX + 2).contains(size));
    let whole = whole.ok_or(Fault::Rule("a name is too long"))?;
    let mut bytes = vec![0; whole + padding(size)];
    from.read_exact(&mut bytes)?;
    bytes.truncate(whole - 1);
    Ok(bytes)
}

/// Reads the next block. Returns false at the end.
fn read_block(from: &mut impl Read, block: &mut [u8; BLOCK]) -> Result<bool, Fault> {
    let mut count = 0;
    while count < BLOCK {
        match from.read(&mut block[count..]) {
            Ok(0) if count == 0 => return Ok(false),
            Ok(0) => return Err(Fault::Rule("an entry is cut off")),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
