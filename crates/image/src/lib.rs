//! Images: a Python environment in one file, named by the hash of its bytes.
//!
//! | part | purpose |
//! |---|---|
//! | [`ImageEntry`], [`Content`] | the entries of an image, by name |
//! | [`pack`], [`write_tar`] | writes entries as an image, or as a plain archive for tools that build file systems |
//! | [`unpack`] | unpacks an image into a folder |
//! | [`digest_of_file`], [`copy`] | computes the hash that names an image; copies an image and verifies the hash |
//! | [`head_of`] | reads the header of an image |
//!
//! An image is a zstd-compressed tar archive that `tar` can read. It consists of frames of whole entries: first the
//! folders, then the files, last the links. Several threads write and read an image. No link exists yet while files are
//! unpacked, so no file is written through a link.
//!
//! Guarantees: the same entries give the same bytes, however many threads write them. [`unpack`] succeeds only if all bytes
//! of the image hash to its name. Whatever the bytes of an image are, nothing is written outside the folder, no device and
//! no set-user-id file is made, and no more is unpacked than the image's header says.
//! Not here: locks, caches and the removal of old images, which the callers do.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod frame;
mod header;
mod names;
mod pack;
mod read;
mod unpack;

pub use entry::{Content, ImageEntry};
pub use error::ImageError;
pub use frame::ImageHeader;
pub use pack::{PackOptions, Packed, pack, write_tar};
pub use read::{copy, digest_of_file, head_of};
pub use unpack::{Unpacked, unpack};
