//! Images: an environment as one file, named by the hash of its bytes.
//!
//! | part | what it is |
//! |---|---|
//! | [`Entry`], [`Content`] | what goes into an image, by name |
//! | [`pack`], [`write_tar`] | entries to an image, or to a plain archive for programs that make file systems of those |
//! | [`unpack`] | an image to a folder |
//! | [`digest_of_file`], [`copy`] | the name of an image; a copy that has it |
//!
//! An image is a zstd-compressed tar archive that `tar` can read. It is cut into frames of whole entries: first the
//! folders, then files, at last links. Several threads write and read it; files meet no link on their way.
//!
//! Guarantees: the same entries give the same bytes, however many threads write them; nothing is said to be unpacked before
//! all bytes of the image were found to hash to its name; nothing is written outside the folder, no device and no
//! set-user-id file is made, and no more than the image says it holds, whatever its bytes are.
//! Not here: locks, caches and what is removed when; the callers have them.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod frame;
mod header;
mod names;
mod pack;
mod read;
mod unpack;

pub use entry::{Content, Entry};
pub use error::ImageError;
pub use frame::Head;
pub use pack::{PackOptions, Packed, pack, write_tar};
pub use read::{copy, digest_of_file, head_of};
pub use unpack::{Unpacked, unpack};
