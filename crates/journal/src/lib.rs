//! An append-only file of checksummed entries: a key of a few bytes and a value of any size.
//!
//! Guarantees: an entry survives the death of the process at any instruction, `kill -9` included, once [`Journal::append`]
//! has returned. With [`JournalOptions::durable`] it survives a power loss too. Whatever bytes a file has, opening it does
//! not panic, does not hang, and takes no more memory than the file is long. A journal has one writer at a time; any number
//! of readers may run meanwhile.
//! Not here: the meaning of keys and values, an index over them, and the removal of entries.
//!
//! # Why a plain write
//! An entry is one `pwrite(2)`, or two if its value is longer than 64 KiB. When the call returns, the kernel owns the bytes,
//! and the death of the process does not undo the call.
//! Measured on the build machine (ext4, entries of 120 bytes): 1.2 to 1.9 us an entry, and 0.2 to 0.5 us if
//! [`Journal::append_all`] writes many at once. A shared mapping would save the call. But it needs unsafe code, dies of a
//! signal on a full disk unless every chunk is allocated ahead, and leaves a file longer than its contents.
//!
//! # Layout
//! The file begins with 16 bytes of magic and version. An entry has these fields; all of them but the value are its *frame*:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | `C` |
//! | 1 | 12 + the size of the key |
//! | 8 | the size of the value, little endian |
//! | 4 | CRC-32C, little endian, over the sizes of key and value (8 bytes each), the key and the value |
//! | 0 to 243 | the key |
//! | 1 | `0` |
//! | any | the value |
//!
//! `C` and `0` are opcodes of Python's unpickler: it pushes the bytes between them, and drops them again. It thus skips the
//! frame of each entry, and in the same way the header of the file. If the values are pickles, the journal is therefore a
//! stream of pickles that programs can read without this crate.
//!
//! # Damage
//! The first entry that is incomplete or fails its checksum ends the journal: after it, no entry boundary can be trusted. A
//! writer cuts the file there, and a reader leaves it alone; both report the number of lost bytes.
#![forbid(unsafe_code)]

mod checksum;
mod entries;
mod error;
mod format;
mod journal;

pub use entries::{Entries, JournalEntry};
pub use error::JournalError;
pub use format::KEY_SIZE_MAX;
pub use journal::{Journal, JournalOptions};
