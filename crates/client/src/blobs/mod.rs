//! Blobs: large parts of arguments and results, which travel by name, once for each node at most, and from node to node.
//!
//! A program's client names them, holds them while a task that names them is not final, and plans who gives them to whom.
//! A lease's engine takes tasks that name what it lacks, has these wait, and says what it needs; its own results it names,
//! and gives. States and races: `README.md` beside this file.

mod asked;
mod awaited;
mod depot;
#[cfg(test)]
mod dropped;
mod facade;
mod feeds;
mod giving;
mod homing;
mod inspector;
mod keeping;
mod kept;
mod naming;
mod options;
mod parts;
mod placing;
#[cfg(test)]
mod poisoned;
#[cfg(test)]
mod renamed;
mod source;
mod staying;
mod tables;
mod taking;
mod telling;
mod traffic;
mod work;

pub use facade::BlobWork;
pub use feeds::Feeds;
pub use homing::Returned;
pub use options::{BlobOptions, BlobSizes};
pub use parts::{BlobHome, BlobLook, BlobParts, BlobPort};
pub use tables::BlobTables;
pub use traffic::BlobTraffic;

pub use depot::{DepotLine, Gate, Rest, Warden};

#[cfg(test)]
pub(crate) use depot::Order as DepotOrder;
pub(crate) use giving::Giving;
pub(crate) use homing::Homing;
pub(crate) use naming::names_of;
pub(crate) use placing::with_names;
pub(crate) use taking::Taking;
pub(crate) use work::TakingWork;
