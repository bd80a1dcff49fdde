//! An append-only file of checksummed entries: a key of a few bytes and a value of any size.
//!
//! Guarantees: what [`Journal::append`] has returned for survives the death of the process at any instruction, `kill -9`
//! included; with [`Options::durable`] it survives a power loss too. Whatever is in a file, opening it neither panics nor
//! hangs nor takes more memory than the file is long. A journal has one writer at a time; any number may read meanwhile.
//! Not here: what keys and values mean, an index over them, and the removal of entries.
//!
//! # Why a plain write
//! An entry is one `write(2)`: the kernel owns the bytes when it returns, and a dead process takes nothing back. Measured
//! on the machine that this was built on (ext4, 120 bytes): 1.2 to 1.9 us an entry, and 0.2 to 0.5 us where
//! [`Journal::append_all`] writes many at once. A shared mapping would save that call, but it needs unsafe code, dies by a
//! signal where the disk is full unless every chunk is allocated ahead, and leaves a file longer than its contents.
//!
//! # Layout
//! The file begins with 16 bytes of magic and version. An entry is
//!
//! | bytes | what |
//! |---|---|
//! | 1 | `C` |
//! | 1 | 12 + the size of the key |
//! | 8 | the size of the value, little endian |
//! | 4 | CRC-32C, little endian, over the sizes of key and value (8 bytes each), the key and the value |
//! | 0 to 243 | the key |
//! | 1 | `0` |
//! | any | the value |
//!
//! `C` and `0` are chosen with a purpose: to Python's unpickler, the frame of an entry and the head of the file are bytes
//! that are pushed and dropped again. A journal whose values are pickles is therefore a stream of pickles as well, which
//! every program can read that knows nothing of journals.
//!
//! # Damage
//! The first entry that is incomplete or fails its checksum ends the journal: behind it, no border can be trusted. A
//! writer cuts the file there, a reader leaves it alone; both say how many bytes are lost.
#![forbid(unsafe_code)]

mod checksum;
mod entries;
mod error;
mod format;
mod journal;

pub use entries::{Entries, Entry};
pub use error::JournalError;
pub use format::KEY_SIZE_MAX;
pub use journal::{Journal, Options};
